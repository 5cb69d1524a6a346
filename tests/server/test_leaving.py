"""Clients that go away: their run ends, and the conversation stays valid."""

import asyncio
import threading

from support.serving import leave, served

from nbagent import Agent, LLMProvider, LLMResponse
from nbagent.core.events import Text


class Silent(LLMProvider):
    """Says the beginning of an answer to "wait", and then nothing more; answers anything else."""

    vendor, model_name = "scripted", "silent"

    def __init__(self):
        self.asked, self.cancelled = threading.Event(), threading.Event()

    def supports_function_calling(self):
        return True

    async def chat(self, messages, functions=None, temperature=None, **options):
        raise AssertionError

    async def stream(self, request):
        if request.messages[-1].text.endswith("wait"):
            yield Text("The beginning")
            self.asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        yield LLMResponse("All of it.", None, "stop")


def test_a_client_that_goes_ends_its_run(caplog):
    provider = Silent()
    with served(Agent(provider)) as server:
        asking = {"message": "wait", "conversation_id": "c"}
        leave(server.url, "/agent/chat", asking, provider.asked)
        assert provider.cancelled.wait(60)
        client = server.client()
        # the next turn waits until what there is of the first is saved
        answer = client.post("/agent/chat", json={"message": "go on", "conversation_id": "c"}).json()
        assert answer["response"] == "All of it."
        messages = client.get("/agent/conversations/c").json()["messages"]
        assert [each["content"] for each in messages] == ["wait", "The beginning", "go on", "All of it."]
        assert messages[1]["interrupted"]
        assert "nbagent_runs_running 0.0" in client.get("/metrics").text
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []
