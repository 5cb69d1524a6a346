"""Sends an answer to the client, as a stream or as one object, for chat completions and responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from nbagent.core import events
from nbagent.core.events import AnyEvent
from nbagent.core.json_text import json_text
from nbagent.server.agent_host import AgentHost
from nbagent.server.event_stream import EventStream, while_connected
from nbagent.server.hosted_run import HostedRun, RunRequest
from nbagent.server.problems import HTTPProblem, problem_of


class Answer(Protocol):
    """Converts a run's events to the format of an API."""

    def feed(self, event: AnyEvent) -> Iterator[dict[str, Any]]:
        """Yield the stream's pieces for an event. Raises `RefusedError` if text that was already sent would have to be
        retracted.
        """

    def fail(self, problem: HTTPProblem) -> Iterator[dict[str, Any]]:
        """Yield the last pieces of a stream whose run failed."""

    def whole(self) -> dict[str, Any]:
        """Return the answer as one object, once the run is done."""


async def reply(
    request: Request,
    host: AgentHost,
    owner: str,
    run_request: RunRequest,
    make: Callable[[HostedRun], Answer],
    write: Callable[[dict[str, Any]], str] | None = None,
    last: str = "",
) -> Response:
    """Run the agent, and respond with the run's answer, which `make(run)` creates.

    `write` formats each piece of the stream. The stream ends with `last`. Without `write`, the response is one JSON
    object.
    """
    run = host.run(owner, run_request)
    if write is not None:
        return EventStream(run, lambda running: _pieces(running, make(running), write, last))

    async def whole() -> Response:
        async with run as running:
            answer = make(running)
            for event in settled([event async for event in running]):
                if isinstance(event, events.Error):
                    raise event.exception
                for _ in answer.feed(event):
                    pass
        return Response(json_text(answer.whole()), media_type="application/json")

    return await while_connected(request.receive, whole())


def settled(run: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """Yield the events of a run, without the events of discarded attempts at an answer.

    >>> from nbagent.core.events import Done, Retry, Text
    >>> [event.content for event in settled([Text("It"), Retry("Again"), Text("It is"), Done("It is")])]
    ['It is', 'It is']
    """
    held: list[AnyEvent] = []
    for event in run:
        match event:
            case events.Text() | events.Thinking() | events.TurnDone():
                held.append(event)
            case events.Retry() | events.ValidationError(tool_name=None):  # sent again, or sent back
                held.clear()
            case _:
                is_kept = held and isinstance(held[-1], events.TurnDone) and not isinstance(event, events.UsageReport)
                if is_kept or isinstance(event, events.Done | events.Error):
                    yield from held
                    held.clear()
                yield event


async def _pieces(
    run: HostedRun, answer: Answer, write: Callable[[dict[str, Any]], str], last: str
) -> AsyncGenerator[str]:
    """Yield the pieces of a stream, and `last` after a complete answer."""
    held, has_begun = "", False
    async for event in run:
        try:
            if isinstance(event, events.Error):
                raise event.exception
            held += "".join(map(write, answer.feed(event)))
        except Exception as error:  # a run may end with any error
            if not has_begun:
                raise
            yield "".join(map(write, answer.fail(problem_of(error))))
            return
        if held and not isinstance(event, events.RunStarted):
            has_begun = True
            yield held
            held = ""
    if last:
        yield last
