"""How an answer reaches the client: as a stream of its pieces, or whole. Both APIs do it in the same way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from nbagent.core.events import AnyEvent, Error, RunStarted
from nbagent.core.json_text import json_text
from nbagent.server.agent_host import AgentHost
from nbagent.server.event_stream import EventStream, while_connected
from nbagent.server.hosted_run import HostedRun, RunRequest
from nbagent.server.problems import HTTPProblem, problem_of

Piece = dict[str, Any]


class AnswerWriter(Protocol):
    """What one of the APIs makes of a run's events."""

    def feed(self, event: AnyEvent) -> Iterator[Piece]:
        """The pieces of the stream for one event. Raises `RefusedError` if the stream can't go on."""

    def fail(self, problem: HTTPProblem) -> Iterator[Piece]:
        """The last pieces of a stream that has begun, and whose run failed."""

    def whole(self) -> Piece:
        """The answer as one object, once the run is done."""


@dataclass(frozen=True)
class Reply:
    """The answer to one request: `make` begins what one of the APIs makes of a run.

    `write` writes a piece of the stream, and `last` follows them; without `write` the answer is one JSON object.
    """

    make: Callable[[HostedRun], AnswerWriter]
    write: Callable[[Piece], str] | None = None
    last: str = ""

    async def send(self, request: Request, host: AgentHost, owner: str, asked: RunRequest) -> Response:
        """Run the agent."""
        run = host.run(owner, asked)
        if self.write is not None:
            return EventStream(run, self._stream)

        async def answer() -> Response:
            async with run as running:
                return Response(await self._whole(running), media_type="application/json")

        return await while_connected(request.receive, answer())

    async def _whole(self, run: HostedRun) -> str:
        made = self.make(run)
        async for event in run:
            if isinstance(event, Error):
                raise event.exception
            for _ in made.feed(event):
                pass
        return json_text(made.whole())

    async def _stream(self, run: HostedRun) -> AsyncIterator[str]:
        async for piece in _pieces(run, self.make(run)):
            yield self._written(piece)

    def _written(self, piece: Piece | None) -> str:
        assert self.write is not None
        return self.last if piece is None else self.write(piece)


async def _pieces(run: HostedRun, answer: AnswerWriter) -> AsyncIterator[Piece | None]:
    """The pieces of a stream; None after the last one of an answer that is whole.

    Nothing is sent before the model has begun to answer, so that what fails until then is told by the HTTP status.
    """
    held: list[Piece] = []
    has_begun = False
    async for event in run:
        try:
            if isinstance(event, Error):
                raise event.exception
            held += answer.feed(event)
        except Exception as error:  # a run may end with any
            if not has_begun:
                raise
            for piece in answer.fail(problem_of(error)):
                yield piece
            return
        if held and not isinstance(event, RunStarted):
            has_begun = True
            for piece in held:
                yield piece
            held = []
    yield None
