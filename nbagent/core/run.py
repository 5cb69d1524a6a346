"""What one run works with: its place in the agent's queue, its provider, tools, history, limits, and what it spent."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from nbagent.core.background import RunQueue, held_up
from nbagent.core.events import Event
from nbagent.core.history.context import ContextManager
from nbagent.core.limits import Limits, Spending
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, Usage, new_id
from nbagent.core.model_request import ModelRequest
from nbagent.core.results import AgentResult, ToolOutcome
from nbagent.errors import ConfigurationError


@dataclass(eq=False, slots=True)
class Ticket:
    """One run's place in its agent's queue, and who reads its events: that one may not start another run meanwhile."""

    queue: RunQueue
    alive: bool = False
    #: The event loop on which the events are read; None before the first.
    loop: asyncio.AbstractEventLoop | None = None
    #: The task that reads them. A task that failed holds its frames, and what those hold may lead back to the run: such
    #: a circle is for the garbage collector, which would close the generators of a run from any thread, in any order.
    _reader: weakref.ref[asyncio.Task[Any]] | None = None
    #: The iterator that it reads them from; gone when it was dropped by a `break`.
    iterator: weakref.ref[Any] | None = None

    @property
    def reader(self) -> asyncio.Task[Any] | None:
        """The task that reads the events, where it is one task from the beginning to the end."""
        return None if self._reader is None else self._reader()

    def read_here(self) -> None:
        """The current task asks for the next event."""
        task = asyncio.current_task()
        if task is not None and (self._reader is None or self._reader() is not task):
            self._reader, self.loop = weakref.ref(task), task.get_loop()

    @property
    def is_read_here(self) -> bool:
        """Whether the current task reads this run, which can't go on before that task does."""
        dropped = self.iterator is not None and self.iterator() is None
        return self.alive and not dropped and self.reader is asyncio.current_task()

    @property
    def is_held_up(self) -> bool:
        """Whether it is read on an event loop that stands still, for a blocking call waits there for us."""
        return self.loop in held_up.get()


#: The runs whose tools, or whose plain `for`, this context is inside of.
inside: ContextVar[frozenset[Ticket]] = ContextVar("nbagent_inside", default=frozenset())


class Provider(Protocol):
    """What the loop needs of a provider; `nbagent.providers.base.LLMProvider` has it."""

    vendor: str

    @property
    def model_name(self) -> str:
        """The model's name."""
        ...

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """The request with its options in the vendor's form."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """Events, and the whole answer last. Takes what `resolve` returned."""
        ...


class Tools(Protocol):
    """What the loop needs of a tool executor; `nbagent.functions.executor.ToolExecutor` has it."""

    def list_functions(self) -> list[dict[str, Any]]:
        """What is offered to the model now."""
        ...

    def is_parallel(self, name: str) -> bool:
        """Whether the tool may run beside others."""
        ...

    async def run(self, call: FunctionCall) -> ToolOutcome:
        """Run one call; failures are outcomes."""
        ...


@dataclass(slots=True)
class Run:
    """All that one run works with. Made by the agent, driven by `loop.run_loop`."""

    ticket: Ticket
    provider: Provider
    tools: Tools
    context: ContextManager
    limits: Limits
    price: Callable[[Usage, str, str, Any], float | None]
    #: Sums up messages, by a run of its own.
    summarise: Callable[[Sequence[LLMMessage]], Coroutine[Any, Any, str]]
    observers: Sequence[Callable[[Event], None]] = ()
    #: Of each request: `temperature`, `thinking`, fields of the vendor's own.
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    #: What the system message says besides in the requests of this run; the history does not keep it.
    instructions: str = ""
    #: Whether each HTTP exchange is to become an event.
    record_http: bool = False
    run_id: str = field(default_factory=lambda: new_id("run"))
    #: The run whose tool asks for this one; what is spent here is spent there.
    parent: Run | None = field(init=False)
    spent: Spending = field(init=False)
    result: AgentResult = field(init=False)
    #: What closed the history after an interrupted or failed turn: the partial answer, results made up.
    closing: list[LLMMessage] = field(default_factory=list)
    #: Events that the observers have had, and the reader gets before the next one.
    unread: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        if taken := _TAKEN.intersection(self.options):
            raise ConfigurationError(
                f"{' and '.join(sorted(taken))} can't be given as an option: the message comes first, chat(message), "
                "and tools=[...] names the functions to offer."
            )
        outer = working_for.get()
        self.parent = outer if outer is not None and outer.ticket.alive else None
        self.spent = Spending(self.limits, self.parent.spent if self.parent else None)
        self.result = AgentResult(run_id=self.run_id)

    def request(self) -> ModelRequest:
        """The next request: the history as it stands, and the tools as they are now."""
        messages = list(self.context.messages)
        if self.instructions:
            system = messages.pop(0).text if messages[0].role == "system" else ""
            messages.insert(0, LLMMessage("system", f"{system}\n\n{self.instructions}".lstrip()))
        return ModelRequest(messages, self.tools.list_functions() or None, self.options)

    def in_time(self, step: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """The events of a step, which ends, whatever it waits for, when the time for this run is over."""
        return step if self.spent.seconds_left() is None else self._in_time(step)

    async def _in_time(self, step: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        async with aclosing(step):
            while (left := self.spent.seconds_left()) is not None:
                try:
                    async with asyncio.timeout(left) as limit:
                        event = await anext(step, None)
                except TimeoutError:
                    if not limit.expired():  # it is the step's own
                        raise
                    if left := self.spent.seconds_left():
                        await asyncio.sleep(left + _EARLY_S)
                    return
                if event is None:
                    return
                yield event

    def emit(self, event: Event, metadata: Mapping[str, Any] | None = None) -> Event:
        """Stamp an event and tell the observers; the caller yields it."""
        if metadata is None:
            metadata = {"run_id": self.run_id}
        event.metadata = {**metadata, **event.metadata} if event.metadata else metadata
        for observe in self.observers:
            observe(event)
        return event

    def emit_at_once(self, event: Event, metadata: Mapping[str, Any]) -> None:
        """`emit` for where nothing can be yielded; the loop hands the event on with its next one."""
        self.unread.append(self.emit(event, metadata))


#: Seconds that a timer may ring too early, and more: uvloop's do, by 1 ms.
_EARLY_S = 0.02

#: What a request holds in any case, so that no option can have the name.
_TAKEN = frozenset(("messages", "functions"))

#: The run whose tool is running here.
working_for: ContextVar[Run | None] = ContextVar("nbagent_working_for", default=None)
