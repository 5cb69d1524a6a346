"""The events of one run as an iterator, for `async for` and for plain `for`; callbacks for those who prefer them."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any

from nbagent.core import events
from nbagent.core.background import RunQueue, heartbeat, run_sync
from nbagent.core.events import Event
from nbagent.core.history.preview import Preview
from nbagent.core.messages import FunctionCall
from nbagent.core.results import AgentResult
from nbagent.core.run import Ticket, inside
from nbagent.errors import ConfigurationError


class StreamingHandler:
    """Callbacks of a run; each may be sync or async. Override what you need.

    `on_complete` comes once a run, `on_retry` when the text of the current turn starts anew.
    """

    def on_token(self, token: str) -> Any:
        """A piece of the answer."""

    def on_thinking(self, text: str) -> Any:
        """A piece of the model's thinking."""

    def on_tool_call(self, call: FunctionCall) -> Any:
        """The model called a tool."""

    def on_tool_result(self, call: FunctionCall, result: str) -> Any:
        """A tool returned; `result` is what the model will read."""

    def on_retry(self) -> Any:
        """The request is sent again: drop this turn's text so far."""

    def on_complete(self, content: str) -> Any:
        """The run is over; `content` is the final answer."""

    def on_error(self, exception: BaseException) -> Any:
        """The run failed."""


async def notify(handler: StreamingHandler, event: Event) -> None:
    """Call what the handler has for this event."""
    answer: Any = None
    match event:
        case events.Text():
            answer = handler.on_token(event.content)
        case events.Thinking():
            answer = handler.on_thinking(event.content)
        case events.ToolCall():
            answer = handler.on_tool_call(_call(event))
        case events.ToolResult():
            answer = handler.on_tool_result(_call(event), event.content)
        case events.Retry():
            answer = handler.on_retry()
        case events.Done():
            answer = handler.on_complete(event.content)
        case events.Error(exception=BaseException() as exception):
            answer = handler.on_error(exception)
    if inspect.isawaitable(answer):
        await answer


def _call(event: Event) -> FunctionCall:
    return FunctionCall(event.tool_name or "", event.tool_arguments or {}, event.metadata.get("wire_id"))


async def _next(running: AsyncGenerator[Event]) -> Event | None:
    return await anext(running, None)


class AgentStream:
    """The events of one run, which starts with the first step of the iteration and stops with a `break`.

    Use it with `async for` on any event loop, or with a plain `for` in a script and in a notebook cell alike; as a
    context manager it is closed at the end of the block. `result()` gives the `AgentResult` afterwards, and raises
    what the run raised.
    """

    def __init__(
        self,
        start: Callable[[Ticket], AsyncGenerator[Event]],
        foresee: Callable[[Ticket], Preview],
        queue: RunQueue,
    ) -> None:
        self._start = start
        self._foresee = foresee
        self._ticket = Ticket(queue)
        self._events: AsyncGenerator[Event] | None = None
        self._result: AgentResult | None = None
        self._error: BaseException | None = None
        self._over = False
        #: Set when the run is closed; None before anybody closes it.
        self._closed: asyncio.Event | None = None
        queue.members[id(self)] = self

    def __aiter__(self) -> AsyncGenerator[Event]:
        iterator = self._iterate()
        self._ticket.iterator = weakref.ref(iterator)
        return iterator

    async def _iterate(self) -> AsyncGenerator[Event]:
        if self._events is not None:
            raise RuntimeError("this stream was used already: chat_stream() makes a new one")
        self._events = self._start(self._ticket)
        self._ticket.read_here()
        try:
            async with heartbeat(), aclosing(self._events):
                async for event in self._events:
                    if isinstance(event, events.Done):
                        self._result = event.result
                    elif isinstance(event, events.Error):
                        self._error = event.exception
                    yield event
                    self._ticket.read_here()
                    if self._closed is not None:
                        await self._closed.wait()
                        break
        finally:
            self._over = True

    def __iter__(self) -> Iterator[Event]:
        running = self.__aiter__()
        before = inside.get()
        try:
            while (event := run_sync(_next(running))) is not None:
                inside.set(before | {self._ticket})  # what the body of the `for` calls is inside of this run
                yield event
                inside.set(before)
        finally:
            inside.set(before)
            run_sync(running.aclose())

    async def aclose(self) -> None:
        """Stop the run, if it still goes on. Another task that reads it sees `CancelledError`."""
        if self._events is None:
            return
        reader = self._ticket.reader
        elsewhere = None if reader is asyncio.current_task() or (reader and reader.done()) else reader
        running = getattr(self._events, "ag_running", False)  # not in the type of generators
        if running and elsewhere is not None:
            elsewhere.cancel()  # it is waiting for the next event
        else:
            closed = self._closed = asyncio.Event()
            try:
                await self._events.aclose()
            finally:
                closed.set()
        if elsewhere is not None:
            self._stopped_by_another()

    def stop(self) -> bool:
        """End the run from any thread, as an interrupt does; also while it waits for its turn. Returns at once.

        Whether there was anything to stop. Who reads the events sees `CancelledError`.
        """
        loop = self._ticket.loop
        if self._over or loop is None or loop.is_closed():
            return False
        asyncio.run_coroutine_threadsafe(self._stopped(), loop)
        return True

    async def _stopped(self) -> None:
        await self.aclose()
        self._stopped_by_another()

    def _stopped_by_another(self) -> None:
        if self._result is None and self._error is None:
            self._error = asyncio.CancelledError("the run was stopped")

    async def __aenter__(self) -> AgentStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> AgentStream:
        return self

    def __exit__(self, *_: object) -> None:
        run_sync(self.aclose())

    async def collect(self, handler: StreamingHandler | None = None) -> AgentResult:
        """Go to the end and give the result; with a handler, tell it of each event."""
        if handler is not None and not isinstance(handler, StreamingHandler):
            raise ConfigurationError(
                f"{handler!r} is no StreamingHandler: make one of a subclass with on_token(self, token) and the like"
            )
        async with aclosing(self.__aiter__()) as running:
            async for event in running:
                if handler is not None:
                    await notify(handler, event)
        return self.result()

    def preview(self) -> Preview:
        """What this stream would send first if it were started now. Nothing is sent, and nothing changes.

        Raises ConfigurationError for what can be told to be wrong before a request: a tool's name, a limit, an option.

        >>> agent.chat_stream("How warm is it in Berlin?").preview().messages       # doctest: +SKIP
        """
        return self._foresee(self._ticket)

    def result(self) -> AgentResult:
        """The result of a finished run. Raises the run's own error, or RuntimeError before the end of the stream."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise RuntimeError("the stream is not finished: iterate it to its end first")
        return self._result
