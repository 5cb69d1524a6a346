"""`POST /ag-ui`: AG-UI's events for its clients, such as `HttpAgent` of `@ag-ui/client`.

A run that waits for a person ends with an interrupt, and the client begins another one with the person's decision.
Meanwhile the agent's run waits in this process. If nobody decides in time, the call is denied, and the run continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Self

from ag_ui import core as ag_ui
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from nbagent.core import events
from nbagent.core.messages import LLMMessage
from nbagent.core.render.markdown import format_call
from nbagent.errors import NbagentError
from nbagent.server import event_stream
from nbagent.server.agent_host import AgentHost
from nbagent.server.conversations.store import Decision, WaitingCall
from nbagent.server.event_stream import EventStream, sse
from nbagent.server.hosted_run import HostedRun, RunRequest
from nbagent.server.problems import RefusedError, problem_of
from nbagent.server.routes.ag_ui.messages import as_shown, read_instructions, read_messages
from nbagent.server.routes.ag_ui.translation import Told, Translation
from nbagent.server.routes.approvals import check_arguments
from nbagent.server.routes.asking import ID_PATTERN, MAX_MESSAGES, Host, Owner

router = APIRouter(tags=["ag-ui"])

#: The event that names the client's own tools: the agent runs its own tools and ignores these.
LEFT_OUT = "nbagent.tools_left_out"
#: Seconds between two checks of another process's run.
LOOK_S = 0.5
#: The schema of a person's decision.
_DECISION = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "All arguments, in place of the model's."},
        "reason": {"type": "string", "description": "Why not; the model reads it."},
    },
    "required": ["approved"],
}


class AgUiInput(ag_ui.RunAgentInput):
    """An AG-UI client's request. `threadId` names the conversation."""

    thread_id: str = Field(pattern=ID_PATTERN)
    messages: list[ag_ui.Message] = Field(max_length=MAX_MESSAGES)


@router.post("/ag-ui", response_class=Response, responses={200: {"content": {event_stream.MEDIA_TYPE: {}}}})
async def ag_ui_run(request: Request, host: Host, owner: Owner, body: AgUiInput) -> Response:
    """Send a prompt as an AG-UI client: the answer is AG-UI's events.

    The client's messages are the conversation. Without messages, the answer is the thread's current conversation.
    """
    return EventStream(AgUiExchange(host, request.app.state.waiting_talks, owner, body), _write)


async def _write(exchange: AgUiExchange) -> AsyncGenerator[str]:
    async for event in exchange.events():
        yield sse(event if isinstance(event, dict) else event.model_dump(by_alias=True))


class Talk:
    """A run of the agent, over one or several requests.

    While it waits, `held` keeps it: closing that cancels the run.
    """

    def __init__(self, run: HostedRun, translation: Translation) -> None:
        self.run, self.translation = run, translation
        self.held = AsyncExitStack()
        #: Whether the run can't continue without a person.
        self.waits = False
        #: Running calls, and calls that wait for a person's decision.
        self._running: set[str] = set()
        self._asked: set[str] = set()

    async def continued(self) -> AsyncIterator[Told]:
        """What happens until the run ends or waits."""
        self.waits = False
        self._running |= self._asked
        self._asked.clear()
        async for event in self.run:
            if isinstance(event, events.Error):
                problem = problem_of(event.exception)
                for told in self.translation.failed(problem.detail, problem.code):
                    yield told
            for told in self.translation.translate(event):
                yield told
            call_id = event.metadata.get("tool_call_id", "")
            match event:
                case events.ToolStarted():
                    self._running.add(call_id)
                case events.ToolResult():
                    self._running.discard(call_id)
                case events.Approval("asked"):
                    self._running.discard(call_id)
                    self._asked.add(call_id)
            if self._asked and not self._running:
                self.waits = True
                return


class WaitingTalks:
    """The runs of this process that wait for a person, by owner and thread."""

    def __init__(self) -> None:
        self.talks: dict[tuple[str, str], Talk] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def keep(self, owner: str, thread: str, talk: Talk) -> None:
        """Keep a run until its client returns, or until it ends."""
        self.talks[owner, thread] = talk
        task = asyncio.create_task(self._let_go(owner, thread, talk))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _let_go(self, owner: str, thread: str, talk: Talk) -> None:
        await talk.run.ended.wait()
        if self.talks.get((owner, thread)) is talk:
            await self.talks.pop((owner, thread)).held.aclose()


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

    async def events(self) -> AsyncIterator[Told]:
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

    async def _talk(self) -> Talk | None:
        """The run that answers: the one that waited for this request, or a new one; None if none runs here."""
        store, given = self._host.store, self._given
        if given.messages and not given.resume:
            return await self._new_talk()
        asked = {call.id: call for call in await store.approvals(self._owner, self._thread)}
        if not asked and not given.resume:
            return None
        decisions = _decisions(asked, given.resume or ())
        for name, decision in decisions.items():
            if decision.arguments is not None:
                check_arguments(self._host, asked[name].tool, decision.arguments)
        talk = self._waiting.talks.pop((self._owner, self._thread), None)
        if talk is not None:
            self._held.push_async_callback(talk.held.aclose)
        for name, decision in decisions.items():
            await store.decide(self._owner, name, decision)
        return talk

    async def _new_talk(self) -> Talk:
        given, most = self._given, self._host.settings.max_concurrent
        if most is not None and sum(owner == self._owner for owner, _ in self._waiting.talks) >= most:
            detail = f"{most} runs of this token wait for a decision. Decide first."
            raise RefusedError(429, "too_many_waiting", detail)
        *before, question = read_messages(given.messages) or [LLMMessage("system")]
        if question.role != "user":
            detail = f"The last message must be the user's question, and is of {given.messages[-1].role!r}."
            raise RefusedError(422, "invalid_request", detail)
        request = RunRequest(
            message=question,
            conversation_id=self._thread,
            history=before or None,
            instructions=read_instructions(given),
            waits_for_approval=True,
            busy=self._refuse_unanswered,
        )
        run = await self._held.enter_async_context(self._host.run(self._owner, request))
        earlier = run.before.messages if run.before else ()
        shown = given.messages if before else [*as_shown(earlier, self._thread), *given.messages]
        return Talk(run, Translation(self._thread, run.model, shown))

    async def _refuse_unanswered(self) -> None:
        """Refuse another question while the thread's run waits for decisions."""
        if asked := await self._host.store.approvals(self._owner, self._thread):
            _decisions({call.id: call for call in asked}, ())

    async def _continued(self, talk: Talk) -> AsyncIterator[Told]:
        for told in talk.translation.begin(self._given.run_id, self._given.state):
            yield told
        async for told in talk.continued():
            yield told
        if talk.waits:
            asked = await self._host.store.approvals(self._owner, self._thread)
            talk.held = self._held.pop_all()  # from here on the client may leave
            self._waiting.keep(self._owner, self._thread, talk)
            for told in talk.translation.interrupted(_interrupts(asked)):
                yield told

    async def _stored(self) -> AsyncIterator[Told]:
        """The conversation as it is stored; after a decision on a run of another process, what has become of it."""
        given, model = self._given, self._host.agent.provider.model_name
        asked = await self._settled() if given.resume else []
        stored = await self._host.store.get(self._owner, self._thread)
        shown = given.messages if asked else as_shown(stored.messages if stored else (), self._thread)
        translation = Translation(self._thread, model, shown)
        told = translation.shown(given.run_id, given.state)
        for event in translation.interrupted(_interrupts(asked)) if asked else told:
            yield event

    async def _settled(self) -> list[WaitingCall]:
        """Wait until the conversation's turn is free, or until its run asks again: then return its questions."""
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


def _interrupts(asked: Iterable[WaitingCall]) -> list[ag_ui.Interrupt]:
    """The calls that wait for a decision until they expire."""
    return [
        ag_ui.Interrupt(
            id=call.id,
            reason="tool_call",
            message=f"Run {format_call(call.tool, call.arguments)}?",
            tool_call_id=call.tool_call_id,
            response_schema=_DECISION,
            expires_at=datetime.fromtimestamp(call.expires, UTC).isoformat(),
        )
        for call in asked
    ]


def _decisions(asked: Mapping[str, Any], entries: Sequence[ag_ui.ResumeEntry]) -> dict[str, Decision]:
    """The person's decision on each question. Raises `RefusedError` if one is missing."""
    given = {entry.interrupt_id: entry for entry in entries}
    if not asked:
        detail = "Nothing in this thread waits for a decision: it was decided, or nobody decided in time."
        raise RefusedError(409, "no_such_interrupt", detail)
    if given.keys() != asked.keys():
        waiting, told = ", ".join(asked), ", ".join(given) or "nothing"
        detail = f"This thread waits for decisions on {waiting}, and `resume` answers {told}."
        raise RefusedError(409, "interrupts_not_answered", detail)
    return {name: _decision(entry) for name, entry in given.items()}


def _decision(entry: ag_ui.ResumeEntry) -> Decision:
    if entry.status == "cancelled":
        return Decision(False, reason="The person left without a decision.")
    payload: Any = entry.payload
    told = payload if isinstance(payload, dict) else {}
    approved, arguments, reason = told.get("approved"), told.get("editedArgs"), told.get("reason", "")
    if isinstance(approved, bool) and isinstance(arguments, dict | None) and isinstance(reason, str):
        return Decision(approved, arguments if approved else None, reason)
    detail = f'The payload for {entry.interrupt_id} is not a decision: expected {{"approved": true}} or false.'
    raise RefusedError(422, "invalid_decision", detail)
