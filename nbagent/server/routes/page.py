"""`GET /`: a page for chatting with the agent in a browser. It hosts the notebook's panel (`nbagent.chat`).

The other routes belong to the page. They send the page the panel's state and, during a run, patches to that state.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from time import time
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from pydantic import Base64Bytes, BaseModel, Field
from starlette.responses import HTMLResponse, Response

from nbagent.chat.approval import asks_html
from nbagent.chat.attachments import with_attachments
from nbagent.chat.entry import PanelEntry, past_turn
from nbagent.chat.files import from_bytes
from nbagent.chat.greeting import greeting
from nbagent.chat.look import PANEL_STYLE, SCRIPT
from nbagent.chat.patch import State, merge_patch
from nbagent.chat.recorded import Recorded, kept_rows, rows_to_keep
from nbagent.chat.throttle import Throttle
from nbagent.chat.transcript import Transcript, own_event
from nbagent.core.events import AnyEvent, Approval, Error, Event, ToolResult, ToolStarted
from nbagent.core.history.history import split_turns
from nbagent.core.json_text import json_text
from nbagent.core.messages import Content, FunctionCall, LLMMessage
from nbagent.core.render.markdown import markdown_to_html, printable
from nbagent.server.conversations.store import Conversation
from nbagent.server.event_stream import EventStream, sse
from nbagent.server.hosted_run import STOPPED, HostedRun
from nbagent.server.problems import RefusedError, problem_of
from nbagent.server.routes.chat import ChatRequest, run_request
from nbagent.server.routes.dependencies import ID_PATTERN, Host, Owner

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).parents[1] / "page"
#: How many files one prompt may have.
MAX_FILES = 20
#: Bytes of a request in addition to its files, which base64 makes a third larger.
OTHER_BYTES = 200_000
#: Browsers draw MathML, but not TeX.
with_mathml = partial(markdown_to_html, as_mathml=True)
ABOUT = "Your conversations are kept on this server."


@router.get("/")
async def page() -> HTMLResponse:
    """The chat page, which asks for the token. It is the same for everybody and contains no data."""
    return HTMLResponse(_page(), headers=_headers())


@router.get("/page/conversations")
async def conversations(
    host: Host, owner: Owner, after: Annotated[str | None, Query(max_length=300)] = None
) -> dict[str, Any]:
    """The ids and titles of this token's conversations, most recently changed first. `next` is the next page's cursor.

    If there are several agents, `agents` lists their names.
    """
    found = await host.store.page(owner, after=after)
    titles = [[conversation.id, printable(conversation.title)] for conversation in found.conversations]
    return {"conversations": titles, "next": found.next, "agents": list(filter(None, host.agents))}


@router.get("/page/state")
async def state(
    host: Host, owner: Owner, conversation_id: Annotated[str | None, Query(pattern=ID_PATTERN)] = None, agent: str = ""
) -> Response:
    """The panel's state for a conversation, or for a new conversation with this agent. `max_bytes` is the maximum size
    of a prompt's files.
    """
    own = {"max_bytes": max(0, host.settings.max_body_bytes - OTHER_BYTES) * 3 // 4}
    if conversation_id is None:
        return _json({**own, "turns": {}, "greeting": greeting(host.agents.get(agent, host.agent), ABOUT)})
    found = await host.conversation(owner, conversation_id)
    return _json({**own, "turns": await asyncio.to_thread(_turns, found)})


def _turns(conversation: Conversation) -> State:
    recorded = Recorded(kept_rows(conversation.recorded))
    entries = [past_turn(turn, recorded, with_mathml) for turn in split_turns(conversation.messages)]
    return {entry.key: _state(entry) for entry in entries}


def _state(entry: PanelEntry) -> State:
    """A turn in the panel's format. Once it is over, `text` is the answer's Markdown, for copying."""
    texts = [segment.text for segment in entry.transcript.segments if segment.kind == "text"]
    return {**entry.state(), **({"text": printable("\n\n".join(texts))} if texts and entry.transcript.over else {})}


def _json(shown: State) -> Response:
    return Response(json_text(shown), media_type="application/json")


class AttachedFile(BaseModel):
    """A file that the prompt's author attached."""

    name: str = Field(min_length=1, max_length=300)
    data: Base64Bytes


class Prompt(ChatRequest):
    """A prompt with or without files. It may also consist of files only."""

    message: str = ""
    files: list[AttachedFile] = Field(default_factory=list)


@router.post("/page/chat")
async def chat(host: Host, owner: Owner, body: Prompt, accept_language: Annotated[str, Header()] = "") -> Response:
    """Send a prompt, with the same options as `/agent/chat`. The response is a stream of merge patches to the panel's
    state.

    The first patch also contains the server's time as `now`, in seconds since the epoch.
    """
    content = await asyncio.to_thread(_content, body)
    request = replace(run_request(body), message=content, recorded=lambda agent: rows_to_keep(agent.trace))
    return EventStream(host.run(owner, request), partial(_patches, content, accept_language))


def _content(prompt: Prompt) -> Content:
    """The prompt with its files, without secrets. Raises `RefusedError` or `ConfigurationError`."""
    if not prompt.message and not prompt.files:
        raise RefusedError(422, "invalid_request", "The prompt is empty. Send a message, files, or both.")
    if len(prompt.files) > MAX_FILES:
        detail = (
            f"A prompt may have at most {MAX_FILES} files. Send {prompt.files[MAX_FILES].name} with the next prompt."
        )
        raise RefusedError(422, "too_many_files", detail)
    remedy = "Attach text, CSV, a PDF or an image"
    return with_attachments(prompt.message, [from_bytes(file.name, file.data, remedy) for file in prompt.files])


class StopRequest(BaseModel):
    """The conversation whose runs should stop."""

    conversation_id: str = Field(pattern=ID_PATTERN)


@router.post("/page/stop")
async def stop(host: Host, owner: Owner, body: StopRequest) -> dict[str, int]:
    """Stop the runs of a conversation in this process, and return their number."""
    return {"stopped": host.stop(owner, body.conversation_id)}


async def _patches(question: Content, language: str, run: HostedRun) -> AsyncGenerator[str]:
    turn = RunningTurn(question, language)
    following = asyncio.create_task(turn.follow(run))
    try:
        while (patch := await turn.patches.get()) is not None:
            yield sse(patch)
        await following
    finally:
        following.cancel()


class RunningTurn:
    """A turn while it runs. The queue `patches` receives the changes to the panel's state, and None at the end."""

    def __init__(self, question: Content, language: str) -> None:
        self.patches: asyncio.Queue[State | None] = asyncio.Queue()
        self._entry = PanelEntry(LLMMessage("user", question), Transcript(as_html=with_mathml))
        self._language = language
        self._shown: State = {}
        self._throttle = Throttle(self._publish)
        #: Callbacks for the end of an approval, by the id of the call.
        self._asked: dict[str, ExitStack] = {}

    async def follow(self, run: HostedRun) -> None:
        """Read the run to its end."""
        try:
            async for event in run:
                self._feed(event)
                self._throttle.request()
            self._throttle.now()
        finally:
            self.patches.put_nowait(None)

    def _feed(self, event: AnyEvent) -> None:
        own = own_event(event)
        if isinstance(own, Approval) and own.content == "asked":
            self._ask(own)
        elif isinstance(own, Approval | ToolStarted | ToolResult):
            self._asked.pop(own.metadata.get("tool_call_id", ""), ExitStack()).close()
        if isinstance(event, Error):
            self._fail(event)
        else:
            self._entry.feed(event)
        if self._entry.transcript.over:
            for asked in self._asked.values():
                asked.close()

    def _fail(self, event: Error) -> None:
        """Show the failure as other clients see it, unless the turn already shows that a person stopped it."""
        problem, transcript = problem_of(event.exception), self._entry.transcript
        if transcript.over and problem.code == STOPPED:
            return
        if not transcript.over:
            transcript.feed(event)
        self._entry.show_failure("Failed", problem.detail)

    def _ask(self, event: Event) -> None:
        """Show that a call is waiting for approval, with all of its arguments, until it is decided."""
        call = FunctionCall(event.tool_name or "", event.tool_arguments or {})
        html, _ = asks_html(call, event.metadata["where"], language=self._language)
        piece = {"ask": {"id": event.metadata["approval_id"], "html": html}}
        call_id = event.metadata["tool_call_id"]
        asked = self._asked[call_id] = ExitStack()
        asked.enter_context(self._entry.transcript.call_waits(call_id))
        asked.callback(self._entry.remove_below, self._entry.add_below(piece))

    def _publish(self) -> int:
        entry = self._entry
        after: State = {"turns": {entry.key: _state(entry)}}
        if entry.transcript.over:
            after = {**after, "said": entry.spoken_text()}
        patch = merge_patch(self._shown, after)
        if not self._shown:
            patch["now"] = time()
        self._shown = after
        if patch:
            self.patches.put_nowait(patch)
        return len(json_text(patch))


@cache
def _page() -> str:
    page = (FOLDER / "index.html").read_text("utf-8")
    script = SCRIPT + (FOLDER / "page.js").read_text("utf-8")
    return page.replace("<!-- the panel's style -->", PANEL_STYLE).replace("// the script", script)


@cache
def _headers() -> dict[str, str]:
    """The headers allow only the page's own script and styles, and connections to this server."""
    policy = {
        "default-src": "'none'",
        "script-src": _hashes_of("script"),
        "style-src": _hashes_of("style"),
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "default",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def _hashes_of(tag: str) -> str:
    """The hashes of the page's scripts or styles, for its policy."""
    texts = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", _page(), re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in digests)
