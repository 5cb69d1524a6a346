"""`%agent serve` in a real kernel: the notebook's agent over HTTP."""

import re
from concurrent.futures import ThreadPoolExecutor

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


def client_of(cell):
    url, token = re.search(r"(http://127\.0\.0\.1:\d+)\ntoken: (\S{20,})", cell.text).groups()
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)


@pytest.mark.kernel
def test_the_agent_of_the_notebook_over_http(shared):
    with client_of(shared.ok("%agent serve")) as client:
        first = client.post("/agent/chat", json={"message": "Twice 21?"}).json()
        assert first["response"] == "It is 42."
        # a later cell redefines a tool, and creates an agent
        shared.ok('@tool\ndef double(number: int) -> int:\n    "Twice the number."\n    return "changed"')
        assert client.post("/agent/chat", json={"message": "Twice 21?"}).json()["response"] == "It is changed."
        shared.ok('agent = Agent(ScriptedProvider(["Another agent."]))')
        assert client.post("/agent/chat", json={"message": "Who?"}).json()["response"] == "Another agent."
        assert shared.ok("print(len(agent.conversation_history))").stdout == "0\n"  # conversations are forks
        assert "already running" in (again := shared.run("%agent serve")).stderr + again.traceback
        assert "has ended" in shared.ok("%agent serve --stop").stdout
        with pytest.raises(httpx.TransportError):
            client.get("/healthz")


ON_MAIN_THREAD = """
import threading

@tool(main_thread=True)
def thread() -> str:
    "The name of this thread."
    return threading.current_thread().name

def answer(messages, functions):
    return FunctionCall("thread", {}) if messages[-1].role == "user" else messages[-1].text

agent = Agent(ScriptedProvider(answer), tools=nbagent.live)
nbagent.core.background._main_loop.clear()  # as in a kernel that has not run any cell since it loaded the extension
get_ipython().run_line_magic("agent", "serve")
"""


@pytest.mark.kernel
def test_a_main_thread_tool_when_the_cell_that_serves_also_loads_the_extension(shared):
    with client_of(shared.ok(ON_MAIN_THREAD)) as client:
        assert client.post("/agent/chat", json={"message": "Where?"}).json()["response"] == "MainThread"
    shared.ok("%agent serve --stop")


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
def test_the_person_approves_the_clients_calls(shared):
    shared.ok(WIPE)
    cell = shared.ok("%agent serve")
    box = shared.widget(cell, _model_name="VBoxModel")
    shared.tell(box, method="update", state={"_view_count": 1}, buffer_paths=[])
    with client_of(cell) as client, ThreadPoolExecutor() as threads:
        asking = threads.submit(client.post, "/agent/chat", json={"message": "Wipe."})
        while not shared.widgets()[box]["children"]:
            shared.ok("None")
        shown = shared.widgets()
        assert any("A client calls a tool" in str(each.get("value")) for each in shown.values())
        approve = next(comm for comm, each in shown.items() if each.get("description") == "Approve")
        shared.tell(approve, method="custom", content={"event": "click"})
        assert asking.result(60).json()["response"] == "wiped"
    shared.ok("%agent serve --stop")


@pytest.mark.kernel
@pytest.mark.parametrize(("option", "said"), [("", "nobody sees the form"), ("--clients-approve", "wiped")])
def test_clients_approve_their_own_calls_only_if_the_person_says_so(shared, option, said):
    shared.ok(WIPE)
    cell = shared.ok(f"%agent serve {option}", allow_stdin=False)
    with client_of(cell) as client:
        asked = {"json": {"message": "Wipe.", "waits_for_approval": True}, "headers": {"Accept": "text/event-stream"}}
        with client.stream("POST", "/agent/chat", **asked) as answer:
            text = ""
            for line in answer.iter_lines():
                text += line
                if found := re.search(r'"approval_id": ?"(approval_[^"]+)"', line):
                    client.post(f"/agent/approvals/{found[1]}", json={"decision": "approve"}).raise_for_status()
    assert said in text
    shared.ok("%agent serve --stop")
