"""How an answer reaches the client: as a stream of its pieces, or whole. Both APIs do it in the same way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from nbagent.core.events import AnyEvent, Done, Error, Retry, RunStarted, Text, Thinking, TurnDone
from nbagent.core.json_text import json_text
from nbagent.server.agent_host import AgentHost
from nbagent.server.event_stream import EventStream, while_connected
from nbagent.server.hosted_run import HostedRun, RunRequest
from nbagent.server.problems import problem_of
from nbagent.server.routes.openai.chat_answer import ChatAnswer
from nbagent.server.routes.openai.responses_answer import ResponseAnswer

#: What one of the APIs makes of a run's events.
Answer = ChatAnswer | ResponseAnswer


async def reply(
    request: Request,
    host: AgentHost,
    owner: str,
    asked: RunRequest,
    make: Callable[[HostedRun], Answer],
    write: Callable[[dict[str, Any]], str] | None = None,
    last: str = "",
) -> Response:
    """Run the agent, and answer with what `make` makes of the run.

    `write` writes a piece of the stream, and `last` follows them; without `write` the answer is one JSON object.
    """
    run = host.run(owner, asked)
    if write is not None:
        return EventStream(run, lambda running: _pieces(running, make(running), write, last))

    async def whole() -> Response:
        async with run as running:
            made = make(running)
            for event in settled([event async for event in running]):
                if isinstance(event, Error):
                    raise event.exception
                for _ in made.feed(event):
                    pass
        return Response(json_text(made.whole()), media_type="application/json")

    return await while_connected(request.receive, whole())


def settled(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """The events of a run, without attempts at an answer that another one followed.

    >>> [event.content for event in settled([Text("It"), Retry("Again"), Text("It is"), TurnDone("It is")])]
    ['It is', 'It is']
    """
    held: list[AnyEvent] = []
    for event in events:
        match event:
            case Text() | Thinking():
                held.append(event)
            case Retry():
                held.clear()
            case TurnDone() | Done() | Error():
                yield from held
                held.clear()
                yield event
            case _:
                yield event


async def _pieces(
    run: HostedRun, answer: Answer, write: Callable[[dict[str, Any]], str], last: str
) -> AsyncIterator[str]:
    """The pieces of a stream, and `last` after an answer that is whole.

    Nothing is sent before the model has begun to answer, so that what fails until then is told by the HTTP status.
    """
    held, has_begun = "", False
    async for event in run:
        try:
            if isinstance(event, Error):
                raise event.exception
            held += "".join(map(write, answer.feed(event)))
        except Exception as error:  # a run may end with any
            if not has_begun:
                raise
            yield "".join(map(write, answer.fail(problem_of(error))))
            return
        if held and not isinstance(event, RunStarted):
            has_begun = True
            yield held
            held = ""
    if last:
        yield last
