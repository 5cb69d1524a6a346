"""`POST /agent/chat`, as JSON or as events. A person decides at `/agent/approvals`."""

import asyncio
import json

import httpx
from support.serving import TOKEN

from doors.cases import EDITED, NO_RESULT, Call, Seen, run_that_ended, waiting
from nbagent.core.messages import new_id

DECISIONS = {
    "approve": {"decision": "approve"},
    "deny": {"decision": "deny"},
    "edit": {"decision": "approve", "arguments": EDITED},
}


class Door:
    source = "http"
    accept = "application/json"
    happened = staticmethod(run_that_ended)

    async def open(self, places):
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": self.accept}
        client = httpx.AsyncClient(base_url=places.server.url, headers=headers, timeout=60)
        self.client = await places.enter_async_context(client)

    async def see(self, case):
        self.begun = asyncio.Event()  # set once the user has seen that the agent waits
        self.asked = {"conversation_id": new_id("conv"), "waits_for_approval": True}
        asking = asyncio.create_task(self.ask(case.question))
        if case.does == "interrupt":
            await waiting(self.begun)
            asking.cancel()
        while case.does in DECISIONS and not await self.decide(DECISIONS[case.does]):
            assert not asking.done()
        await asyncio.wait({asking})
        return self.interrupted() if asking.cancelled() else asking.result()

    async def ask(self, question):
        self.begun.set()
        answer = (await self.client.post("/agent/chat", json={"message": question, **self.asked})).json()
        if "meta" not in answer:
            return Seen(status="error")
        return Seen(answer["response"], tuple(map(_call, answer["tool_calls"])), answer["meta"]["status"])

    def interrupted(self):
        return Seen(status="interrupted")

    async def decide(self, decision):
        waiting = (await self.client.get("/agent/approvals")).json()["approvals"]
        for each in waiting:
            await self.client.post(f"/agent/approvals/{each['id']}", json=decision)
        return waiting

    async def again(self, question):
        return (await self.ask(question)).text


class Streamed(Door):
    """The run's events as they arrive. The event `approval` has the call to decide on."""

    accept = "text/event-stream"

    async def ask(self, question):
        self.text, self.calls, self.status = "", {}, "ok"
        body = {"message": question, **self.asked}
        async with self.client.stream("POST", "/agent/chat", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    self.see_event(json.loads(line.removeprefix("data: ")))
        return self.seen(self.status)

    def see_event(self, event):
        name, text, metadata = event["tool_name"], event["content"], event["metadata"]
        match event["type"]:
            case "text":
                self.text += text
            case "turn_started":
                self.text = ""
            case "retry":
                self.text = self.text[: -metadata["discard_chars"]]
            case "limit" | "error" as status:
                self.status = status
            case "tool_call":
                self.calls[metadata["tool_call_id"]] = Call(name, event["tool_arguments"])
                self.begun.set()
            case "tool_result":
                result = NO_RESULT if metadata["is_error"] else text
                self.calls[metadata["tool_call_id"]] = Call(name, event["tool_arguments"], result)

    def interrupted(self):
        return self.seen("interrupted")

    def seen(self, status):
        return Seen(self.text, tuple(self.calls.values()), status)


def _call(made):
    result = made["result"]
    return Call(made["tool"], made["arguments"], str(result["data"]) if result["success"] else NO_RESULT)
