"""The OpenAI chat-completions format of OpenAI and many other providers and servers.

Encoding follows the provider's facts. Decoding doesn't: every known dialect is understood, whichever
provider sent it.

- Thinking arrives as `reasoning_content`, `reasoning`, `reasoning_details`, content parts or `<think>` tags.
- Tool calls arrive in pieces or whole, with missing, shared or repeated indexes, ids and names.
- Images arrive next to the text or among its parts.
- Usage arrives in any chunk, or in several.

Format: https://developers.openai.com/api/reference/resources/chat
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress, groupby, pairwise
from typing import Any

from nbagent.core.content.documents import is_document
from nbagent.core.content.images import has_image, image_url
from nbagent.core.events import Event, Text, Thinking, ToolCallDelta
from nbagent.core.history.repair import CONTINUE
from nbagent.core.messages import Content, FunctionCall, LLMMessage, LLMResponse, Usage, parse_arguments
from nbagent.errors import IncompleteStreamError, ServerError
from nbagent.providers.formats import chat_tools
from nbagent.providers.formats.codec import Codec, Decoder, Messages, dumps, fitting_id, new_call_id, token_count
from nbagent.providers.formats.errors import error_in_answer
from nbagent.providers.formats.images import AnswerImages
from nbagent.providers.formats.refused import ROLES, Changes
from nbagent.providers.formats.role_groups import OPENING
from nbagent.providers.formats.sse import DONE
from nbagent.providers.formats.strict_schema import strict_schema
from nbagent.providers.formats.think_tags import ThinkTags, split_missing_open
from nbagent.providers.formats.tool_schema import declared, plain_schema
from nbagent.providers.options.resolved import ResolvedOptions
from nbagent.providers.provider_facts import ProviderFacts
from nbagent.providers.tool_names import fitting_name

#: Keywords that a schema for a whole answer must not contain.
_NOT_STRICT = ("default", "prefixItems", "uniqueItems")
#: The answer between a tool's result and the user's message, for servers that require one.
_ACKNOWLEDGED = LLMMessage("assistant", "OK.")
#: The providers' finish reasons. For any other, `finish_reason` is None.
FINISH_REASONS = {
    **dict.fromkeys(("stop", "eos", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("content_filter", "sensitive"), "content_filter"),
    "refusal": "refusal",
}
#: A delta's fields other than its text. Most deltas have none of them.
_REASONING = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
_RARE = frozenset({"images", "annotations", "tool_calls", "function_call", "refusal"})
#: The finish reasons of an answer that the provider broke off.
_BROKEN_OFF = {"error", "network_error", "insufficient_system_resource"}


@dataclass(slots=True, eq=False)
class _OpenCall:
    """A tool call that is still arriving. `key` is the provider's own index."""

    index: int
    key: Any
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra_content: Any = None

    @property
    def whole(self) -> bool:
        """Whether the arguments are already a complete JSON value."""
        try:
            json.loads("".join(self.pieces))
        except (ValueError, RecursionError):
            return False
        return True


class ChatDecoder(Decoder):
    """Decodes one answer."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._answered = False
        self._tags = ThinkTags()
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._native: dict[str, Any] = {}
        #: The pieces of its growing texts, by their index in `reasoning_details` (None if elsewhere) and their name.
        self._grown: defaultdict[tuple[int | None, str], list[str]] = defaultdict(list)
        self._calls: list[_OpenCall] = []
        self._answer_images = AnswerImages()
        #: The text's citations, and the pages that Zhipu's search found.
        self._annotations: list[dict[str, Any]] = []
        self._found: list[dict[str, Any]] = []
        self._finish: str | None = None
        self._refusal: list[str] = []
        self._tier: str | None = None

    @property
    def complete(self) -> bool:
        """Whether `[DONE]` or a finish reason has arrived."""
        return self.done or self._finish is not None

    def feed(self, event: dict[str, Any]) -> list[Event]:
        """See `Decoder`."""
        if event is DONE:
            self.done = True
            return []
        choices = event.get("choices")
        if not choices or "error" in event or "base_resp" in event:
            self._check(event)
        usage = event.get("usage")
        if usage or "x_groq" in event:
            self._take_usage(usage or (event["x_groq"] or {}).get("usage"))
        self._tier = event.get("service_tier") or self._tier
        self._model = self._model or event.get("model")
        self._id = self._id or event.get("id")
        events: list[Event] = []
        if not self._found and (found := event.get("web_search")):
            self._found = found
            events += self._tool_ended(chat_tools.search_of(found))
        for choice in choices or ():
            if not choice.get("index"):  # other choices can't have been requested
                self._choice(choice, events)
        return events

    def feed_body(self, body: dict[str, Any]) -> None:
        """See `Decoder`. The body is decoded like a stream with one chunk."""
        self.feed(body)
        self.feed(DONE)

    def finish(self) -> LLMResponse:
        """See `Decoder`."""
        if self._finish in _BROKEN_OFF:
            raise ServerError(f"the provider cut the answer short ({self._finish})", should_retry=True)
        if not self.complete:
            raise IncompleteStreamError("the stream ended without a finish reason or [DONE]")
        if not self._answered:
            raise IncompleteStreamError("the answer has no choices")
        self._add(*self._tags.flush(), [])
        text, thinking = "".join(self._text), "".join(self._thinking)
        reason = FINISH_REASONS.get(self._finish or "")
        if self._tags.unclosed and not text and not self._calls and reason == "stop":  # the answer was about the tag
            text, thinking = self._tags.unclosed + thinking, ""
        if "</" in text and not thinking:
            text, thinking = split_missing_open(text)
        calls = [self._function_call(call) for call in self._calls]
        if self._usage:  # the tier decides the price
            self._take_usage({"service_tier": self._tier})
        return self._response(
            text,
            calls,
            reason,
            usage_of(self._usage),
            self._native_data(),
            word=self._finish,
            thinking=thinking,
            citations=chat_tools.citations_of(self._annotations, self._found, text),
            refusal="".join(self._refusal),
            parts=self._answer_images.parts(text),
        )

    def _check(self, event: Mapping[str, Any]) -> None:
        """Raise an error that was sent instead of an answer."""
        base = event.get("base_resp")
        if event.get("error") or event.get("object") == "error" or (base and base.get("status_code")):
            raise error_in_answer(event)

    def _choice(self, choice: Mapping[str, Any], events: list[Event]) -> None:
        delta = choice.get("delta")
        if delta is None and not self._answered:  # after a stream, the message would repeat everything
            delta = choice.get("message")
        self._answered = True
        if choice.get("error"):
            raise error_in_answer(choice)
        if delta:
            if not _REASONING.isdisjoint(delta):
                self._reasoning(delta, events)
            if content := delta.get("content"):
                self._content(content, events)
            if not _RARE.isdisjoint(delta):
                self._rare_fields(delta, events)
        if choice.get("usage"):
            self._take_usage(choice["usage"])
        if finish := choice.get("finish_reason"):
            self._finish = finish

    def _rare_fields(self, delta: Mapping[str, Any], events: list[Event]) -> None:
        """Anything in a delta except thinking and text."""
        if images := delta.get("images"):
            self._images(images)
        self._annotations += [note for note in delta.get("annotations") or () if note not in self._annotations]
        for call in delta.get("tool_calls") or ():
            self._call_delta(call, events)
        if function := delta.get("function_call"):  # the form before tool_calls
            self._call_delta({"index": 0, "function": function}, events)
        if refusal := delta.get("refusal"):
            self._refusal.append(refusal)
            self._add(refusal, "", events)

    def _reasoning(self, delta: Mapping[str, Any], events: list[Event]) -> None:
        """Thinking, which may come in several fields at once: one is shown, all are kept to be sent back."""
        shown = ""
        for key in ("reasoning_content", "reasoning"):
            piece = delta.get(key)
            if piece and isinstance(piece, str):
                self._grown[None, key].append(piece)
                shown = shown or piece
        if details := delta.get("reasoning_details"):
            self._merge_details(details)
            shown = shown or "".join(item.get("text") or item.get("summary") or "" for item in details)
        if shown:
            self._tags.skip()
            self._thinking.append(shown)
            events.append(Thinking(shown))

    def _merge_details(self, details: list[Any]) -> None:
        """Add OpenRouter's `reasoning_details`. Texts of the same index and type grow; other values are replaced."""
        kept = self._native.setdefault("reasoning_details", [])
        for item in details:
            if not isinstance(item, dict):
                continue
            last = kept[-1] if kept else None
            if last and all(last.get(key) == item.get(key) for key in ("type", "index")) and "data" not in item:
                for key, value in item.items():
                    if key in ("text", "summary") and value:
                        self._grown[len(kept) - 1, key].append(value)
                    elif value is not None:
                        last[key] = value
            else:
                kept.append(dict(item))

    def _content(self, content: str | list[Any] | dict[str, Any], events: list[Event]) -> None:
        if isinstance(content, str):
            if self._tags.seeking:
                self._add(*self._tags.feed(content), events)
            else:
                self._text.append(content)
                events.append(Text(content))
            return
        if isinstance(content, dict):  # Workers AI sends an answer in a JSON schema as an object
            self._add(json.dumps(content, ensure_ascii=False), "", events)
            return
        for part in content:
            if isinstance(part, str):
                self._content(part, events)
            elif part.get("type") == "thinking":
                self._add("", _flat_text(part.get("thinking")), events)
            elif part.get("type") == "image_url":
                self._images([part])
            elif text := part.get("text"):
                self._add(_flat_text(text), "", events)

    def _images(self, images: list[Any]) -> None:
        """Generated images: kept unchanged, and shown at their place in the text."""
        kept = self._native.setdefault("images", [])
        for image in images:
            if image not in kept:
                kept.append(image)
                self._answer_images.add(sum(map(len, self._text)), (image.get("image_url") or {}).get("url"))

    def _add(self, text: str, thinking: str, events: list[Event]) -> None:
        if thinking:
            self._thinking.append(thinking)
            events.append(Thinking(thinking))
        if text:
            self._text.append(text)
            events.append(Text(text))

    def _call_delta(self, delta: Mapping[str, Any], events: list[Event]) -> None:
        function = delta.get("function") or {}
        call = self._call_of(delta.get("index"), delta.get("id") or "", function.get("name") or "")
        piece = function.get("arguments")
        if piece is None:
            piece = ""
        elif not isinstance(piece, str):
            piece = json.dumps(piece)
        call.pieces.append(piece)
        call.extra_content = delta.get("extra_content") or call.extra_content
        events.append(ToolCallDelta(piece, call.name or None, metadata={"index": call.index}))

    def _call_of(self, key: Any, call_id: str, name: str) -> _OpenCall:
        """The call that a delta belongs to: by its index, else its id, else the last one. See `_starts_another`."""
        if key is not None:
            call = next((call for call in reversed(self._calls) if call.key == key), None)
        elif call_id:
            call = next((call for call in self._calls if call.id == call_id), None)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or _starts_another(call, call_id, name):
            call = _OpenCall(len(self._calls), key)
            self._calls.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        return call

    def _function_call(self, call: _OpenCall) -> FunctionCall:
        """The call. If the token limit cut it off before its arguments, they count as unreadable, not as empty."""
        arguments, raw = parse_arguments("".join(call.pieces))
        if FINISH_REASONS.get(self._finish or "") == "length" and call is self._calls[-1] and not any(call.pieces):
            raw = ""
        call.id = call.id or new_call_id()
        return FunctionCall(call.name, arguments, call.id, raw)

    def _native_data(self) -> dict[str, Any]:
        for (place, name), pieces in self._grown.items():
            item = self._native if place is None else self._native["reasoning_details"][place]
            item[name] = (item.get(name) or "") + "".join(pieces)
        signed = {call.id: call.extra_content for call in self._calls if call.extra_content}
        return {**self._native, **({"extra_content": signed} if signed else {})}


def _starts_another(call: _OpenCall, call_id: str, name: str) -> bool:
    """Whether a delta whose index is in use starts another call.

    Some servers give all calls index 0; others repeat the name in every delta, or create a new id for each. So a delta
    starts another call if it has a name and either another id, or no id while the arguments so far are complete.
    """
    if not name or not call.name:
        return False
    if call_id and call.id:
        return call_id != call.id
    return call.whole


def _flat_text(value: Any) -> str:
    """The text of a string or a list of text parts."""
    if isinstance(value, str):
        return value
    return "".join(_flat_text(item.get("text")) for item in value or () if isinstance(item, dict))


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """The token counts of any dialect's usage object; 0 for a missing count."""
    prompt = raw.get("prompt_tokens_details") or raw.get("input_tokens_details") or {}
    completion = raw.get("completion_tokens_details") or raw.get("output_tokens_details") or {}
    return Usage(
        input_tokens=token_count(raw.get("prompt_tokens"), raw.get("input_tokens")),
        output_tokens=token_count(raw.get("completion_tokens"), raw.get("output_tokens")),
        cache_read_tokens=token_count(
            prompt.get("cached_tokens"), raw.get("prompt_cache_hit_tokens"), raw.get("cached_tokens")
        ),
        cache_write_tokens=token_count(prompt.get("cache_write_tokens"), prompt.get("cache_creation_input_tokens")),
        reasoning_tokens=token_count(completion.get("reasoning_tokens"), raw.get("reasoning_tokens")),
    )


class ChatCodec(Codec):
    """The codec for chat completions, configured by one provider's facts."""

    format = "openai_chat"
    decoder_class = ChatDecoder
    request_path = "/chat/completions"

    def _encoding_facts(self) -> tuple[object, ...]:
        return (self.facts.name, self.facts.replay_fields, self.facts.replay_always, self.facts.replay_images)

    def output_options(self, name: str, schema: dict[str, Any]) -> dict[str, Any]:
        """See `Codec`."""
        if self.facts.json_output == "schema":
            return schema_format(name, schema)
        return {"response_format": {"type": "json_object"}} if self.facts.json_output == "object" else {}

    def _head(self, model: str, options: ResolvedOptions, system: str) -> dict[str, Any]:
        head: dict[str, Any] = {"model": model, "stream": options.stream, **self._common_fields(options)}
        if options.stream and self.facts.stream_usage:
            head["stream_options"] = {"include_usage": True}
        head |= options.extra
        if options.tools:
            functions = [{"type": "function", "function": _function(item)} for item in options.tools]
            head["tools"] = [*functions, *options.extra.get("tools", ())]
        if "max_tokens" in head:
            head[self.facts.max_tokens_name] = head.pop("max_tokens")
        return head

    def _fragments(self, messages: Messages, reminder: Messages, head: dict[str, Any], changes: Changes) -> list[bytes]:
        """The encoded messages, with adjacent user messages joined: many servers refuse two in a row."""
        conversation = [*messages, *reminder]
        fragments = [each.encoded.get(self._key) or self.encode_message(each) for each in conversation]
        non_empty = list(compress(conversation, fragments))
        roles = [each.role for each in non_empty]
        if ROLES not in changes and ("user", "user") not in pairwise(roles):
            return list(filter(None, fragments))
        joined = _joined(non_empty)
        return [self.encode_message(each) for each in (_alternating(joined) if ROLES in changes else joined)]

    def _input_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        if isinstance(message.content, str) or message.role != "user":
            return [{"role": message.role, "content": message.text}]
        return [{"role": "user", "content": [_part(part) for part in message.content]}]

    def _result_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        call_id = fitting_id(message.tool_call_id, self.facts.call_id)
        return [{"role": "tool", "tool_call_id": call_id, "content": message.text}]

    def _answer_pieces(self, message: LLMMessage) -> list[dict[str, Any]]:
        """Text, calls, and the provider's own data to send back.

        Some providers refuse an empty message, so nothing is sent then. Some refuse null as `content`.
        """
        native = self._native(message)
        data: dict[str, Any] = {"role": "assistant", "content": message.text}
        if self.facts.replay_always:
            data[self.facts.replay_always] = ""
        if received := next((key for key in self.facts.replay_fields if native.get(key)), None):
            data[received] = native[received]
        if self._holds_images(message):
            data["images"] = native["images"]
        if message.tool_calls:
            signed = native.get("extra_content") or {}
            data["tool_calls"] = [_call(call, signed, self.facts) for call in message.tool_calls]
        return [data] if any(data[key] for key in data if key != "role") else []

    def _holds_images(self, message: LLMMessage) -> bool:
        """See `Codec`. Results can't; an answer's images are sent back in a separate field, if there is one."""
        if message.role != "assistant":
            return message.role != "tool"
        return self.facts.replay_images and has_image(message.content) and "images" in self._native(message)


def schema_format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The field `response_format` of chat completions."""
    strict = strict_schema(plain_schema(schema), all_required=True, without=_NOT_STRICT)
    json_schema = {"name": name, "schema": strict or schema, "strict": strict is not None}
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


def _function(item: Mapping[str, Any]) -> dict[str, Any]:
    return {**declared(item), **({"strict": item["strict"]} if "strict" in item else {})}


def _call(call: FunctionCall, signed: Mapping[str, Any], facts: ProviderFacts) -> dict[str, Any]:
    """A call in the form to send back. Missing and unreadable arguments become `"{}"`, since an object is required."""
    function = {"name": fitting_name(call.name), "arguments": dumps(call.arguments).decode()}
    data = {"id": fitting_id(call.id, facts.call_id), "type": "function", "function": function}
    return data | ({"extra_content": signed[call.id]} if call.id and call.id in signed else {})


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    """A content part. Parts of unknown kinds are sent unchanged."""
    if part.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": image_url(part)}}
    if is_document(part):
        return {"type": "file", "file": {"filename": part["name"], "file_data": image_url(part)}}
    return dict(part)


def _joined(messages: Messages) -> list[LLMMessage]:
    """The messages, with adjacent user messages joined: texts as paragraphs, otherwise all their parts."""
    joined: list[LLMMessage] = []
    for is_user, group in groupby(messages, key=lambda message: message.role == "user"):
        members = list(group)
        if is_user and len(members) > 1:
            texts = [each.content for each in members if isinstance(each.content, str)]
            parts = [part for each in members for part in _parts(each.content)]
            members = [LLMMessage("user", "\n\n".join(texts) if len(texts) == len(members) else parts)]
        joined += members
    return joined


def _parts(content: Content) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _alternating(messages: Messages) -> list[LLMMessage]:
    """The messages, with short ones inserted so that the user starts and the sides alternate."""
    turns: list[LLMMessage] = []
    for message in messages:
        before = turns[-1].role if turns else "system"
        if message.role == "assistant" and before in ("system", "assistant"):
            turns.append(CONTINUE if before == "assistant" else OPENING)
        elif message.role == "user" and before == "tool":
            turns.append(_ACKNOWLEDGED)
        turns.append(message)
    return turns
