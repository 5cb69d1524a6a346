"""`POST /agent/chat`, with the whole answer as JSON. A person decides at `/agent/approvals`."""

import asyncio

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
        client = httpx.AsyncClient(base_url=places.server().url, headers=headers, timeout=60)
        self.client = await places.enter_async_context(client)

    async def see(self, case):
        self.begun = asyncio.Event()  # is set once the user has seen that the agent waits
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


def _call(made):
    result = made["result"]
    return Call(made["tool"], made["arguments"], str(result["data"]) if result["success"] else NO_RESULT)
