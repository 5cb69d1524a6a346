"""The OpenAI Responses format, used without keeping state on the server: each request contains the whole conversation.

An answer's output items are kept and sent back to the same provider unchanged, in order, including encrypted reasoning.
All other answers are rebuilt from their text and tool calls. Format:
https://developers.openai.com/api/reference/resources/responses
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nbagent.core.content.documents import is_document
from nbagent.core.content.images import image_url
from nbagent.core.events import Context, Event, Http, Text, Thinking, ToolCallDelta
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, parse_arguments
from nbagent.errors import IncompleteStreamError, InvalidResponseError
from nbagent.providers.formats import responses_tools
from nbagent.providers.formats.codec import COMPACTED, Call, Codec, Decoder, Messages, dumps, fitting_id, new_call_id
from nbagent.providers.formats.errors import error_in_answer
from nbagent.providers.formats.images import AnswerImages
from nbagent.providers.formats.openai_chat import schema_format, usage_of
from nbagent.providers.formats.refused import Changes
from nbagent.providers.formats.tool_schema import declared
from nbagent.providers.options.resolved import ResolvedOptions
from nbagent.providers.provider_facts import ProviderFacts
from nbagent.providers.tool_names import fitting_name

_ENCRYPTED = "reasoning.encrypted_content"
#: The API refuses longer call ids.
_CALL_ID = ".{1,64}"
#: By the status, or by the reason for an incomplete answer. For any other, `finish_reason` is None.
FINISH_REASONS = {
    "completed": "stop",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
#: The item's field that grows with each event.
_DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "content",
    "response.function_call_arguments.delta": "arguments",
}
_TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
#: The break between the parts of a reasoning item.
_PARAGRAPH = "\n\n"


class _OpenItem:
    """An output item that is still arriving: its start, its pieces by field, and its end."""

    __slots__ = ("ended", "part", "pieces", "start")

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self.ended: dict[str, Any] | None = None
        self.pieces: dict[str, list[str]] = {}
        self.part = 0

    def joined(self) -> dict[str, Any]:
        """The item, joined from its pieces, since its end never arrived."""
        item = dict(self.start)
        grown = {name: "".join(pieces) for name, pieces in self.pieces.items()}
        if "arguments" in grown:
            item["arguments"] = grown["arguments"]
        if "text" in grown or "refusal" in grown:
            parts = [{"type": "output_text", "text": grown["text"], "annotations": []}] if "text" in grown else []
            parts += [{"type": "refusal", "refusal": grown["refusal"]}] if "refusal" in grown else []
            item |= {"type": "message", "role": "assistant", "content": parts}
        for name, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
            if name in grown:
                item |= {"type": "reasoning", name: [{"type": kind, "text": grown[name]}]}
        return item


class ResponsesDecoder(Decoder):
    """Decodes one answer. `output_index` shows which pieces belong together, since some servers keep changing ids."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._message: dict[str, Any] = {}
        self._items: defaultdict[int, _OpenItem] = defaultdict(_OpenItem)

    def feed(self, event: dict[str, Any]) -> list[Event]:
        """See `Decoder`. Events of unknown types are ignored."""
        kind = event.get("type")
        if kind in _DELTAS:
            return self._delta(event["output_index"], _DELTAS[kind], event)
        if kind == "response.output_item.added":
            return self._item_started(event["output_index"], event["item"])
        if kind == "response.output_item.done":
            return self._item_ended(event["output_index"], event["item"])
        if kind == "response.function_call_arguments.done":
            return self._whole_arguments(event["output_index"], event.get("arguments") or "")
        if kind in ("response.created", "response.in_progress"):
            self._message |= event["response"]
        elif kind in _TERMINAL:
            return self._finished({"status": str(kind).removeprefix("response."), **event["response"]})
        elif kind == "error" or event.get("error"):
            raise error_in_answer(event)
        return []

    def feed_body(self, body: dict[str, Any]) -> None:
        """See `Decoder`. The body has the same form as the response in a stream's last event."""
        if body.get("error") or body.get("object") == "error":
            raise error_in_answer(body)
        if not isinstance(body.get("output"), list):
            raise InvalidResponseError("the answer has no output")
        if body.get("status") in ("in_progress", "queued"):
            raise InvalidResponseError("the answer is not ready: background=True is not supported")
        self._finished(body)

    def finish(self) -> LLMResponse:
        """See `Decoder`."""
        if not self.done:
            raise IncompleteStreamError("the stream ended without response.completed")
        items = [item.ended or item.joined() for _, item in sorted(self._items.items())]
        details: dict[str, Any] = self._message.get("incomplete_details") or {}
        reason = details.get("reason") or self._message.get("status") or ""
        cut = FINISH_REASONS.get(reason) == "length"
        uses = [item for item in items if item.get("type") == "function_call"]
        calls = [_function_call(item, cut and item is items[-1]) for item in uses]
        if usage := self._message.get("usage"):  # the tier decides the price
            self._take_usage({**usage, "service_tier": self._message.get("service_tier")})
        self._model, self._id = self._message.get("model"), self._message.get("id")
        parts = _message_parts(items)
        return self._response(
            text_of(items),
            calls,
            FINISH_REASONS.get(reason),
            usage_of(self._usage),
            {"items": items},
            word=reason or None,
            thinking="".join(map(_thinking_of, items)),
            citations=responses_tools.citations_of(parts),
            refusal="".join(part.get("refusal") or "" for part in parts),
            parts=_parts_with_images(items),
        )

    def _item_started(self, index: int, item: dict[str, Any]) -> list[Event]:
        self._items[index].start = dict(item)
        if item.get("type") == "function_call":
            return [ToolCallDelta("", item.get("name"), metadata={"index": index})]
        if name := responses_tools.NAMES.get(item.get("type") or ""):  # its arguments are known only at its end
            return [Http(name, metadata={"wire_id": item.get("id") or ""})]
        return []

    def _delta(self, index: int, name: str, event: Mapping[str, Any]) -> list[Event]:
        item, piece = self._items[index], event["delta"]
        if not piece:
            return []
        if name in ("summary", "content"):
            return self._thinking(item, name, piece, event.get(f"{name}_index") or 0)
        item.pieces.setdefault(name, []).append(piece)
        if name == "arguments":
            return [ToolCallDelta(piece, item.start.get("name"), metadata={"index": index})]
        return [Text(piece)]

    def _thinking(self, item: _OpenItem, name: str, piece: str, part: int) -> list[Event]:
        """Thinking may arrive both in full and as a summary. Whichever comes first is shown."""
        pieces = item.pieces.setdefault(name, [])
        if pieces and part != item.part:
            piece = _PARAGRAPH + piece
        pieces.append(piece)
        if name != next(iter(item.pieces)):
            return []
        item.part = part
        return [Thinking(piece)]

    def _whole_arguments(self, index: int, arguments: str) -> list[Event]:
        item = self._items[index]
        shown = "arguments" in item.pieces
        item.pieces["arguments"] = [arguments]
        return [] if shown else [ToolCallDelta(arguments, item.start.get("name"), metadata={"index": index})]

    def _item_ended(self, index: int, ended: dict[str, Any]) -> list[Event]:
        """An item has ended, in the form to send back. If it had no pieces, it is shown now."""
        item = self._items[index]
        events = [] if item.start else self._item_started(index, ended)
        item.ended = dict(ended)
        if ended.get("type") == "compaction":
            return [*events, Context(COMPACTED)]
        if call := responses_tools.call_of(ended):
            return [*events, *self._tool_ended(call)]
        return events if item.pieces else [*events, *_shown(index, ended)]

    def _finished(self, response: Mapping[str, Any]) -> list[Event]:
        """The terminal event. Its `output`, often empty or with other ids, completes items without an end."""
        if response.get("status") in ("failed", "cancelled") or response.get("error"):
            raise error_in_answer(
                {"error": response.get("error") or f"the response has status {response.get('status')}"}
            )
        self._message |= response
        self.done = True
        nothing_came = not self._items
        events: list[Event] = []
        for index, ended in enumerate(response.get("output") or ()):
            item = self._items.get(index)
            unended = item is not None and item.ended is None and item.start.get("type") == ended.get("type")
            if nothing_came or unended:
                events += self._item_ended(index, ended)
        return events


def _parts_with_images(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The text and images of output items; empty without images."""
    images, place = AnswerImages(), 0
    for item in items:
        place += len(text_of([item]))
        for image in responses_tools.images_of(item):
            images.add(place, image)
    return images.parts(text_of(items))


def text_of(items: Iterable[Mapping[str, Any]]) -> str:
    """The text of output items, joined without breaks like the SDK's `output_text`. A refusal counts as text."""
    return "".join(part.get("text") or part.get("refusal") or "" for part in _message_parts(items))


def _message_parts(items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    parts = [part for item in items if item.get("type") == "message" for part in item.get("content") or ()]
    return [part for part in parts if part.get("type") in ("output_text", "refusal")]


def _thinking_of(item: Mapping[str, Any]) -> str:
    """The thinking in one item: its summary, else in full."""
    if item.get("type") != "reasoning":
        return ""
    parts = item.get("summary") or item.get("content") or ()
    return _PARAGRAPH.join(part.get("text") or "" for part in parts)


def _shown(index: int, item: Mapping[str, Any]) -> list[Event]:
    """A whole item as events."""
    if item.get("type") == "function_call":
        arguments = item.get("arguments") or ""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return [ToolCallDelta(text, item.get("name"), metadata={"index": index})]
    if thinking := _thinking_of(item):
        return [Thinking(thinking)]
    text = text_of([item])
    return [Text(text)] if text else []


def _function_call(item: dict[str, Any], cut: bool) -> FunctionCall:
    """The call in an item. If the token limit cut it off before its arguments, they are unreadable, not empty."""
    arguments, raw = parse_arguments(item.get("arguments"))
    if not item.get("arguments") and (cut or item.get("status") == "incomplete"):
        raw = ""
    item["call_id"] = item.get("call_id") or item.get("id") or new_call_id()
    return FunctionCall(item.get("name") or "", arguments, item["call_id"], raw)


class ResponsesCodec(Codec):
    """The codec for OpenAI Responses, configured by one provider's facts. Models without `reasoning` refuse the
    reasoning fields.
    """

    format = "openai_responses"
    decoder_class = ResponsesDecoder
    request_path = "/responses"
    conversation, native = "input", "items"

    def __init__(self, facts: ProviderFacts, reasoning: bool = True) -> None:
        self.reasoning = reasoning
        super().__init__(facts)

    def _encoding_facts(self) -> tuple[object, ...]:
        return (self.facts.name, self.reasoning)

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `Codec`."""
        response_format = schema_format(name, schema)["response_format"]
        return {"text": {"format": {"type": response_format["type"], **response_format["json_schema"]}}}

    def _head(self, model: str, options: ResolvedOptions, system: str) -> dict[str, Any]:
        head: dict[str, Any] = {"model": model, "stream": options.stream, "store": False}
        head |= self._common_fields(options)
        fields = _fields(options.extra)
        if self.reasoning and fields.get("include") != []:
            fields["include"] = list(dict.fromkeys([_ENCRYPTED, *fields.get("include", ())]))
        if options.tools:
            fields["tools"] = [*map(_tool, options.tools), *fields.get("tools", ())]
        return head | fields

    def _fragments(self, messages: Messages, reminder: Messages, head: dict[str, Any], changes: Changes) -> list[bytes]:
        return [
            items for message in _without_repeats([*messages, *reminder]) if (items := self.encode_message(message))
        ]

    def _input_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        if isinstance(message.content, str) or message.role != "user":
            return [_message(message.role, message.text)]
        return [_message("user", [_part(part) for part in message.content])]

    def _result_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        output = message.content if isinstance(message.content, str) else [_part(part) for part in message.content]
        call_id = fitting_id(message.tool_call_id, _CALL_ID)
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]

    def _answer_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        calls = [
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls or []
        ]
        return ([_message("assistant", message.text)] if message.text else []) + [self._fitting(call) for call in calls]

    def _text_and_calls(self, pieces: list[dict[str, Any]]) -> tuple[str, list[Call]]:
        uses = [item for item in pieces if item.get("type") == "function_call"]
        return text_of(pieces), [
            (item.get("call_id"), item.get("name"), parse_arguments(item.get("arguments"))[0]) for item in uses
        ]

    def _sendable(self, pieces: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """Reasoning is sent back only to models that reason, and only with content: the server stores nothing.

        The API refuses reasoning that is not followed by another item.
        """
        thoughts = [item for item in pieces if item.get("type") == "reasoning"]
        has_content = all(item.get("encrypted_content") or item.get("content") for item in thoughts)
        if thoughts and not (self.reasoning and has_content):
            return None
        end = len(pieces)
        while end and pieces[end - 1].get("type") == "reasoning":
            end -= 1
        return [self._fitting(item) for item in pieces[:end]]

    def _fitting(self, item: dict[str, Any]) -> dict[str, Any]:
        """The item with a valid id, name and arguments. Missing and unreadable arguments become `"{}"`."""
        if item.get("type") != "function_call":
            return item
        sent = item.get("arguments")
        arguments, raw = parse_arguments(sent)
        text = sent if sent and isinstance(sent, str) and raw is None else dumps(arguments).decode()
        call_id, name = fitting_id(item["call_id"], _CALL_ID), fitting_name(item.get("name"))
        return item | {"call_id": call_id, "name": name, "arguments": text}


def _without_repeats(messages: Messages) -> Iterator[LLMMessage]:
    """The messages, with repeated answers rebuilt from their text and calls, since no item may occur twice."""
    seen: set[str] = set()
    for message in messages:
        extras = message.provider_extras
        items = extras.get("items") or () if isinstance(extras, dict) else ()
        ids = {item["id"] for item in items if isinstance(item.get("id"), str)}
        yield message if seen.isdisjoint(ids) else message.replace(provider_extras=None)
        seen |= ids


def _message(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    """A content part. Parts of unknown kinds are sent unchanged."""
    if part.get("type") == "text":
        return {"type": "input_text", "text": part.get("text", "")}
    if part.get("type") == "image":
        return {"type": "input_image", "image_url": image_url(part), "detail": "auto"}
    if is_document(part):
        return {"type": "input_file", "filename": part["name"], "file_data": image_url(part)}
    return dict(part)


def _tool(item: Mapping[str, Any]) -> dict[str, Any]:
    """A function. By default its schema is not enforced, since `strict` allows no optional parameters."""
    return {
        "type": "function",
        **declared(item),
        "strict": item.get("strict", False),
        **item.get("provider_fields", {}),
    }


def _fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The body fields. Chat-completions fields are renamed, so users need not know which API is used."""
    options = dict(extra)
    for name in ("max_tokens", "max_completion_tokens"):
        if name in options:
            options["max_output_tokens"] = options.pop(name)
    if "reasoning_effort" in options:
        options["reasoning"] = {**(options.get("reasoning") or {}), "effort": options.pop("reasoning_effort")}
    choice = options.get("tool_choice")
    if isinstance(choice, dict) and "function" in choice:
        options["tool_choice"] = {"type": "function", **choice["function"]}
    return options
