"""`HttpAgent` of `@ag-ui/client`, of npm, against a started server: it verifies each event and the order of all."""

import asyncio
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
from support.mcp_environment import HERE, NODE
from support.retrying import Retrying
from support.serving import TOKEN, served

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, tool
from nbagent.core.events import Text
from nbagent.errors import RateLimitError
from nbagent.server.routes.ag_ui.translation import Translation

pytestmark = pytest.mark.full

CLIENT = Path(__file__).with_name("ag_ui_client.cjs")
MODULES = HERE / "node_modules"


def mean(numbers: list[float]) -> float:
    """The mean of numbers."""
    return sum(numbers) / len(numbers)


@tool(approve=True)
def erase_file(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def chat(server, *steps, warns=False):
    """What the client tells after each step; it warns of nothing else."""
    if not (MODULES / "@ag-ui/client").exists():
        pytest.skip(f"@ag-ui/client is not in {HERE.name}: `make test-all` installs it")
    given = json.dumps({"url": f"{server.url}/ag-ui", "token": TOKEN, "steps": steps})
    environment = os.environ | {"NODE_PATH": str(MODULES)}
    ran = subprocess.run([NODE, str(CLIENT), given], capture_output=True, text=True, env=environment, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert bool(ran.stderr) == warns, ran.stderr
    return json.loads(ran.stdout)


def shown(told):
    """The client's messages, as role and text."""
    return [(message["role"], message.get("content") or "") for message in told["messages"]]


def test_a_conversation_with_thinking_and_tools():
    thinks = LLMResponse("I ask.", [FunctionCall("mean", {"numbers": [1, 3]})], "tool_calls", {"thinking": "Hm."})
    with served(Agent(ScriptedProvider([thinks, "It is 2.", "Yes."]), tools=[mean])) as server:
        first, second, again = chat(server, {"say": "The mean?"}, {"say": "Sure?", "tools": [PAINT]}, {})
    assert first["error"] is None
    assert first["result"] == {"content": "It is 2.", "status": "ok"}
    thought = [("user", "The mean?"), ("reasoning", "Hm."), ("assistant", "I ask.")]
    assert shown(first) == [*thought, ("tool", "2.0"), ("assistant", "It is 2.")]
    assert first["messages"][2]["toolCalls"][0]["function"] == {"name": "mean", "arguments": '{"numbers": [1, 3]}'}
    assert first["state"]["nbagent"]["status"] == "ok"
    assert second["result"]["content"] == "Yes."
    assert shown(second)[len(shown(first)) :] == [("user", "Sure?"), ("assistant", "Yes.")]
    assert "CUSTOM" in second["events"]
    assert again["events"][-1] == "RUN_ERROR"  # there is no new question


PAINT = {"name": "paint", "description": "Paint the page.", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(("approved", "said"), [(True, "deleted a"), (False, "denied the call: too late")])
def test_an_approval_is_the_clients_interrupt(approved, said):
    calls = [FunctionCall("erase_file", {"name": "a"}), FunctionCall("mean", {"numbers": [1, 3]})]
    with served(Agent(ScriptedProvider([calls, "Done."]), tools=[mean, erase_file])) as server:
        reason = {} if approved else {"reason": "too late"}
        steps = [{"say": "Delete a."}, {"say": "And?"}, {"decision": {"approved": approved, **reason}}]
        asked, refused, decided = chat(server, *steps)
    (interrupt,) = asked["pendingInterrupts"]
    assert interrupt["toolCallId"] == asked["messages"][1]["toolCalls"][0]["id"]
    assert "pending interrupt" in refused["error"]  # the client itself insists on the decision
    assert decided["pendingInterrupts"] == []
    assert decided["result"]["content"] == "Done."
    (result,) = [m for m in decided["messages"] if m.get("toolCallId") == interrupt["toolCallId"]]
    assert said in result["content"]


def test_the_client_refuses_what_is_out_of_order(monkeypatch):
    monkeypatch.setattr(Translation, "_stream", lambda self, kind: iter(()))
    with served(Agent(ScriptedProvider(["Hello."]))) as server:
        (told,) = chat(server, {"say": "?"}, warns=True)
    assert "No active text message found" in told["error"]


def test_a_retry_takes_back_what_was_said():
    with served(Agent(Retrying([LLMResponse("Right.", None, "stop", {"thinking": "Right thought."})]))) as server:
        (told,) = chat(server, {"say": "?"})
    assert shown(told) == [("user", "?"), ("reasoning", "Right thought."), ("assistant", "Right.")]


def test_a_failed_run_is_an_error_of_the_run():
    with served(Agent(ScriptedProvider([RateLimitError("too many"), "Now."]))) as server:
        failed, then = chat(server, {"say": "?"}, {"say": "Again?"})
    assert failed["events"][-1] == "RUN_ERROR"
    assert then["result"]["content"] == "Now."


class Endless(ScriptedProvider):
    """Goes on until somebody stops it; then it says so."""

    def __init__(self):
        super().__init__(["Stopped before."])
        self.stopped = threading.Event()

    async def stream(self, request):
        if self.stopped.is_set():
            async for event in super().stream(request):
                yield event
            return
        yield Text("On and ")
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


def test_a_client_that_aborts_stops_the_run():
    provider = Endless()
    with served(Agent(provider)) as server:
        stopped, then = chat(server, {"say": "Go on.", "stops": True}, {"say": "And?"})
    assert provider.stopped.is_set()
    assert shown(stopped) == [("user", "Go on."), ("assistant", "On and ")]
    assert then["result"]["content"] == "Stopped before."
