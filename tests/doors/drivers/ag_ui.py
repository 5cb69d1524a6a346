"""`POST /ag-ui`, with the protocol's own types. A run that needs a person ends, and the next one has the decision."""

import asyncio
import json
from dataclasses import replace

import httpx
from support.ag_ui_events import check_order
from support.serving import TOKEN

from doors.cases import EDITED, GIF, Call, Seen, carried_out, run_that_ended
from nbagent.core.messages import new_id

YES = {"approved": True}
DECISIONS = {"approve": YES, "deny": {"approved": False}, "edit": {**YES, "editedArgs": EDITED}}


class Door:
    source = "http"
    happened = staticmethod(run_that_ended)

    async def open(self, places):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        client = httpx.AsyncClient(base_url=places.server.url, headers=headers, timeout=60)
        self.client = await places.enter_async_context(client)

    async def see(self, case):
        self.thread, self.messages, self.calls, self.begun = new_id("thread"), [], {}, asyncio.Event()
        source = {"type": "data", "value": GIF, "mimeType": "image/gif"}
        content = [{"type": "text", "text": case.question}, {"type": "image", "source": source}]
        asking = await carried_out(case, self.ask(content if case.draws else case.question), self.begun)
        if asking.cancelled():
            return Seen(self.text, tuple(self.calls.values()), "interrupted")
        end = asking.result()
        for interrupt in end.get("outcome", {}).get("interrupts", ()):
            answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": DECISIONS[case.does]}
            end = await self.run(resume=[answer])
        result = end.get("result", {"content": "", "status": "error"})
        return Seen(result["content"], tuple(self.calls.values()), result["status"])

    async def ask(self, content):
        self.messages.append({"id": new_id("message"), "role": "user", "content": content})
        return await self.run()

    async def run(self, **more):
        events, self.text = [], ""
        body = {"threadId": self.thread, "runId": new_id("run"), "messages": self.messages, "state": {}, **more}
        async with self.client.stream("POST", "/ag-ui", json={"tools": [], "context": [], **body}) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: ")))
                    self.follow(**events[-1])
        check_order(events)
        return events[-1]

    def follow(self, type, delta="", toolCallId="", toolCallName="", **event):  # noqa: N803
        self.messages = event.get("messages", self.messages)
        if type == "TEXT_MESSAGE_CONTENT":
            self.text += delta
        elif type == "TOOL_CALL_START":
            self.calls[toolCallId] = Call(toolCallName)
        elif type == "TOOL_CALL_ARGS":
            self.calls[toolCallId] = replace(self.calls[toolCallId], arguments=json.loads(delta))
            self.begun.set()
        elif type == "TOOL_CALL_RESULT" and not event["metadata"]["nbagent"]["is_error"]:
            self.calls[toolCallId] = replace(self.calls[toolCallId], result=event["content"])

    async def again(self, question):
        return (await self.ask(question))["result"]["content"]
