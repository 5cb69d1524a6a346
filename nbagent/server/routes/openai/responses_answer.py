"""The events of a run as the Responses API has them: the events of a stream, or one whole response.

Each turn's thinking is a `reasoning` item, its text a `message`, and a call of a tool an `mcp_call`, since the agent
runs the tools itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from time import time
from typing import Any

from nbagent.core import events
from nbagent.core.content.images import images_in
from nbagent.core.events import AnyEvent, Event
from nbagent.core.json_text import json_text
from nbagent.core.results import AgentResult
from nbagent.server.problems import HTTPProblem
from nbagent.server.routes.openai.errors import answer_restarted
from nbagent.server.routes.openai.response_ids import item_id, response_id
from nbagent.server.routes.openai.response_objects import (
    call_item,
    call_result,
    image_item,
    phase_of,
    response_object,
    text_part,
    usage,
)

#: How a run ended -> why the response is incomplete. The responses of other runs are complete.
_INCOMPLETE = {"truncated": "max_output_tokens", "limit": "max_output_tokens", "blocked": "content_filter"}
#: The type of an item -> how its id begins.
_ID_KINDS = {"message": "msg", "reasoning": "rs"}

StreamEvent = dict[str, Any]


class ResponseAnswer:
    """Collects the events of one run. `feed` and `fail` return what they add to a stream; see `reply`.

    `echo` holds the fields of the request that every response repeats. `conversation_id` says where the run is kept; it
    is None for a run that is not.
    """

    def __init__(self, model: str, echo: Mapping[str, Any], conversation_id: str | None) -> None:
        self._conversation_id = conversation_id
        self._response = {**response_object("", model, int(time())), **echo}
        self._number = -1  # of the last event
        self._has_said = False  # whether this turn has text
        self._message_id: str | None = None  # of its message, and how many items of each kind that has
        self._counts: Counter[str] = Counter()
        self._open: _Growing | None = None
        self._calls: dict[Any, tuple[int, dict[str, Any]]] = {}

    def feed(self, event: AnyEvent) -> Iterator[StreamEvent]:
        """The stream's events for one event of the run. Raises `RefusedError` if sent text would come again."""
        match event:
            case events.RunStarted():
                yield from self._start(event)
            case events.TurnStarted():
                self._message_id, self._counts = event.metadata.get("message_id"), Counter()
            case events.Thinking():
                yield from self._grow("reasoning", event.content)
            case events.Text():
                self._has_said = True
                yield from self._grow("message", event.content)
            case events.Retry() if self._has_said:
                raise answer_restarted()
            case events.Retry():  # thinking that was sent can't be taken back
                yield from self._close("incomplete")
            case events.TurnDone():
                yield from self._end_turn(event)
            case events.ToolCall():
                yield from self._begin_call(event)
            case events.Approval("asked"):
                yield self._event("nbagent.approval.asked", **_asked(event))
            case events.ToolResult():
                yield from self._end_call(event)
            case events.Done():
                yield from self._finish(event.result)

    def whole(self) -> dict[str, Any]:
        """The response, once the run is done."""
        return self._snapshot()

    def _start(self, event: events.RunStarted) -> Iterator[StreamEvent]:
        if self._conversation_id:
            self._response["id"] = response_id(self._conversation_id, event.messages[-1].message_id or "")
        else:
            self._response["id"] = f"resp_{event.metadata['run_id']}"
        yield self._event("response.created", response=self._snapshot())
        yield self._event("response.in_progress", response=self._snapshot())

    def _finish(self, result: AgentResult) -> Iterator[StreamEvent]:
        """The last events of a run that ended well, or at a limit."""
        reason = _INCOMPLETE.get(result.status)
        yield from self._close("incomplete" if reason else "completed")
        self._response["usage"] = usage(result.usage, result.cost)
        if reason:
            self._response["incomplete_details"] = {"reason": reason}
        yield self._end("incomplete" if reason else "completed")

    def fail(self, problem: HTTPProblem) -> Iterator[StreamEvent]:
        """The last events of a run that failed."""
        yield from self._close("incomplete")
        self._response["error"] = {"code": _failure_code(problem), "message": problem.detail}
        yield self._end("failed")

    # -- reasoning and messages ---------------------------------------------------------------------------------------

    def _grow(self, kind: str, piece: str) -> Iterator[StreamEvent]:
        """Add a piece to the item that is open, or to a new one."""
        if not piece:
            return
        if self._open is None or self._open.item["type"] != kind:
            yield from self._close("completed")
            item: dict[str, Any] = {"type": kind, "id": self._item_id(_ID_KINDS[kind]), "status": "in_progress"}
            item |= {"summary": []} if kind == "reasoning" else {"role": "assistant", "content": []}
            self._open = growing = _Growing(item, self._add(item))
            yield self._event("response.output_item.added", output_index=growing.index, item=dict(item))
            yield self._event(growing.part_event("added"), **growing.place, part=growing.part(""))
        self._open.pieces.append(piece)
        yield self._event(self._open.text_event("delta"), **self._open.place, **self._open.logprobs, delta=piece)

    def _close(self, status: str, **more: str) -> Iterator[StreamEvent]:
        """End the item that is open."""
        if self._open is None:
            return
        growing, self._open = self._open, None
        text = "".join(growing.pieces)
        part = growing.part(text)
        item = growing.item
        item |= {"status": status, growing.parts: [part], **more}
        yield self._event(growing.text_event("done"), **growing.place, **growing.logprobs, text=text)
        yield self._event(growing.part_event("done"), **growing.place, part=part)
        yield self._event("response.output_item.done", output_index=growing.index, item=item)

    def _end_turn(self, event: events.TurnDone) -> Iterator[StreamEvent]:
        """A turn's text is commentary if tool calls follow it, and else the answer."""
        self._has_said = False
        calls = event.message.tool_calls if event.message else None
        is_message = self._open is not None and self._open.item["type"] == "message"
        phase = {"phase": phase_of(bool(calls))} if is_message else {}
        yield from self._close("completed", **phase)
        for image in images_in(event.message.content if event.message else ""):
            item = image_item(self._item_id("ig"), image)
            index = self._add(item)
            yield self._event("response.output_item.added", output_index=index, item=item)
            yield self._event("response.output_item.done", output_index=index, item=item)

    # -- tools --------------------------------------------------------------------------------------------------------

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
        """The result, with the arguments that the tool got: people may have edited them."""
        index, item = self._calls.pop(event.metadata.get("tool_call_id"))
        item |= call_result(event.tool_arguments or {}, event.content, bool(event.metadata.get("is_error")))
        yield self._event(f"response.mcp_call.{item['status']}", output_index=index, item_id=item["id"])
        yield self._event("response.output_item.done", output_index=index, item=item)

    # -- the response -------------------------------------------------------------------------------------------------

    def _item_id(self, kind: str) -> str:
        self._counts[kind] += 1
        return item_id(kind, self._conversation_id, self._message_id, self._counts[kind] - 1)

    def _add(self, item: dict[str, Any]) -> int:
        self._response["output"].append(item)
        return len(self._response["output"]) - 1

    def _end(self, status: str) -> StreamEvent:
        for _, call in self._calls.values():  # the run ended before their results
            call["status"] = "incomplete"
        self._response |= {"status": status, "completed_at": int(time()) if status == "completed" else None}
        return self._event(f"response.{status}", response=self._snapshot())

    def _snapshot(self) -> dict[str, Any]:
        return {**self._response, "output": list(self._response["output"])}

    def _event(self, kind: str, **fields: Any) -> StreamEvent:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}


class _Growing:
    """A reasoning item or a message that still arrives: the item, its place in the output, and its pieces."""

    def __init__(self, item: dict[str, Any], index: int) -> None:
        self.item, self.index = item, index
        self.pieces: list[str] = []
        self._is_message = item["type"] == "message"
        #: The field of the item that holds its only part.
        self.parts = "content" if self._is_message else "summary"

    @property
    def place(self) -> dict[str, Any]:
        """The fields of an event that tell where in the response its piece belongs."""
        part_index = "content_index" if self._is_message else "summary_index"
        return {"output_index": self.index, "item_id": self.item["id"], part_index: 0}

    @property
    def logprobs(self) -> dict[str, list[Any]]:
        """What events about a message's text need besides."""
        return {"logprobs": []} if self._is_message else {}

    def part(self, text: str) -> dict[str, Any]:
        """The part with this text."""
        if self._is_message:
            return text_part(text)
        return {"type": "summary_text", "text": text}

    def part_event(self, what: str) -> str:
        """The type of an event about the part."""
        return f"response.content_part.{what}" if self._is_message else f"response.reasoning_summary_part.{what}"

    def text_event(self, what: str) -> str:
        """The type of an event about the part's text."""
        return f"response.output_text.{what}" if self._is_message else f"response.reasoning_summary_text.{what}"


def _asked(event: Event) -> dict[str, Any]:
    """What a client needs that decides on a call: see `/agent/approvals`."""
    return {
        "approval_id": event.metadata["approval_id"],
        "name": event.tool_name,
        "arguments": event.tool_arguments,
    }


def _failure_code(problem: HTTPProblem) -> str:
    """The codes that a response may fail with are few."""
    if problem.status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if problem.status < 500 else "server_error"
