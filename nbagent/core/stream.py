"""Provides the events of one run as an iterator, for `async for` and plain `for`, or as callbacks."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from nbagent.checks import check_type
from nbagent.core import events
from nbagent.core.background import heartbeat, run_sync
from nbagent.core.current import current, set_current
from nbagent.core.events import AnyEvent, Event
from nbagent.core.history.preview import Preview, preview
from nbagent.core.loop import run_loop
from nbagent.core.messages import FunctionCall, short_repr
from nbagent.core.queue import QueueEntry, RunQueue
from nbagent.core.results import AgentResult
from nbagent.core.run import Run


class StreamingHandler:
    """The callbacks for a run. Override the methods that you need, as sync or async functions.

    `on_complete` is called once, at the end of a run that did not fail. `on_retry` is called when the text of the
    current turn starts over.
    """

    def on_token(self, token: str) -> Any:
        """Called with each piece of the answer."""

    def on_thinking(self, text: str) -> Any:
        """Called with each piece of the model's thinking."""

    def on_tool_call(self, call: FunctionCall) -> Any:
        """Called when the model has called a tool."""

    def on_tool_result(self, call: FunctionCall, result: str) -> Any:
        """Called when a tool has returned. `result` is the text for the model."""

    def on_retry(self) -> Any:
        """Called when the request is sent again. Discard this turn's text so far."""

    def on_complete(self, content: str) -> Any:
        """Called when the run is over. `content` is the final answer."""

    def on_error(self, exception: BaseException) -> Any:
        """Called when the run has failed."""


class AgentStream:
    """The events of one run. The run starts when the iteration starts, and stops at a `break`.

    Iterate over the stream with `async for` on any event loop, or with a plain `for` in a script or a notebook cell. If
    you use the stream as a context manager, it is closed at the end of the block. After the iteration, `result()`
    returns the `AgentResult` or raises the run's error. If the run fails, the iteration ends with an `error` event and
    then raises the error, unless the stream was created with `raise_errors=False`.
    """

    def __init__(
        self,
        new_run: Callable[[QueueEntry, bool], Run],
        message: Any,
        queue: RunQueue,
        raise_errors: bool = True,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        #: Called with the entry, and with True if the run must not change the history.
        self._new_run, self._message = new_run, message
        self._prepare = prepare
        self._raise_errors = raise_errors
        self._entry = QueueEntry(queue)
        self._events: AsyncGenerator[Event] | None = None
        self._result: AgentResult | None = None
        self._error: BaseException | None = None
        self._over = False
        self._latest: Event | None = None
        #: Set once `aclose` has closed the run; None before `aclose` is called.
        self._closed: asyncio.Event | None = None
        queue.streams[id(self)] = self

    @property
    def waits(self) -> bool:
        """Whether this prompt would have to wait for the agent's earlier prompts."""
        return bool(self._entry.queue.entries)

    def __aiter__(self) -> AsyncGenerator[AnyEvent]:
        iterator = self._iterate()
        self._entry.iterator = weakref.ref(iterator)
        return iterator

    async def _iterate(self) -> AsyncGenerator[AnyEvent]:
        if self._events is not None:
            raise RuntimeError("this stream has already been iterated: call chat_stream() again")
        # the loop types its events by their base class; all belong to the closed union
        running: AsyncGenerator[Any] = self._run() if self._prepare is None else self._prepared_run(self._prepare)
        self._events = running
        self._entry.set_reader()
        failure: BaseException | None = None
        try:
            async with heartbeat(), aclosing(running):
                async for event in running:
                    self._latest = event
                    if isinstance(event, events.Done):
                        self._result = event.result
                    elif isinstance(event, events.Error):
                        self._error = failure = event.exception
                    yield event
                    self._entry.set_reader()
                    if self._closed is not None:
                        await self._closed.wait()
                        break
        finally:
            self._over = True
        if failure is not None and self._raise_errors:
            raise failure

    def _run(self) -> AsyncGenerator[Event]:
        return run_loop(self._new_run(self._entry, False), self._message)

    async def _prepared_run(self, prepare: Callable[[], Awaitable[None]]) -> AsyncGenerator[Event]:
        await prepare()
        async with aclosing(self._run()) as running:
            async for event in running:
                yield event

    if not TYPE_CHECKING:  # type checkers also report it

        def __await__(self):
            raise TypeError(
                "chat_stream() is iterated, not awaited: write `async for event in agent.chat_stream(...)`, or "
                "`await agent.chat(...)` for the result."
            )

    def __iter__(self) -> Iterator[AnyEvent]:
        running = self.__aiter__()

        async def next_event() -> AnyEvent | None:
            return await anext(running, None)

        before = current.get().enclosing
        try:
            while (event := run_sync(next_event())) is not None:
                set_current(enclosing=before | {self._entry})  # the body of the `for` is inside this run
                yield event
                set_current(enclosing=before)
        finally:
            set_current(enclosing=before)
            run_sync(running.aclose())

    async def aclose(self) -> None:
        """Stop the run if it is not over. A task that is reading the events receives a `CancelledError`."""
        if self._events is None:
            return
        reader = self._entry.reader
        other_reader = None if reader is asyncio.current_task() or (reader and reader.done()) else reader
        running = getattr(self._events, "ag_running", False)  # AsyncGenerator does not declare it
        if running and other_reader is not None:
            other_reader.cancel()  # that task is waiting for the next event
        else:
            closed = self._closed = asyncio.Event()
            try:
                await self._events.aclose()
            finally:
                closed.set()
        if other_reader is not None:
            self._set_stopped()

    def stop(self) -> bool:
        """Interrupt the run from any thread, even while it waits for earlier runs. Returns immediately.

        The reader of the events receives a `CancelledError`. Returns False if there was nothing to stop.
        """
        loop = self._entry.loop
        if self._over or loop is None or loop.is_closed():
            return False

        async def close() -> None:
            await self.aclose()
            self._set_stopped()

        asyncio.run_coroutine_threadsafe(close(), loop)
        return True

    def _set_stopped(self) -> None:
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
        """Read the run to its end and return the result. A handler's callbacks are called with the events."""
        check_type("handler", handler, StreamingHandler, optional=True, fix="Pass an instance of a subclass of it.")
        async with aclosing(self.__aiter__()) as running:
            async for event in running:
                if handler is not None:
                    await _call_back(handler, event)
        return self.result()

    def preview(self) -> Preview:
        """Return the first request that this run would send if it started now. Nothing is sent, and nothing changes.

        Raises `ConfigurationError` if a tool's name, a limit or an option is wrong.

        >>> agent.chat_stream("How warm is it in Berlin?").preview().messages       # doctest: +SKIP
        """
        return preview(self._new_run(self._entry, True), self._message)

    def result(self) -> AgentResult:
        """Return the result of the finished run. Raises the error that ended the run, or `RuntimeError` if it is not
        over.
        """
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise RuntimeError("the run is not over: iterate the stream to its end first")
        return self._result

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self)} if self._result is None else self._result._repr_mimebundle_()

    def __repr__(self) -> str:
        if self._result is not None:
            return f"<AgentStream over: {self._result!r}>"
        if self._error is not None:
            return f"<AgentStream failed: {short_repr(self._error)}>"
        if self._events is None:
            return "<AgentStream not started: iterate it with `async for` or `for`>"
        return f"<AgentStream {'stopped' if self._over else 'running'}: {_progress(self._latest)}>"


def _progress(event: Event | None) -> str:
    match event:
        case events.Thinking():
            return "the model is thinking"
        case events.Text() | events.ToolCallDelta() | events.TurnDone() | events.UsageReport():
            return "the model is answering"
        case events.ToolCall() | events.ToolStarted() | events.ToolProgress() | events.ToolResult():
            return f"tool {short_repr(event.tool_name)}"
        case None:
            return "waiting for its turn"
    return "waiting for the model"


async def _call_back(handler: StreamingHandler, event: Event) -> None:
    """Call the callback for this event, if there is one."""
    answer: Any = None
    match event:
        case events.Text():
            answer = handler.on_token(event.content)
        case events.Thinking():
            answer = handler.on_thinking(event.content)
        case events.ToolCall():
            answer = handler.on_tool_call(_function_call(event))
        case events.ToolResult():
            answer = handler.on_tool_result(_function_call(event), event.content)
        case events.Retry():
            answer = handler.on_retry()
        case events.Done():
            answer = handler.on_complete(event.content)
        case events.Error():
            answer = handler.on_error(event.exception)
    if inspect.isawaitable(answer):
        await answer


def _function_call(event: Event) -> FunctionCall:
    return FunctionCall(event.tool_name or "", event.tool_arguments or {}, event.metadata.get("wire_id"))
