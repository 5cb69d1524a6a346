"""`nbagent acp` as a process of its own, with the client of the protocol's SDK."""

import asyncio
import functools
import sys
from contextlib import asynccontextmanager

import acp
from acp import schema


class Editor(acp.Client):
    """A client that notes what it is told, and answers what it is asked."""

    def __init__(self):
        self.forget()

    def forget(self):
        self.updates, self.asked, self.answers = [], [], []
        self.is_asked = asyncio.Event()

    async def session_update(self, session_id, update, **_):
        self.updates.append((session_id, update))

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append((tool_call, options))
        self.is_asked.set()
        answer = self.answers.pop(0)
        if answer == "wait":
            await asyncio.Event().wait()
        outcome = schema.AllowedOutcome(outcome="selected", option_id=answer)
        if answer == "cancelled":
            outcome = schema.DeniedOutcome(outcome="cancelled")
        return schema.RequestPermissionResponse(outcome=outcome)

    def text(self, session_id=None):
        told = [update for told, update in self.updates if told == (session_id or told)]
        contents = [update.content for update in told if isinstance(update, schema.AgentMessageChunk)]
        return "".join(content.text for content in contents if content.type == "text")

    def of(self, *kinds):
        return [update for _, update in self.updates if isinstance(update, kinds)]


@asynccontextmanager
async def edited(tmp_path, app, *options):
    """`(editor, connection, process)` for this text of a program."""
    (tmp_path / "app.py").write_text(app)
    editor = Editor()
    command = [sys.executable, "-m", "nbagent.cli", "acp", str(tmp_path / "app.py:agent"), *options]
    command += ["--store", str(tmp_path / "sessions.sqlite")]
    with (tmp_path / "stderr").open("wb") as errors:
        pipes = {"stderr": errors, "limit": 2**24}
        async with acp.spawn_agent_process(editor, *command, transport_kwargs=pipes) as (client, process):
            client.prompt = functools.partial(_ask, client, client.prompt)
            yield editor, client, process


async def _ask(client, prompt, /, **arguments):
    """Prompt, then let the editor catch up: version 0.11 of the SDK returns before it has handled all updates."""
    try:
        return await prompt(**arguments)
    finally:
        await client.list_sessions()
