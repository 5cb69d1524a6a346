"""`nbagent acp` as a process, with the client of the protocol's SDK. A prompt asks the agent for the outcome."""

import asyncio
import json
import re
from pathlib import Path

import acp
from acp import schema
from support.acp_editor import edited

from doors.cases import GIF, NO_RESULT, TELL, WAITS, Call, Seen

TESTS = str(Path(__file__).parents[2])
APP = f"import sys\nsys.path.insert(0, {TESTS!r})\nfrom doors.cases import agent\nagent = agent()\n"
DECISIONS = {"approve": ["allow"], "deny": ["reject"]}
STATUSES = {"end_turn": "ok", "max_turn_requests": "limit", "cancelled": "interrupted"}


class Door:
    source = "acp"

    async def open(self, places):
        self.editor, self.client, _ = await places.enter_async_context(edited(places.folder, APP))
        await self.client.initialize(protocol_version=acp.PROTOCOL_VERSION)

    async def see(self, case):
        self.editor.answers = list(DECISIONS.get(case.does, ()))
        self.session = (await self.client.new_session(cwd="/")).session_id
        blocks = [acp.text_block(case.question), *[acp.image_block(GIF, "image/gif")] * case.draws]
        asking = asyncio.create_task(self.ask(blocks))
        if case.does == "interrupt":
            other = (await self.client.new_session(cwd="/")).session_id
            while not self.editor.text(other).endswith("True"):
                await self.client.prompt(session_id=other, prompt=[acp.text_block(WAITS)])
            await self.client.cancel(session_id=self.session)
        status = await asking
        ended = {each.tool_call_id: each for each in self.editor.of(schema.ToolCallProgress)}
        told = [_call(each, ended[each.tool_call_id]) for each in self.editor.of(schema.ToolCallStart)]
        blocks = [each.content for each in self.editor.of(schema.AgentMessageChunk)]
        blocks += [block for each in ended.values() for block in _blocks(each)]
        images = [block.data for block in blocks if block.type == "image"]
        return Seen(self.editor.text(self.session), tuple(told), status, tuple(images))

    async def ask(self, blocks):
        self.editor.updates.clear()
        try:
            answer = await self.client.prompt(session_id=self.session, prompt=blocks)
        except acp.RequestError:
            return "error"
        return STATUSES[answer.stop_reason]

    async def happened(self):
        return json.loads(await self.again(TELL))

    async def again(self, question):
        await self.ask([acp.text_block(question)])
        return self.editor.text(self.session)


def _blocks(update):
    return [each.content for each in update.content or ()]


def _call(started, ended):
    text = "".join(block.text for block in _blocks(ended) if block.type == "text")
    name = re.match(r"\w+", started.title)[0]
    return Call(name, started.raw_input or {}, text if ended.status == "completed" else NO_RESULT)
