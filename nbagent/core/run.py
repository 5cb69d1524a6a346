"""`Run`: the state of one run, such as its provider, tools, history and limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from nbagent.core.budget import Budget
from nbagent.core.cells import current_cell
from nbagent.core.checking import AnswerCheck, PromptRefusedError, UserCheck, run_check
from nbagent.core.current import Cell, context_with, current
from nbagent.core.events import Event, RunStarted
from nbagent.core.history.history import ContextManager
from nbagent.core.labels import Labels
from nbagent.core.limits import Account, Limits
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, Usage, new_id
from nbagent.core.model_request import ModelRequest
from nbagent.core.output import Output
from nbagent.core.queue import QueueEntry
from nbagent.core.results import AgentResult, ToolOutcome
from nbagent.core.run_context import RunContext

T = TypeVar("T")


class Provider(Protocol):
    """The loop's interface to a provider. `nbagent.providers.base.LLMProvider` implements it."""

    provider_name: str
    price: Mapping[str, float] | None

    @property
    def model_name(self) -> str:
        """See `LLMProvider.model_name`."""

    def candidates(self, request: ModelRequest) -> tuple[Provider, ...] | Awaitable[Iterable[Provider]]:
        """See `LLMProvider.candidates`."""

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """See `LLMProvider.stream`."""

    def can_compact(self, tokens: int) -> bool:
        """See `LLMProvider.can_compact`."""


class Price(Protocol):
    """Calculates the cost of an answer. `nbagent.pricing.price_at` implements it."""

    def __call__(
        self, usage: Usage, model: str, provider: Provider, raw: Any = None, is_batched: bool = False
    ) -> float | None:
        """Return the cost in US dollars, or None if the price is unknown. `raw` is the provider's own usage object."""


class Tools(Protocol):
    """The loop's interface to a tool executor. `nbagent.functions.executor.ToolExecutor` implements it."""

    def list_functions(self) -> list[dict[str, Any]]:
        """Return the definitions of the tools that are on offer now."""

    def is_parallel(self, name: str) -> bool:
        """Whether the tool may run at the same time as other tools."""

    async def run(self, call: FunctionCall, interrupted: list[ToolOutcome] | None = None) -> ToolOutcome:
        """Run one call. Failures are returned, not raised. If the call is interrupted, its outcome is added to
        `interrupted`.
        """


class Speakers(Protocol):
    """Decides who speaks in a team's run. `nbagent.teams.team.TeamSpeakers` implements it."""

    speaker: str

    def take(self) -> list[LLMMessage]:
        """Switch the run to the next agent's provider and tools. Returns the conversation as that agent reads it."""

    def end_turn(self) -> None:
        """Called when a turn and its tool calls are over."""

    def passes_on(self) -> bool:
        """Called after an answer. Returns whether another agent speaks now."""


@dataclass(slots=True)
class Run:
    """The state of one run. `Agent.chat_stream` creates it, and `loop.run_loop` drives it."""

    entry: QueueEntry
    provider: Provider
    tools: Tools
    history: ContextManager
    limits: Limits
    price: Price
    #: Asks the model for a summary of messages, in a separate run.
    summarise: Callable[[Sequence[LLMMessage]], Coroutine[Any, Any, str]]
    observers: Sequence[Callable[[Event], None]] = ()
    #: The options of every request, such as `temperature`, `thinking` and the provider's own fields.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: The caller: `source`, `agent`, and the cell, by default the parent's or else the current code's.
    origin: Mapping[str, Any] = field(default_factory=dict)
    #: Tags, user, session and metadata, in addition to the parent's.
    labels: Labels = field(default_factory=Labels)
    #: Follows the system prompt in this run's requests, but is not kept in the history.
    instructions: str = ""
    #: Returns the reminder for each request, such as the state of a plan: see `ModelRequest.reminder`.
    reminder: Callable[[], str] | None = None
    #: A prompt in the conversation whose turn this run replaces.
    replaces: LLMMessage | None = None
    #: A prompt in the conversation before which this run starts a branch.
    branch_at: LLMMessage | None = None
    output: Output | None = None
    #: Check the answer that would end the run, after `output`, and may send it back to the model.
    checks: Sequence[AnswerCheck] = ()
    #: Check the prompt before anything is sent, and may refuse it.
    guards: Sequence[UserCheck] = ()
    #: `RunContext.deps` for tools and checks; by default the agent's, or else the parent's.
    deps: Any = field(default=None, repr=False)
    #: The run's `Agent`, a type that this layer does not know.
    agent: Any = field(default=None, repr=False)
    #: Decides who speaks in a team; None for a single agent.
    speakers: Speakers | None = None
    #: A shared budget that this run also spends.
    budget: Budget | None = None
    #: Whether each HTTP exchange becomes an event.
    record_http: bool = False
    run_id: str = field(default_factory=lambda: new_id("run"))
    #: The run whose tool started this one. It also counts this run's spending.
    parent: Run | None = field(init=False)
    #: That tool's call, and a callback that passes each event to the parent's observers; None without a parent.
    parent_call: str | None = field(init=False)
    report_to_parent: Callable[[Event], None] | None = field(init=False)
    spent: Account = field(init=False)
    result: AgentResult = field(init=False)
    #: The messages that completed the history after an interrupted or failed turn: the partial answer, missing results.
    closing_messages: list[LLMMessage] = field(default_factory=list)
    corrections: int = 0
    #: Whether the model's answer was empty and the model was asked once more.
    asked_again: bool = False
    #: Events that the observers have already seen. The reader receives them before the next event.
    pending_events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        here = current.get()
        self.parent, self.report_to_parent = here.run, here.report_event
        self.parent_call = here.call.tool_call_id if self.parent else None
        cell = {name: self.parent.origin[name] for name in Cell._fields} if self.parent else current_cell()._asdict()
        self.origin = {"source": "python", **cell, **self.origin}
        if self.output is not None:
            self.instructions = f"{self.instructions}\n\n{self.output.instructions}".strip()
            self.checks = (self.output.check, *self.checks)
            self.origin["output_type"] = self.output.type_name
        for fallback in (self.agent, self.parent):
            if self.deps is None and fallback is not None:
                self.deps = fallback.deps
        if self.parent is not None:
            self.labels = self.labels.within(self.parent.labels)
        budgets = (self.budget.account,) if self.budget else ()
        self.spent = Account(self.limits, here.account, len(here.enclosing), budgets)
        self.result = AgentResult(run_id=self.run_id)

    def started(self, text: str, messages: Sequence[LLMMessage] = (), after: LLMMessage | None = None) -> Event:
        """Return the first event, which contains the run's origin."""
        here = self.history.here
        here.branch = here.branch or self.run_id
        metadata = {
            **self.origin,
            **self.labels.as_metadata(),
            "run_id": self.run_id,
            "parent_run_id": self.parent.run_id if self.parent else None,
            "parent_tool_call_id": self.parent_call,
            "branch": here.branch,
            "conversation_id": here.conversation_id,
        }
        return RunStarted(text, metadata=metadata, messages=messages, after=after)

    def next_request(self) -> ModelRequest:
        """Return the next request, with the current history and tools."""
        messages = list(self.history.messages) if self.speakers is None else self.speakers.take()
        if self.instructions:
            system = messages.pop(0).text if messages[0].role == "system" else ""
            messages.insert(0, LLMMessage("system", f"{system}\n\n{self.instructions}".lstrip()))
        tools = self.tools.list_functions() or None
        # the reminder may depend on the caller
        reminder = context_with(call=self.run_context()).run(self.reminder) if self.reminder else ""
        compact_at = self.history.max_tokens if self.provider_summarises else None
        return ModelRequest(messages, tools, self.options, reminder=reminder, compact_at=compact_at)

    @property
    def provider_summarises(self) -> bool:
        """Whether the provider itself summarises a conversation that becomes too long."""
        history = self.history
        return history.strategy == "server" and self.provider.can_compact(history.max_tokens or 0)

    def until_time_is_up(self, step: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        """Yield the events of a step. The step is cut short when this run's time is up, whatever the step is waiting
        for.
        """
        return step if self.spent.seconds_left() is None else self._until_time_is_up(step)

    async def _until_time_is_up(self, step: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
        async with aclosing(step):
            while (left := self.spent.seconds_left()) is not None:
                try:
                    async with asyncio.timeout(left) as limit:
                        event = await anext(step, None)
                except TimeoutError:
                    if not limit.expired():  # raised by the step itself
                        raise
                    if left := self.spent.seconds_left():
                        await asyncio.sleep(left + _TIMER_SLACK_S)
                    return
                if event is None:
                    return
                yield event

    async def check_prompt(self, prompt: Sequence[LLMMessage]) -> None:
        """Pass the prompt to the guards. Raises PromptRefusedError if one refuses it."""
        contents = [message.content for message in prompt if message.role == "user"]
        parts = (
            each for content in contents for each in ([{"text": content}] if isinstance(content, str) else content)
        )
        text = "\n\n".join(part.get("text", "") for part in parts)
        for guard in self.guards:
            reason = await self.within(run_check(guard, text, self.run_context()))
            if reason is not None:
                raise PromptRefusedError(reason)

    async def check_answer(self) -> None:
        """Pass the answer to the checks. Raises SentBackError if one rejects it."""
        for check in self.checks:
            if (checking := check(self.result, self.run_context())) is not None:
                await self.within(checking)

    def run_context(self, **of_call: Any) -> RunContext:
        """Return a `RunContext` of this run, for a tool or a check."""
        return RunContext(
            run_id=self.run_id,
            source=self.origin.get("source"),
            agent_name=self.origin.get("agent"),
            cell_id=self.origin.get("cell_id"),
            execution_count=self.origin.get("execution_count"),
            agent=self.agent,
            deps=self.deps,
            **of_call,
        )

    async def within(self, work: Awaitable[T]) -> T:
        """Await code of this run, such as a check. Agents that this code calls count as called by this run."""

        async def awaited() -> T:
            return await work

        return await asyncio.create_task(awaited(), context=self.inner_context())

    def inner_context(self, **changes: Any) -> Context:
        """Return a changed copy of the current context, for code that this run executes and waits for."""
        return self.own_context(enclosing=current.get().enclosing | {self.entry}, **changes)

    def own_context(self, call: RunContext | None = None, **changes: Any) -> Context:
        """Return a changed copy of the current context, for code that this run executes. For a tool, pass its `call`.

        Without a `call`, the code's printed output belongs to the call that started the run.
        """
        call = call or RunContext(output=current.get().call.output)
        return context_with(**{"run": self, "account": self.spent, "call": call, "report_event": None, **changes})

    def emit(self, event: Event, metadata: Mapping[str, Any] | None = None) -> Event:
        """Add metadata to an event and pass it to the observers. The caller yields it."""
        if metadata is None:
            metadata = {"run_id": self.run_id}
        event.metadata = {**metadata, **event.metadata} if event.metadata else metadata
        for observe in self.observers:
            observe(event)
        if self.report_to_parent is not None:
            self.report_to_parent(event)
        return event


#: Timers may fire this many seconds early (uvloop's do, by 1 ms).
_TIMER_SLACK_S = 0.02
