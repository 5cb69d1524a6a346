"""`RunRequest`: a protocol's request to the agent. `HostedRun`: the run that answers the request, and its events.

A run is saved before its last event is sent, so after `done` the turn is always stored. A client that disconnects
cancels its run unless the request has an idempotency key. The unfinished turn is also saved, so the conversation stays
valid.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nbagent.agent.agent import Agent
from nbagent.core.events import (
    AnyEvent,
    ChildEvent,
    Done,
    Error,
    Event,
    Interrupted,
    RunStarted,
    ToolResult,
    TurnStarted,
    UsageReport,
)
from nbagent.core.inputs import MessageInput
from nbagent.core.limits import Account, Limits
from nbagent.core.messages import LLMMessage
from nbagent.core.results import AgentResult
from nbagent.core.stream import AgentStream
from nbagent.errors import TurnLostError
from nbagent.providers.base import LLMProvider
from nbagent.server.conversations.store import Conversation, KeptAnswer
from nbagent.server.problems import RefusedError

T = TypeVar("T")

#: The problem code of a run that a person stopped.
STOPPED = "stopped"


@dataclass(frozen=True)
class IdempotencyKey:
    """An idempotency key. The answer to the first request with this key is kept, and returned for repeated requests.

    `fingerprint` identifies the request. Once the run is done, `text(run)` creates the text to keep. The run continues
    even if its client disconnects, perhaps because of a short timeout, so its tools run only once.
    """

    key: str
    fingerprint: str
    text: Callable[[HostedRun], str]

    def answer(self, run: HostedRun) -> KeptAnswer | None:
        """Return the answer to keep, or None for a failed run, so that a repeated request starts a new run."""
        return KeptAnswer(self.key, self.fingerprint, self.text(run)) if run.result is not None else None

    def text_of(self, first: KeptAnswer) -> str:
        """Return the kept text. Raises `RefusedError` if the key was used for a different request."""
        if first.fingerprint != self.fingerprint:
            detail = "This Idempotency-Key belongs to another request. Choose a new key for each request."
            raise RefusedError(422, "idempotency_key_reused", detail)
        return first.body


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """A protocol's request to the agent.

    - `message`: a string, content parts, or an `LLMMessage`
    - `conversation_id`: None starts a new conversation
    - `history`: the client's own history, which replaces the stored one
    - `after`: the id of the last prompt in this history. If the conversation has a later prompt, the run starts a
      branch in a new conversation.
    - `stored`: if False, only the cost is saved
    - `instructions`: system text from the client, in addition to the agent's
    - `provider`, `model`: a provider and a model that the server allows; None for the agent's own
    - `limits`: these can lower the server's and the agent's limits, but not raise them
    - `options`: other options of `Agent.chat_stream`
    - `waits_for_approval`: if False, calls that need approval are denied at once
    - `agent`: an agent for this client only, for example one with the tools of the client's editor
    - `origin`: the protocol, for the trace
    """

    message: MessageInput
    conversation_id: str | None = None
    history: Sequence[LLMMessage] | None = None
    after: str | None = None
    stored: bool = True
    busy: Callable[[], Awaitable[None]] | None = None
    instructions: str | None = None
    provider: str | None = None
    model: str | None = None
    limits: Limits = field(default_factory=Limits)
    options: Mapping[str, Any] = field(default_factory=dict)
    waits_for_approval: bool = False
    idempotency: IdempotencyKey | None = None
    agent: Agent | None = None
    recorded: Callable[[Agent], Mapping[str, Any]] | None = None
    origin: Mapping[str, str] = field(default_factory=lambda: {"source": "http"})

    def stream(self, agent: Agent, limits: Limits) -> AgentStream:
        """Return the agent's stream for this request."""
        return agent.chat_stream(
            self.message,
            limits=limits,
            instructions=self.instructions or "",
            origin=self.origin,
            raise_errors=False,
            **self.options,
        )


class HostedRun:
    """A run of an `AgentHost`. Iterate over its events once. Afterwards, `result` or `error` is set.

    For a repeated request with an idempotency key, `kept_answer` is the saved answer, and no run starts.
    """

    def __init__(self, owner: str, conversation_id: str, provider: LLMProvider) -> None:
        self.owner = owner
        self.conversation_id = conversation_id
        self.run_id = ""
        self.provider = provider.provider_name
        self.model = provider.model_name
        self.result: AgentResult | None = None
        self.error: BaseException | None = None
        self.kept_answer: str | None = None
        #: The cost of the run, and its conversation before it.
        self.account = Account()
        self.before: Conversation | None = None
        #: Whether a person stopped it.
        self.is_stopped = False
        #: Set with the last event.
        self.ended = asyncio.Event()
        self._tool_results: list[ToolResult] = []
        self._queue: asyncio.Queue[AnyEvent | None] = asyncio.Queue()
        self._reading: asyncio.Task[Any] | None = None
        self._last: Done | Error | None = None

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        while (event := await self._queue.get()) is not None:
            yield event

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results of tool calls so far, in the order of the calls."""
        return sorted(self._tool_results, key=lambda event: (event.metadata["step"], event.metadata["index"]))

    async def outcome(self) -> AgentResult:
        """Read the run to its end and return its result. If the run failed, raises its error."""
        async for _ in self:
            pass
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def put(self, event: AnyEvent) -> None:
        """Pass an event to the reader."""
        self._note(event)
        self._queue.put_nowait(event)

    def put_observed(self, event: Event) -> None:
        """Pass on events that only observers receive: the events of called agents, and the last events of a stopped
        run.
        """
        if isinstance(event, ChildEvent) or (self.is_stopped and isinstance(event, UsageReport | Interrupted)):
            self.put(event)

    def stop(self) -> None:
        """Stop the run because a person asked for it."""
        self.is_stopped = True
        self.cancel()

    def cancel(self) -> None:
        """Cancel the run immediately. Its conversation stays valid."""
        if self._reading is not None:
            self._reading.cancel()

    async def wait_for(self, work: Awaitable[T]) -> T:
        """Await `work`, such as the end of the conversation's current run. Raises `RefusedError` if the run is stopped
        while it waits.
        """
        task = self._reading = asyncio.current_task()
        try:
            return await work
        except asyncio.CancelledError:
            if not self.is_stopped or task is None:
                raise
            task.uncancel()
            raise _stopped() from None
        finally:
            self._reading = None

    def start(
        self,
        stream: AgentStream,
        context: Context,
        lost: asyncio.Future[None] | None,
        save: Callable[[], Awaitable[None]],
        held: AsyncExitStack,
    ) -> asyncio.Task[None]:
        """Start the run. Returns a task that ends when the run is saved and its last event is sent. Don't cancel this
        task.

        If `lost` completes, the turn is lost and the run ends early. `held` is closed at the end.
        """
        reading: asyncio.Task[None] = asyncio.create_task(self._read(stream), context=context)
        self._reading = reading
        if lost is not None:
            lost.add_done_callback(lambda _: reading.cancel())

        async def finish() -> None:
            async with held:
                await asyncio.wait({reading})
                error: BaseException | None = None if reading.cancelled() else reading.exception()
                if lost is not None and lost.done():
                    error = TurnLostError(
                        "The conversation was deleted, or another process has taken its turn. Try again."
                    )
                try:
                    await save()
                except Exception as failure:  # noqa: BLE001  the client gets it as the last event
                    error = failure
                if error is None and self._last is None:
                    error = _stopped() if self.is_stopped else shutting_down()
                event = self._last if error is None else Error(str(error), exception=error)
                if isinstance(event, Error):
                    self.result, self.error = None, event.exception
                self._queue.put_nowait(event)
                self._queue.put_nowait(None)
                self.ended.set()

        return asyncio.create_task(finish())

    async def _read(self, stream: AgentStream) -> None:
        """Pass on the run's events, except the last one."""
        async with aclosing(aiter(stream)) as events:
            async for event in events:
                if isinstance(event, Done | Error):
                    self._note(event)
                    self._last = event
                else:
                    self.put(event)

    def _note(self, event: AnyEvent) -> None:
        if isinstance(event, RunStarted):
            self.run_id = event.metadata["run_id"]
        elif isinstance(event, TurnStarted):  # one of several models may answer
            self.provider, self.model = event.metadata["provider"], event.metadata["model"]
        elif isinstance(event, ToolResult):
            self._tool_results.append(event)
        elif isinstance(event, Done):
            self.result = event.result
        elif isinstance(event, Error):
            self.error = event.exception


def _stopped() -> RefusedError:
    return RefusedError(409, STOPPED, "The run was stopped.")


def shutting_down() -> RefusedError:
    """Return the error for requests that the server can't answer because it is stopping."""
    return RefusedError(503, "shutting_down", "The server is shutting down. Try again.", Retry_After="5")
