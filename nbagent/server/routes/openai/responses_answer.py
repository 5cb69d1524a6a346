"""Converts a run's events to the stream events of the Responses API, or to one response.

The thinking in each turn becomes a `reasoning` item, and the text a `message`. A tool call becomes an `mcp_call`, since
the agent runs the tools itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import time
from typing import Any, NamedTuple

from nbagent.core import events
from nbagent.core.content.images import images_in
from nbagent.core.events import AnyEvent, Event
from nbagent.core.json_text import json_text
from nbagent.core.messages import Usage
from nbagent.core.results import AgentResult
from nbagent.server.problems import HTTPProblem
from nbagent.server.routes.openai.errors import answer_restarted
from nbagent.server.routes.openai.items import (
    call_item,
    call_result,
    image_item,
    item_id,
    phase_of,
    response_id,
    response_object,
    text_part,
)

#: A run's status -> the reason for an incomplete response. All others are complete.
_INCOMPLETE = {"truncated": "max_output_tokens", "limit": "max_output_tokens", "blocked": "content_filter"}
StreamEvent = dict[str, Any]


class _Kind(NamedTuple):
    """A kind of item that arrives in pieces: the prefix of its id, the field of its only part, and its events."""

    type: str
    id_kind: str
    parts: str
    part_event: str
    text_event: str
    #: Additional fields of text events.
    more: dict[str, Any]


_MESSAGE = _Kind("message", "msg", "content", "response.content_part", "response.output_text", {"logprobs": []})
_REASONING = _Kind(
    "reasoning", "rs", "summary", "response.reasoning_summary_part", "response.reasoning_summary_text", {}
)


@dataclass(frozen=True)
class _Growing:
    """An incomplete item: its pieces so far, and the event fields with its position."""

    kind: _Kind
    item: dict[str, Any]
    place: dict[str, Any]
    pieces: list[str] = field(default_factory=list)

    def part(self, text: str) -> dict[str, Any]:
        """Return the part with this text."""
        return text_part(text) if self.kind is _MESSAGE else {"type": "summary_text", "text": text}


class ResponseAnswer:
    """Builds the response from the events of a run. `feed` and `fail` yield the stream events to send next; see
    `reply`.

    `echo` contains the request fields that every response repeats. `conversation_id` is the run's conversation, or None
    if it is not stored.
    """

    def __init__(self, model: str, echo: Mapping[str, Any], conversation_id: str | None) -> None:
        self._conversation_id = conversation_id
        self._response = {**response_object("", model, int(time())), **echo}
        self._number = -1  # of the last event
        self._has_said = False  # whether this turn has text
        self._message_id: str | None = None  # of this turn, and how many items of each kind it has
        self._counts: Counter[str] = Counter()
        self._open: _Growing | None = None
        self._calls: dict[Any, tuple[int, dict[str, Any]]] = {}

    def feed(self, event: AnyEvent) -> Iterator[StreamEvent]:
        """Yield the stream events for an event of the run. Raises `RefusedError` if text that was already sent would
        have to be retracted.
        """
        match event:
            case events.RunStarted():
                yield from self._start(event)
            case events.TurnStarted():
                self._message_id, self._counts = event.metadata.get("message_id"), Counter()
            case events.Thinking():
                yield from self._grow(_REASONING, event.content)
            case events.Text():
                self._has_said = True
                yield from self._grow(_MESSAGE, event.content)
            case events.Retry() if self._has_said:
                raise answer_restarted()
            case events.Retry():  # sent thinking can't be retracted
                yield from self._close("incomplete")
            case events.TurnDone():
                yield from self._end_turn(event)
            case events.ToolCall():
                yield from self._begin_call(event)
            case events.Approval("asked"):
                # for the client's decision on the call: see `/agent/approvals`
                call = {"approval_id": event.metadata["approval_id"], "name": event.tool_name}
                yield self._event("nbagent.approval.asked", **call, arguments=event.tool_arguments)
            case events.ToolResult():
                yield from self._end_call(event)
            case events.Done():
                yield from self._finish(event.result)

    def whole(self) -> dict[str, Any]:
        """Return the response so far."""
        return {**self._response, "output": list(self._response["output"])}

    def _start(self, event: events.RunStarted) -> Iterator[StreamEvent]:
        if self._conversation_id:
            self._response["id"] = response_id(self._conversation_id, event.messages[-1].message_id or "")
        else:
            self._response["id"] = f"resp_{event.metadata['run_id']}"
        yield self._event("response.created", response=self.whole())
        yield self._event("response.in_progress", response=self.whole())

    def _finish(self, result: AgentResult) -> Iterator[StreamEvent]:
        """Yield the last events of a run that succeeded or reached a limit."""
        reason = _INCOMPLETE.get(result.status)
        yield from self._close("incomplete" if reason else "completed")
        self._response["usage"] = _usage(result.usage, result.cost)
        if reason:
            self._response["incomplete_details"] = {"reason": reason}
        yield self._end("incomplete" if reason else "completed")

    def fail(self, problem: HTTPProblem) -> Iterator[StreamEvent]:
        """Yield the last stream events of a run that failed."""
        yield from self._close("incomplete")
        self._response["error"] = {"code": _failure_code(problem), "message": problem.detail}
        yield self._end("failed")

    def _grow(self, kind: _Kind, piece: str) -> Iterator[StreamEvent]:
        """Add a piece to the open item, or to a new one."""
        if not piece:
            return
        if self._open is None or self._open.kind is not kind:
            yield from self._close("completed")
            item: dict[str, Any] = {"type": kind.type, "id": self._item_id(kind.id_kind), "status": "in_progress"}
            item |= {kind.parts: [], **({"role": "assistant"} if kind is _MESSAGE else {})}
            index = self._add(item)
            place = {"output_index": index, "item_id": item["id"], f"{kind.parts}_index": 0}
            self._open = _Growing(kind, item, place)
            yield self._event("response.output_item.added", output_index=index, item=dict(item))
            yield self._event(f"{kind.part_event}.added", **place, part=self._open.part(""))
        self._open.pieces.append(piece)
        yield self._event(f"{kind.text_event}.delta", **self._open.place, **kind.more, delta=piece)

    def _close(self, status: str, **more: str) -> Iterator[StreamEvent]:
        """Complete the open item."""
        if self._open is None:
            return
        growing, self._open = self._open, None
        kind, place, text = growing.kind, growing.place, "".join(growing.pieces)
        growing.item.update({"status": status, kind.parts: [growing.part(text)], **more})
        yield self._event(f"{kind.text_event}.done", **place, **kind.more, text=text)
        yield self._event(f"{kind.part_event}.done", **place, part=growing.part(text))
        yield self._event("response.output_item.done", output_index=place["output_index"], item=growing.item)

    def _end_turn(self, event: events.TurnDone) -> Iterator[StreamEvent]:
        """Complete a turn. Its text is commentary if tool calls follow, else the answer."""
        self._has_said = False
        calls = event.message.tool_calls if event.message else None
        is_message = self._open is not None and self._open.kind is _MESSAGE
        phase = {"phase": phase_of(bool(calls))} if is_message else {}
        yield from self._close("completed", **phase)
        for image in images_in(event.message.content if event.message else ""):
            item = image_item(self._item_id("ig"), image)
            index = self._add(item)
            yield self._event("response.output_item.added", output_index=index, item=item)
            yield self._event("response.output_item.done", output_index=index, item=item)

    def _begin_call(self, event: Event) -> Iterator[StreamEvent]:
        item = call_item(self._item_id("mcp"), event.tool_name or "")
        index = self._add(item)
        self._calls[event.metadata.get("tool_call_id")] = index, item
        place = {"output_index": index, "item_id": item["id"]}
        yield self._event("response.output_item.added", output_index=index, item=dict(item))
        yield self._event("response.mcp_call.in_progress", **place)
        item["arguments"] = json_text(event.tool_arguments or {})
        yield self._event("response.mcp_call_arguments.delta", **place, delta=item["arguments"])
        yield self._event("response.mcp_call_arguments.done", **place, arguments=item["arguments"])

    def _end_call(self, event: events.ToolResult) -> Iterator[StreamEvent]:
        """Complete a call with its result and its arguments, which a person may have edited."""
        index, item = self._calls.pop(event.metadata.get("tool_call_id"))
        item |= call_result(event.tool_arguments or {}, event.content, bool(event.metadata.get("is_error")))
        yield self._event(f"response.mcp_call.{item['status']}", output_index=index, item_id=item["id"])
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _item_id(self, kind: str) -> str:
        self._counts[kind] += 1
        return item_id(kind, self._conversation_id, self._message_id, self._counts[kind] - 1)

    def _add(self, item: dict[str, Any]) -> int:
        self._response["output"].append(item)
        return len(self._response["output"]) - 1

    def _end(self, status: str) -> StreamEvent:
        for _, call in self._calls.values():  # without a result
            call["status"] = "incomplete"
        self._response |= {"status": status, "completed_at": int(time()) if status == "completed" else None}
        return self._event(f"response.{status}", response=self.whole())

    def _event(self, kind: str, **fields: Any) -> StreamEvent:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}


def _usage(counts: Usage, cost: float | None) -> dict[str, Any]:
    """The token counts of a run, and its cost in US dollars, in OpenRouter's format."""
    cached = {"cached_tokens": counts.cache_read_tokens, "cache_write_tokens": counts.cache_write_tokens}
    return {
        "input_tokens": counts.input_tokens,
        "input_tokens_details": cached,
        "output_tokens": counts.output_tokens,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning_tokens},
        "total_tokens": counts.total_tokens,
        **({} if cost is None else {"cost": cost}),
    }


def _failure_code(problem: HTTPProblem) -> str:
    """The API's error code for a problem."""
    if problem.status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if problem.status < 500 else "server_error"
