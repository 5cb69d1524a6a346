"""`AgentHost` runs an agent in many conversations, for every protocol: HTTP, AG-UI, OpenAI's APIs, ACP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from nbagent.agent.agent import Agent
from nbagent.checks import check_type, invalid
from nbagent.core.current import context_with, current
from nbagent.core.history.history import without_drafts
from nbagent.core.history.preview import Preview
from nbagent.core.messages import LLMMessage, new_id
from nbagent.pricing import check_priced
from nbagent.providers import resolve
from nbagent.providers.base import LLMProvider
from nbagent.server.approvals import HTTPApprover, deny
from nbagent.server.budgets import Budgets
from nbagent.server.conversations.store import Conversation, ConversationStore, Lease, Spent
from nbagent.server.hosted_run import HostedRun, RunRequest, shutting_down
from nbagent.server.problems import RefusedError, not_found
from nbagent.server.settings import ServerSettings
from nbagent.text import shortened

if TYPE_CHECKING:  # its package comes with the `server` extra
    from nbagent.server.metrics import Metrics


class AgentHost:
    """Runs one agent, or several named agents, for the holders of a server's tokens.

    Each run uses a fork of the agent, with the same tools, connections and system prompt but without its conversation.
    Raises `ConfigurationError` if there is a limit in dollars but a model has no known price.

    >>> host = AgentHost(agent, open_store("memory:"), ServerSettings(tokens=[token]))      # doctest: +SKIP
    >>> async with host.run("me", RunRequest(message="Hello")) as run:                      # doctest: +SKIP
    ...     print(await run.outcome())
    """

    def __init__(
        self,
        agent: Agent | Mapping[str, Agent],
        store: ConversationStore,
        settings: ServerSettings,
        metrics: Metrics | None = None,
    ) -> None:
        #: The agents by their model name in requests. The first one answers requests without a name.
        self.agents = dict(agent) if isinstance(agent, Mapping) else {"": agent}
        for hosted in self.agents.values():
            check_type("agent", hosted, Agent, fix="Pass an Agent.")
        if not self.agents:
            raise invalid("agent", {}, "at least one agent", "Pass an Agent.")
        #: Whether closing the server also closes the agents' toolsets, because nothing else uses them.
        self.owns_agent = False
        self.store = store
        self.settings = settings
        self._metrics = metrics
        self._budgets = Budgets(store, settings)
        self._providers: dict[str, LLMProvider] = {}
        self._waiting: set[HostedRun] = set()
        self._running: dict[asyncio.Task[None], HostedRun] = {}
        self._is_closing = False
        self._check_priced()

    @property
    def agent(self) -> Agent:
        """The agent, or the first of several."""
        return next(iter(self.agents.values()))

    @property
    def models(self) -> list[str]:
        """The names that a request may pass as its model: first the agent's own model, then the other models and
        agents.
        """
        own = f"{self.agent.provider.provider_name}:{self.agent.provider.model_name}"
        return list(dict.fromkeys([own, *self.settings.models, *filter(None, self.agents)]))

    def provider_for(self, provider: str | None, model: str | None) -> LLMProvider:
        """Return the provider that a request names. Raises `RefusedError` if the provider or model is not allowed."""
        if provider is None and model in self.agents:
            return self.agents[model].provider
        for name in self.models:
            provider_name, _, own_model = name.partition(":")
            if provider in (None, provider_name) and model in (None, own_model, name):
                if name == self.models[0]:
                    return self.agent.provider
                if name not in self._providers:
                    self._providers[name] = resolve(name)
                return self._providers[name]
        asked = shortened(":".join(filter(None, (provider, model))), 100)
        detail = f"The model {asked!r} is not allowed here. Choose from: {', '.join(self.models)}."
        raise RefusedError(403, "model_not_allowed", detail)

    @asynccontextmanager
    async def run(self, owner: str, request: RunRequest) -> AsyncIterator[HostedRun]:
        """Wait until the conversation has no other run in progress, and start the run.

        Leaving the block early cancels the run, unless the request has an idempotency key. The saved conversation is
        always valid.
        """
        key = request.idempotency
        provider = self.provider_for(request.provider, request.model)
        original = request.agent or self.agents.get(request.model or "", self.agent)
        run = HostedRun(owner, request.conversation_id or new_id("conv"), provider)
        async with AsyncExitStack() as held:
            if key is not None:
                first = await held.enter_async_context(self.store.request(owner, key.key))
                if first is not None:
                    run.kept_answer = key.text_of(first)
                    yield run
                    return
            turn = None
            if request.stored:
                self._waiting.add(run)
                try:
                    turn = await run.wait_for(held.enter_async_context(self._turn(owner, request, run)))
                finally:
                    self._waiting.discard(run)
            run.account = await held.enter_async_context(self._budgets.account(owner))
            run.before = turn.conversation if turn is not None else None
            limits = self._budgets.limits(request.limits, original.limits, turn, run.account)
            if self._is_closing:
                raise shutting_down()
            agent = _fork(original, request, run.before, provider)
            agent.context.here.conversation_id = run.conversation_id
            self._let_approve(agent, owner, request, run)
            agent.observers.append(run.put_observed)
            context = context_with(account=run.account)
            save = partial(self._save, request, turn, agent, run)
            stream = request.stream(agent, limits)
            task = run.start(stream, context, turn.lost if turn else None, save, held.pop_all())
            self._running[task] = run
            if self._metrics is not None:
                self._metrics.run_began()
            task.add_done_callback(self._running.pop)
        try:
            yield run
        finally:
            if key is None:
                run.cancel()
            await asyncio.shield(task)

    async def preview(self, owner: str, request: RunRequest) -> Preview:
        """Return the first model request that a run for this request would send."""
        provider = self.provider_for(request.provider, request.model)
        original = self.agents.get(request.model or "", self.agent)
        await original.toolsets.prepare()
        stored = None if request.conversation_id is None else await self.store.get(owner, request.conversation_id)
        agent = _fork(original, request, stored, provider)
        return request.stream(agent, original.limits).preview()

    async def conversation(self, owner: str, conversation_id: str) -> Conversation:
        """Return a stored conversation. Raises `RefusedError` if the owner has none with this id."""
        found = await self.store.get(owner, conversation_id)
        if found is None:
            raise not_found("conversation with that id")
        return found

    def _check_priced(self) -> None:
        """Raise if a limit in dollars would refuse every prompt, because a model has no known price."""
        names = ("max_cost_per_conversation", "max_cost_per_token")
        limits = {"max_cost": self.settings.limits.max_cost, **{name: getattr(self.settings, name) for name in names}}
        for name, dollars in limits.items():
            for model in self.models if dollars is not None else ():
                check_priced(dollars, self.provider_for(None, model), name)

    def stop(self, owner: str, conversation_id: str) -> int:
        """Stop a conversation's running and waiting runs in this process, and return their number."""
        runs = (*self._waiting, *self._running.values())
        found = [run for run in runs if (run.owner, run.conversation_id) == (owner, conversation_id)]
        for run in found:
            run.stop()
        return len(found)

    def stop_runs(self) -> int:
        """Stop the runs in progress, and return their number."""
        for run in self._running.values():
            run.cancel()
        return len(self._running)

    def end_runs(self) -> None:
        """Stop all runs, and refuse new ones."""
        self._is_closing = True
        self.stop_runs()

    async def aclose(self) -> None:
        """End all runs, and close the connections to models."""
        self.end_runs()
        if self._running:
            await asyncio.wait(set(self._running))
        for agent in self.agents.values():
            await (agent if self.owns_agent else agent.provider).aclose()
        for provider in self._providers.values():
            await provider.aclose()

    @asynccontextmanager
    async def _turn(self, owner: str, request: RunRequest, run: HostedRun) -> AsyncIterator[Lease]:
        """The turn of the run's conversation, or of a new branch if the conversation has continued elsewhere."""
        async with self.store.turn(owner, run.conversation_id, request.busy) as turn:
            messages = turn.conversation.messages if turn.conversation else ()
            last = next((message.message_id for message in reversed(messages) if message.opens_turn), None)
            if request.after in (None, last):
                yield turn
                return
        run.conversation_id = new_id("conv")
        async with self.store.turn(owner, run.conversation_id) as turn:
            yield turn

    def _let_approve(self, agent: Agent, owner: str, request: RunRequest, run: HostedRun) -> None:
        """Set the approver to the client's user, unless the agent or the whole server has one."""
        if agent.tool_executor.approver is None and current.get().approver is None:
            waits = HTTPApprover(self.store, self.settings.approval_seconds, owner, run)
            agent.tool_executor.approver = waits if request.waits_for_approval else deny

    async def _save(self, request: RunRequest, turn: Lease | None, agent: Agent, run: HostedRun) -> None:
        """Save the turn, its cost, and the answer for repeated requests."""
        messages = [message for message in agent.conversation_history if message.role != "system"]
        if turn is not None and not messages and turn.conversation is None:  # the first prompt failed
            turn = None
        spent = Spent(run.account.dollars, run.account.usage.total_tokens)
        answer = request.idempotency.answer(run) if request.idempotency is not None else None
        if self._metrics is not None:
            self._metrics.run_ended(run)
        kept = request.recorded(agent) if request.recorded is not None and turn else None
        await self.store.save(
            run.owner, spent, turn=turn, messages=messages if turn else (), answer=answer, recorded=kept
        )
        run.kept_answer = answer.body if answer is not None else None


def _fork(original: Agent, request: RunRequest, stored: Conversation | None, provider: LLMProvider) -> Agent:
    """Fork the agent with the conversation of this request."""
    agent = original.fork()
    if provider is not agent.provider:
        agent.provider = provider
    agent.context.messages[:] = [m for m in agent.context.messages if m.role == "system"]
    before = stored.messages if stored is not None else ()
    agent.context.messages += before if request.history is None else _with_stored(request.history, before)
    agent.tool_executor = agent.tool_executor.with_options()
    return agent


def _with_stored(given: Sequence[LLMMessage], stored: Sequence[LLMMessage]) -> list[LLMMessage]:
    """Return the given messages, replaced by stored ones where they match.

    Stored messages also contain data that providers expect back, such as signatures of thinking.
    """
    same: list[LLMMessage] = []
    hidden: list[LLMMessage] = []  # messages that clients don't see
    rest, shown = iter(given), {id(message) for message in without_drafts(stored)}
    for own in stored:
        if id(own) not in shown:
            hidden.append(own)
            continue
        other = next(rest, None)
        if other is None or _essence(own) != _essence(other):
            rest = chain([] if other is None else [other], rest)
            break
        same += [*hidden, own]
        hidden.clear()
    return [*same, *rest]


def _essence(message: LLMMessage) -> Any:
    """The part of a message that every client keeps. Ids of calls may differ."""
    calls = [(call.name, call.arguments) for call in message.tool_calls or ()]
    return message.role, message.content if message.role == "user" else message.text, calls
