"""One request of an AG-UI client, and the events that answer it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Self

from ag_ui import core as ag_ui

from nbagent.core.messages import LLMMessage
from nbagent.errors import NbagentError
from nbagent.server.agent_host import AgentHost
from nbagent.server.conversations.store import WaitingCall
from nbagent.server.hosted_run import RunRequest
from nbagent.server.problems import RefusedError, problem_of
from nbagent.server.routes.ag_ui.interrupts import interrupt, read_decisions
from nbagent.server.routes.ag_ui.messages import as_shown, known, read_instructions, read_messages
from nbagent.server.routes.ag_ui.talk import Talk, WaitingTalks
from nbagent.server.routes.ag_ui.translation import Translation
from nbagent.server.routes.approvals import check_arguments

#: The event that names the client's own tools: the agent runs its tools itself, and leaves these out.
LEFT_OUT = "nbagent.tools_left_out"
#: Seconds between two looks at a run of another process.
LOOK_S = 0.5


class AgUiExchange:
    """A request and its events. Leaving it early cancels the run, unless that waits for a person."""

    def __init__(self, host: AgentHost, waiting: WaitingTalks, owner: str, given: ag_ui.RunAgentInput) -> None:
        self._host, self._waiting, self._given = host, waiting, given
        self._owner, self._thread = owner, given.thread_id
        self._held = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._held.aclose()

    async def events(self) -> AsyncIterator[ag_ui.BaseEvent]:
        """What answers the request. A request that is refused is a run that fails."""
        given, version = self._given, ag_ui.PROTOCOL_VERSION
        yield ag_ui.RunStartedEvent(thread_id=self._thread, run_id=given.run_id, protocol_version=version)
        if given.tools:
            yield ag_ui.CustomEvent(name=LEFT_OUT, value=[tool.name for tool in given.tools])
        try:
            talk = await self._talk()
            answer = self._stored() if talk is None else self._continued(talk)
            async for event in answer:
                yield event
        except NbagentError as error:
            problem = problem_of(error)
            yield ag_ui.RunErrorEvent(message=problem.detail, code=problem.code)

    async def _continued(self, talk: Talk) -> AsyncIterator[ag_ui.BaseEvent]:
        for told in talk.translation.begin(self._given.run_id, self._given.state):
            yield told
        async for told in talk.continued():
            yield told
        if talk.asked:
            talk.held = self._held.pop_all()  # from here on the client may leave
            self._waiting.keep(self._owner, self._thread, talk)
            for told in talk.translation.interrupted(talk.interrupts()):
                yield told

    async def _stored(self) -> AsyncIterator[ag_ui.BaseEvent]:
        """The conversation as it is stored; after a decision on a run of another process, what has become of it."""
        given, model = self._given, self._host.agent.provider.model_name
        asked = await self._settled() if given.resume else []
        stored = await self._host.store.get(self._owner, self._thread)
        shown = given.messages if asked else as_shown(stored.messages if stored else (), self._thread)
        translation = Translation(self._thread, model, shown)
        events = translation.shown(given.run_id, given.state)
        if asked:
            events = translation.interrupted([interrupt(e.id, e.tool, e.arguments, e.expires) for e in asked])
        for event in events:
            yield event

    async def _settled(self) -> list[WaitingCall]:
        """Wait until the conversation's turn is free; or until its run asks again: then its questions."""
        store = self._host.store
        async with AsyncExitStack() as turn:
            free = asyncio.ensure_future(turn.enter_async_context(store.turn(self._owner, self._thread)))
            try:
                while not (await asyncio.wait({free}, timeout=LOOK_S))[0]:
                    if asked := await store.approvals(self._owner, self._thread):
                        return asked
            finally:
                free.cancel()
                await asyncio.wait({free})
        return []

    async def _talk(self) -> Talk | None:
        """The run that answers: the one that waited for this request, or a new one; None if none runs here."""
        store, given = self._host.store, self._given
        talk = self._waiting.get(self._owner, self._thread)
        if talk is not None:
            asked = {name: question.tool_name or "" for name, question in talk.asked.items()}
        else:
            asked = {each.id: each.tool for each in await store.approvals(self._owner, self._thread)}
        if not asked and not given.resume:
            return await self._new_talk() if given.messages else None
        decisions = read_decisions(asked, given.resume or ())
        for name, decision in decisions.items():
            if decision.arguments is not None:
                check_arguments(self._host, asked[name], decision.arguments)
        if talk is not None:
            self._held.push_async_callback(self._waiting.take(self._owner, self._thread).held.aclose)
        for name, decision in decisions.items():
            await store.decide(self._owner, name, decision)
        return talk

    async def _new_talk(self) -> Talk:
        given, most = self._given, self._host.settings.max_concurrent
        if most is not None and self._waiting.count(self._owner) >= most:
            detail = f"{most} runs of this token wait for a decision. Decide first."
            raise RefusedError(429, "too_many_waiting", detail)
        *before, question = read_messages(given.messages) or [LLMMessage("system")]
        if question.role != "user":
            detail = f"The last message must be the user's question, and is of {given.messages[-1].role!r}."
            raise RefusedError(422, "invalid_request", detail)
        stored = await self._host.store.get(self._owner, self._thread)
        earlier = list(stored.messages) if stored else []
        request = RunRequest(
            message=question,
            conversation_id=self._thread,
            history=known(before, earlier) if before else None,
            instructions=read_instructions(given),
            waits_for_approval=True,
        )
        run = await self._held.enter_async_context(self._host.run(self._owner, request))
        shown = given.messages if before else [*as_shown(earlier, self._thread), *given.messages]
        return Talk(run, Translation(self._thread, run.model, shown))
