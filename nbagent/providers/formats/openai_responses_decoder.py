"""Decoding OpenAI Responses, streamed or whole. The output items are kept as they came, to be sent back unread.

Pieces belong together by `output_index`: some servers give an item another id in every event.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from nbagent.core.events import Event, Text, Thinking, ToolCallDelta
from nbagent.core.messages import FunctionCall, LLMResponse, parse_arguments
from nbagent.errors import IncompleteStreamError, InvalidResponseError
from nbagent.providers.formats import error_in_answer, new_call_id
from nbagent.providers.formats.images import Pictures
from nbagent.providers.formats.openai_chat_decoder import usage_of

#: The status, or what made the answer incomplete. Words that are not here leave `finish_reason` None.
FINISH_REASONS = {
    "completed": "stop",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
#: Event -> the field of the item that grows.
_DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "content",
    "response.function_call_arguments.delta": "arguments",
}
_TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
#: Between the parts of one reasoning item.
_PARAGRAPH = "\n\n"


class _Item:
    """An output item in the making: as it began, its pieces by field, and as it ended."""

    __slots__ = ("begun", "ended", "part", "pieces")

    def __init__(self) -> None:
        self.begun: dict[str, Any] = {}
        self.ended: dict[str, Any] | None = None
        self.pieces: dict[str, list[str]] = {}
        self.part = 0

    def joined(self) -> dict[str, Any]:
        """The item out of its pieces, where its end never came."""
        item = dict(self.begun)
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


class ResponsesDecoder:
    """Decodes one answer."""

    def __init__(self, vendor: str) -> None:
        self.done = False
        self._vendor = vendor
        self._response: dict[str, Any] = {}
        self._items: dict[int, _Item] = {}

    @property
    def complete(self) -> bool:
        """`response.completed`, `.incomplete` or `.failed` was seen."""
        return self.done

    def feed(self, event: dict[str, Any]) -> list[Event]:
        """See `Decoder`. Events of unknown types are ignored."""
        kind = event.get("type")
        if kind in _DELTAS:
            return self._delta(event["output_index"], _DELTAS[kind], event)
        if kind == "response.output_item.added":
            return self._begin(event["output_index"], event["item"])
        if kind == "response.output_item.done":
            return self._end(event["output_index"], event["item"])
        if kind == "response.function_call_arguments.done":
            return self._whole_arguments(event["output_index"], event.get("arguments") or "")
        if kind in ("response.created", "response.in_progress"):
            self._response |= event["response"]
        elif kind in _TERMINAL:
            return self._finished({"status": str(kind).removeprefix("response."), **event["response"]})
        elif kind == "error" or event.get("error"):
            raise error_in_answer(event)
        return []

    def feed_body(self, body: dict[str, Any]) -> None:
        """A whole answer in one JSON body."""
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
        details: dict[str, Any] = self._response.get("incomplete_details") or {}
        reason = details.get("reason") or self._response.get("status") or ""
        cut = FINISH_REASONS.get(reason) == "length"
        uses = [item for item in items if item.get("type") == "function_call"]
        calls = [_function_call(item, cut and item is items[-1]) for item in uses]
        return LLMResponse(
            content=text_of(items),
            function_calls=calls or None,
            finish_reason=FINISH_REASONS.get(reason),
            metadata=self._metadata(items, reason),
            raw_response={"vendor": self._vendor, "items": items},
        )

    # what one event holds

    def _item(self, index: int) -> _Item:
        return self._items.setdefault(index, _Item())

    def _begin(self, index: int, item: dict[str, Any]) -> list[Event]:
        self._item(index).begun = dict(item)
        if item.get("type") == "function_call":
            return [ToolCallDelta("", item.get("name"), metadata={"index": index})]
        return []

    def _delta(self, index: int, name: str, event: Mapping[str, Any]) -> list[Event]:
        item, piece = self._item(index), event["delta"]
        if not piece:
            return []
        if name in ("summary", "content"):
            return self._thinking(item, name, piece, event.get(f"{name}_index") or 0)
        item.pieces.setdefault(name, []).append(piece)
        if name == "arguments":
            return [ToolCallDelta(piece, item.begun.get("name"), metadata={"index": index})]
        return [Text(piece)]

    def _thinking(self, item: _Item, name: str, piece: str, part: int) -> list[Event]:
        """Thinking in full and in summary may both come: the first of them is shown."""
        pieces = item.pieces.setdefault(name, [])
        if pieces and part != item.part:
            piece = _PARAGRAPH + piece
        pieces.append(piece)
        if name != next(iter(item.pieces)):
            return []
        item.part = part
        return [Thinking(piece)]

    def _whole_arguments(self, index: int, arguments: str) -> list[Event]:
        item = self._item(index)
        shown = "arguments" in item.pieces
        item.pieces["arguments"] = [arguments]
        return [] if shown else [ToolCallDelta(arguments, item.begun.get("name"), metadata={"index": index})]

    def _end(self, index: int, ended: dict[str, Any]) -> list[Event]:
        """An item has ended: this is its form for replay. What came without pieces is shown now."""
        item = self._item(index)
        events = [] if item.begun else self._begin(index, ended)
        item.ended = dict(ended)
        return events if item.pieces else [*events, *_shown(index, ended)]

    def _finished(self, response: Mapping[str, Any]) -> list[Event]:
        """The terminal event. Its `output` fills in what had no end of its own; often it is empty, or has other ids."""
        if response.get("status") in ("failed", "cancelled") or response.get("error"):
            raise error_in_answer({"error": response.get("error") or f"the response {response.get('status')}"})
        self._response |= response
        self.done = True
        nothing_came = not self._items
        events: list[Event] = []
        for index, ended in enumerate(response.get("output") or ()):
            item = self._items.get(index)
            unended = item is not None and item.ended is None and item.begun.get("type") == ended.get("type")
            if nothing_came or unended:
                events += self._end(index, ended)
        return events

    def _metadata(self, items: list[dict[str, Any]], reason: str) -> dict[str, Any]:
        usage = self._response.get("usage") or {}
        metadata: dict[str, Any] = {
            "usage": usage_of(usage),
            "usage_raw": usage,
            "finish_reason_raw": reason or None,
            "model": self._response.get("model"),
            "response_id": self._response.get("id"),
        }
        if thinking := "".join(map(_thinking_of, items)):
            metadata["thinking"] = thinking
        if refusal := "".join(part.get("refusal") or "" for part in _message_parts(items)):
            metadata["refusal"] = refusal
        pictures, place = Pictures(), 0
        for item in items:
            place += len(text_of([item]))
            if item.get("type") == "image_generation_call":
                pictures.add(place, item.get("result"))
        return metadata | pictures.metadata(text_of(items))


def text_of(items: Iterable[Mapping[str, Any]]) -> str:
    """The text that output items say; a refusal is one too."""
    return "".join(part.get("text") or part.get("refusal") or "" for part in _message_parts(items))


def arguments_of(item: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The arguments of a `function_call` item, as `parse_arguments` gives them."""
    return parse_arguments(item.get("arguments"))


def _message_parts(items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    parts = [part for item in items if item.get("type") == "message" for part in item.get("content") or ()]
    return [part for part in parts if part.get("type") in ("output_text", "refusal")]


def _thinking_of(item: Mapping[str, Any]) -> str:
    """The thinking in one item: the summary, else in full."""
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
    """A call out of its item. One that the token limit cut before its arguments has unreadable ones, not none."""
    arguments, raw = arguments_of(item)
    if not item.get("arguments") and (cut or item.get("status") == "incomplete"):
        raw = ""
    item["call_id"] = item.get("call_id") or item.get("id") or new_call_id()
    return FunctionCall(item.get("name") or "", arguments, item["call_id"], raw)
