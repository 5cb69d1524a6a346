"""`HttpAgent` of npm's `@ag-ui/client` with a real server. It verifies each event and their order."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.mcp_environment import CLIENTS, NODE
from support.serving import TOKEN, served

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, tool

pytestmark = pytest.mark.full

CLIENT = Path(__file__).with_name("clients") / "ag_ui_client.cjs"
MODULES = CLIENTS / "node_modules"


def mean(numbers: list[float]) -> float:
    """The mean of numbers."""
    return sum(numbers) / len(numbers)


@tool(approve=True)
def erase_file(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def chat(server, *steps):
    """The client's state after each step. It must print no warning."""
    if not (MODULES / "@ag-ui/client").exists():
        pytest.skip(f"@ag-ui/client is not in {CLIENTS.name}: `make test-all` installs it")
    given = json.dumps({"url": f"{server.url}/ag-ui", "token": TOKEN, "steps": steps})
    environment = os.environ | {"NODE_PATH": str(MODULES)}
    ran = subprocess.run([NODE, str(CLIENT), given], capture_output=True, text=True, env=environment, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return json.loads(ran.stdout)


def shown(told):
    """The client's messages, as role and text."""
    return [(message["role"], message.get("content") or "") for message in told["messages"]]


def test_a_conversation_with_thinking_and_tools():
    thinks = LLMResponse("I ask.", [FunctionCall("mean", {"numbers": [1, 3]})], "tool_calls", {"thinking": "Hm."})
    paint = {"name": "paint", "description": "Paint.", "parameters": {"type": "object", "properties": {}}}
    with served(Agent(ScriptedProvider([thinks, "It is 2.", "Yes."]), tools=[mean])) as server:
        first, second, again = chat(server, {"say": "The mean?"}, {"say": "Sure?", "tools": [paint]}, {})
    assert first["error"] is None
    assert first["result"] == {"content": "It is 2.", "status": "ok"}
    thought = [("user", "The mean?"), ("reasoning", "Hm."), ("assistant", "I ask.")]
    assert shown(first) == [*thought, ("tool", "2.0"), ("assistant", "It is 2.")]
    assert first["messages"][2]["toolCalls"][0]["function"] == {"name": "mean", "arguments": '{"numbers": [1, 3]}'}
    assert first["state"]["nbagent"]["status"] == "ok"
    assert shown(second)[len(shown(first)) :] == [("user", "Sure?"), ("assistant", "Yes.")]
    assert again["events"][-1] == "RUN_ERROR"  # there is no new prompt


def test_an_approval_becomes_the_clients_interrupt():
    calls = [FunctionCall("erase_file", {"name": "a"}), FunctionCall("mean", {"numbers": [1, 3]})]
    with served(Agent(ScriptedProvider([calls, "Done."]), tools=[mean, erase_file])) as server:
        asked, refused, decided = chat(server, {"say": "Delete a."}, {"say": "And?"}, {"decision": {"approved": True}})
    (interrupt,) = asked["pendingInterrupts"]
    assert interrupt["toolCallId"] == asked["messages"][1]["toolCalls"][0]["id"]
    assert "pending interrupt" in refused["error"]  # the client itself requires the decision
    assert decided["pendingInterrupts"] == []
    assert decided["result"]["content"] == "Done."
    (result,) = [m for m in decided["messages"] if m.get("toolCallId") == interrupt["toolCallId"]]
    assert "deleted a" in result["content"]
