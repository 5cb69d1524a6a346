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


WIPE = """
@tool(approve=True)
def wipe() -> str:
    "Delete all."
    return "wiped"

def answer(messages, functions):
    return FunctionCall("wipe", {}) if messages[-1].role == "user" else messages[-1].text

agent = Agent(ScriptedProvider(answer), tools=nbagent.live)
"""


@pytest.mark.kernel
def test_a_client_does_not_approve_its_own_calls_unless_the_person_says_so(shared):
    shared.ok(WIPE)
    for option, said in (("", "nobody sees the form"), ("--clients-approve", "wiped")):
        shown = shared.ok(f"%agent serve {option}", allow_stdin=False).text
        url, token = re.search(r"(http://127\.0\.0\.1:\d+)\ntoken: (\S{20,})", shown).groups()
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
            headers = {"Accept": "text/event-stream"}
            asked = {"json": {"message": "Wipe.", "waits_for_approval": True}, "headers": headers}
            with client.stream("POST", "/agent/chat", **asked) as answer:
                text = ""
                for line in answer.iter_lines():
                    text += line
                    if found := re.search(r'"approval_id": ?"(approval_[^"]+)"', line):
                        client.post(f"/agent/approvals/{found[1]}", json={"decision": "approve"}).raise_for_status()
        assert said in text
        shared.ok("%agent serve --stop")
