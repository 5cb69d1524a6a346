"""`POST /ag-ui`: sends AG-UI events to clients such as `HttpAgent` from `@ag-ui/client`.

When the agent's run waits for a person, the AG-UI run ends with an interrupt. The client then starts another AG-UI run
with the person's decision. In between, the agent's run waits in this process. If nobody decides in time, the call is
denied and the run continues.
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
from nbagent.server.routes.ag_ui.translation import AgUiEvent, Translation
from nbagent.server.routes.approvals import check_arguments
from nbagent.server.routes.dependencies import ID_PATTERN, MAX_MESSAGES, Host, Owner

router = APIRouter(tags=["ag-ui"])

#: The event with the names of the client's tools, which the agent ignores.
OMITTED_TOOLS = "nbagent.tools_left_out"
#: The seconds between two checks of another process's run.
POLL_S = 0.5
#: The schema of a person's decision.
_DECISION = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "All arguments, replacing the model's."},
        "reason": {"type": "string", "description": "Why it is denied; the model reads it."},
    },
    "required": ["approved"],
}


class AgUiInput(ag_ui.RunAgentInput):
    """An AG-UI client's request. `threadId` is the id of the conversation."""

    thread_id: str = Field(pattern=ID_PATTERN)
    messages: list[ag_ui.Message] = Field(max_length=MAX_MESSAGES)


@router.post("/ag-ui", response_class=Response, responses={200: {"content": {event_stream.MEDIA_TYPE: {}}}})
async def ag_ui_run(request: Request, host: Host, owner: Owner, body: AgUiInput) -> Response:
    """Send a prompt from an AG-UI client. The response is a stream of AG-UI events.

    The request contains the whole conversation. If it contains no messages, the response is the thread's stored
    conversation.
    """
    return EventStream(AgUiExchange(host, request.app.state.waiting_runs, owner, body), _write)


async def _write(exchange: AgUiExchange) -> AsyncGenerator[str]:
    async for event in exchange.events():
        yield sse(event if isinstance(event, dict) else event.model_dump(by_alias=True))


class ThreadRun:
    """A run of the agent that spans one or more requests.

    While the run waits for a person, closing `held` cancels it.
    """

    def __init__(self, run: HostedRun, translation: Translation) -> None:
        self.run, self.translation = run, translation
        self.held = AsyncExitStack()
        #: Whether the run can't continue without a person.
        self.waits = False
        #: Running calls, and calls that wait for a decision.
        self._running: set[str] = set()
        self._asked: set[str] = set()

    async def continued(self) -> AsyncIterator[AgUiEvent]:
        """Yield events until the run ends or waits for a person."""
        self.waits = False
        self._running |= self._asked
        self._asked.clear()
        async for event in self.run:
            if isinstance(event, events.Error):
                problem = problem_of(event.exception)
                for piece in self.translation.failed(problem.detail, problem.code):
                    yield piece
            for piece in self.translation.translate(event):
                yield piece
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


class WaitingRuns:
    """The runs in this process that wait for a person, by owner and thread."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], ThreadRun] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def keep(self, owner: str, thread: str, thread_run: ThreadRun) -> None:
        """Keep a run until its client sends the next request or the run ends."""
        self.runs[owner, thread] = thread_run
        task = asyncio.create_task(self._release(owner, thread, thread_run))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _release(self, owner: str, thread: str, thread_run: ThreadRun) -> None:
        await thread_run.run.ended.wait()
        if self.runs.get((owner, thread)) is thread_run:
            await self.runs.pop((owner, thread)).held.aclose()


class AgUiExchange:
    """A request and its events, as a context manager. Leaving it early cancels the run, unless the run waits for a
    person.
    """

    def __init__(self, host: AgentHost, waiting: WaitingRuns, owner: str, given: ag_ui.RunAgentInput) -> None:
        self._host, self._waiting, self._given = host, waiting, given
        self._owner, self._thread = owner, given.thread_id
        self._held = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._held.aclose()

    async def events(self) -> AsyncIterator[AgUiEvent]:
        """Yield the events of the response. A refused request is reported as a failed run."""
        given, version = self._given, ag_ui.PROTOCOL_VERSION
        yield ag_ui.RunStartedEvent(thread_id=self._thread, run_id=given.run_id, protocol_version=version)
        if given.tools:
            yield ag_ui.CustomEvent(name=OMITTED_TOOLS, value=[tool.name for tool in given.tools])
        try:
            thread_run = await self._thread_run()
            answer = self._stored() if thread_run is None else self._continued(thread_run)
            async for event in answer:
                yield event
        except NbagentError as error:
            problem = problem_of(error)
            yield ag_ui.RunErrorEvent(message=problem.detail, code=problem.code)

    async def _thread_run(self) -> ThreadRun | None:
        """The run that waited for this request, or a new one; None if no run in this process answers it."""
        store, given = self._host.store, self._given
        if given.messages and not given.resume:
            return await self._new_run()
        asked = {call.id: call for call in await store.approvals(self._owner, self._thread)}
        if not asked and not given.resume:
            return None
        decisions = _decisions(asked, given.resume or ())
        for name, decision in decisions.items():
            if decision.arguments is not None:
                check_arguments(self._host, asked[name].tool, decision.arguments)
        thread_run = self._waiting.runs.pop((self._owner, self._thread), None)
        if thread_run is not None:
            self._held.push_async_callback(thread_run.held.aclose)
        for name, decision in decisions.items():
            await store.decide(self._owner, name, decision)
        return thread_run

    async def _new_run(self) -> ThreadRun:
        given, most = self._given, self._host.settings.max_concurrent
        if most is not None and sum(owner == self._owner for owner, _ in self._waiting.runs) >= most:
            detail = f"{most} runs of this token are waiting for decisions. Decide on these first."
            raise RefusedError(429, "too_many_waiting", detail)
        *before, question = read_messages(given.messages) or [LLMMessage("system")]
        if question.role != "user":
            detail = f"The last message must be a user's prompt; its role is {given.messages[-1].role!r}."
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
        return ThreadRun(run, Translation(self._thread, run.model, shown))

    async def _refuse_unanswered(self) -> None:
        """Refuse another prompt while the thread's run waits for decisions."""
        if asked := await self._host.store.approvals(self._owner, self._thread):
            _decisions({call.id: call for call in asked}, ())

    async def _continued(self, thread_run: ThreadRun) -> AsyncIterator[AgUiEvent]:
        for event in thread_run.translation.begin(self._given.run_id, self._given.state):
            yield event
        async for event in thread_run.continued():
            yield event
        if thread_run.waits:
            asked = await self._host.store.approvals(self._owner, self._thread)
            thread_run.held = self._held.pop_all()  # the client may now disconnect
            self._waiting.keep(self._owner, self._thread, thread_run)
            for event in thread_run.translation.interrupted(_interrupts(asked)):
                yield event

    async def _stored(self) -> AsyncIterator[AgUiEvent]:
        """Yield the stored conversation, after a run of another process has continued with the decision."""
        given, model = self._given, self._host.agent.provider.model_name
        asked = await self._settled() if given.resume else []
        stored = await self._host.store.get(self._owner, self._thread)
        shown = given.messages if asked else as_shown(stored.messages if stored else (), self._thread)
        translation = Translation(self._thread, model, shown)
        idle = translation.shown(given.run_id, given.state)
        for event in translation.interrupted(_interrupts(asked)) if asked else idle:
            yield event

    async def _settled(self) -> list[WaitingCall]:
        """Wait until the conversation's turn is free, or until its run asks again, and return its waiting calls."""
        store = self._host.store
        async with AsyncExitStack() as turn:
            free = asyncio.ensure_future(turn.enter_async_context(store.turn(self._owner, self._thread)))
            try:
                while not (await asyncio.wait({free}, timeout=POLL_S))[0]:
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
    """The person's decision on each waiting call. Raises `RefusedError` if one is missing."""
    given = {entry.interrupt_id: entry for entry in entries}
    if not asked:
        detail = "Nothing in this thread is waiting for a decision. It has already been decided, or has expired."
        raise RefusedError(409, "no_such_interrupt", detail)
    if given.keys() != asked.keys():
        waiting, answered = ", ".join(asked), ", ".join(given) or "nothing"
        detail = f"This thread is waiting for decisions on {waiting}, but `resume` answers {answered}."
        raise RefusedError(409, "interrupts_not_answered", detail)
    return {name: _decision(entry) for name, entry in given.items()}


def _decision(entry: ag_ui.ResumeEntry) -> Decision:
    if entry.status == "cancelled":
        return Decision(False, reason="The person left without a decision.")
    payload: Any = entry.payload
    data = payload if isinstance(payload, dict) else {}
    approved, arguments, reason = data.get("approved"), data.get("editedArgs"), data.get("reason", "")
    if isinstance(approved, bool) and isinstance(arguments, dict | None) and isinstance(reason, str):
        return Decision(approved, arguments if approved else None, reason)
    detail = f'The payload for {entry.interrupt_id} is not a decision: expected {{"approved": true}} or false.'
    raise RefusedError(422, "invalid_decision", detail)
