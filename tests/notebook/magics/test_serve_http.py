"""`%agent serve` in a real kernel: the notebook's agent over HTTP."""

import re

import httpx
import pytest

HELPERS = """
@tool
def double(number: int) -> int:
    "Twice the number."
    print("doubling")
    return 2 * number

def answer(messages, functions):
    last = messages[-1]
    return FunctionCall("double", {"number": 21}) if last.role == "user" else f"It is {last.text}."

agent = Agent(ScriptedProvider(answer), tools=nbagent.live)
"""


@pytest.mark.kernel
def test_the_agent_of_the_notebook_over_http(shared):
    shown = shared.ok("%agent serve").text
    url, token = re.search(r"(http://127\.0\.0\.1:\d+)\ntoken: (\S{20,})", shown).groups()
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        first = client.post("/agent/chat", json={"message": "Twice 21?"}).json()
        assert first["response"] == "It is 42."
        # a tool that a later cell defines anew, and an agent that it makes
        shared.ok('@tool\ndef double(number: int) -> int:\n    "Twice the number."\n    return "changed"')
        assert client.post("/agent/chat", json={"message": "Twice 21?"}).json()["response"] == "It is changed."
        shared.ok('agent = Agent(ScriptedProvider(["Another agent."]))')
        assert client.post("/agent/chat", json={"message": "Who?"}).json()["response"] == "Another agent."
        assert shared.ok("print(len(agent.conversation_history))").stdout == "0\n"  # conversations are forks
        assert "already serves" in (again := shared.run("%agent serve")).stderr + again.traceback
        assert "has ended" in shared.ok("%agent serve --stop").stdout
        with pytest.raises(httpx.TransportError):
            client.get("/healthz")
