"""Approval over HTTP: calls are denied by default, the first decision counts, and other tokens can't decide."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.serving import OTHER_TOKEN, events_of, served

from nbagent import Agent, FunctionCall, FunctionDefinition, ScriptedProvider, tool

WAITS = {"message": "Delete three.", "waits_for_approval": True}


class Asking:
    """A server whose agent calls a tool that needs approval, and a client that waits for the answer in a thread."""

    def __init__(self, server, deleted):
        self.server, self.deleted = server, deleted
        self.client = server.client()

    def ask(self, accept="application/json"):
        """Send a prompt in a thread. Return the thread, the list for its answer, and the waiting call."""
        found, client = [], self.server.client()
        thread = threading.Thread(
            target=lambda: found.append(client.post("/agent/chat", json=WAITS, headers={"Accept": accept}))
        )
        thread.start()
        while not (pending := self.client.get("/agent/approvals").json()["approvals"]):
            pass
        return thread, found, pending[0]

    def decide(self, approval, body, client=None):
        return (client or self.client).post(f"/agent/approvals/{approval['id']}", json=body)


def test_edited_arguments_must_fit_one_of_several_agents():
    def agent(parameters):
        definition = FunctionDefinition("delete", "", parameters, lambda **given: str(given), approve=True)
        return Agent(ScriptedProvider([FunctionCall("delete", {}), "Done."]), tools=[definition])

    agents = [agent({"type": "object", "properties": {"path": {"type": kind}}}) for kind in ("array", "integer")]
    with served(dict(zip(("one", "two"), agents, strict=True))) as server, ThreadPoolExecutor(1) as threads:
        asking = Asking(server, [])
        answered = threads.submit(server.client().post, "/agent/chat", json={**WAITS, "model": "two"})
        while not (pending := asking.client.get("/agent/approvals").json()["approvals"]):
            pass
        assert asking.decide(pending[0], {"decision": "approve", "arguments": {"path": "x"}}).status_code == 422
        assert asking.decide(pending[0], {"decision": "approve", "arguments": {"path": 1}}).status_code == 200
        assert answered.result(60).json()["tool_calls"][0]["arguments"] == {"path": 1}


@pytest.fixture
def asking(request):
    deleted = []

    @tool(approve=True)
    def delete(rows: int) -> str:
        """Delete rows."""
        deleted.append(rows)
        return f"{rows} gone"

    def answer(messages, functions):
        last = messages[-1]
        return FunctionCall("delete", {"rows": 3}) if last.role == "user" else f"The tool said: {last.text}"

    settings = {"max_concurrent": 500, "requests_per_minute": None, **getattr(request, "param", {})}
    with served(Agent(ScriptedProvider(answer), tools=[delete]), **settings) as server:
        yield Asking(server, deleted)


def test_calls_are_denied_by_default(asking):
    answer = asking.client.post("/agent/chat", json={"message": "Delete three."}).json()
    assert asking.deleted == []
    assert answer["meta"]["status"] == "denied"
    assert not answer["success"]
    assert not answer["tool_calls"][0]["result"]["success"]
    assert asking.client.get("/agent/approvals").json() == {"approvals": []}


def test_the_model_reads_the_reason_and_invalid_arguments_decide_nothing(asking):
    thread, found, approval = asking.ask(accept="text/event-stream")
    for wrong in ({"rows": "many"}, {"lines": 1}):
        refused = asking.decide(approval, {"decision": "approve", "arguments": wrong})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_arguments")
    for wrong in ({"decision": "deny", "arguments": {"rows": 1}}, {"decision": "yes"}, {"decision": True}, {}):
        assert asking.decide(approval, wrong).status_code == 422
    asking.decide(approval, {"decision": "deny", "reason": "too many"})
    thread.join(60)
    events = events_of(found[0])
    asked = next(each for each in events if each["type"] == "approval")
    assert (asked["content"], asked["metadata"]["approval_id"]) == ("asked", approval["id"])
    assert "too many" in next(each for each in events if each["type"] == "tool_result")["content"]
    assert asking.deleted == []


def test_other_tokens_cannot_decide_and_nobody_can_decide_twice(asking):
    thread, _, approval = asking.ask()
    other = asking.server.client(OTHER_TOKEN)
    assert other.get("/agent/approvals").json() == {"approvals": []}
    assert asking.decide(approval, {"decision": "approve"}, other).status_code == 404
    assert asking.decide({"id": "approval_unknown"}, {"decision": "approve"}).status_code == 404
    decided = [asking.decide(approval, {"decision": each}).status_code for each in ("deny", "approve")]
    assert decided == [200, 409]  # the first decision counts
    thread.join(60)
    assert asking.deleted == []


@pytest.mark.parametrize("asking", [{"approval_seconds": 0.05}], indirect=True)
def test_a_call_without_a_timely_decision_is_denied(asking):
    answer = asking.client.post("/agent/chat", json=WAITS).json()
    assert asking.deleted == []
    assert "in time" in answer["tool_calls"][0]["result"]["error"]


def test_a_call_is_withdrawn_with_its_run(asking):
    body, headers = {**WAITS, "conversation_id": "c"}, {"Accept": "text/event-stream"}
    with asking.client.stream("POST", "/agent/chat", json=body, headers=headers) as answer:
        next(line for line in answer.iter_lines() if '"asked"' in line)
    while asking.client.get("/agent/approvals").json()["approvals"]:
        pass
    # every call has a result, so the conversation is valid and continues
    body = {"message": "Once more.", "conversation_id": "c"}
    assert asking.client.post("/agent/chat", json=body).status_code == 200
    assert asking.deleted == []
