"""`nbagent serve --workers 2` with Redis, as `docs/how-to/scaling.md` describes it: two processes are one server."""

import json
from contextlib import ExitStack

import httpx
import pytest
from redis import Redis
from support.serving import serving_process

pytestmark = pytest.mark.full

APP = '''
import os
from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage

def erase(path: str) -> str:
    """Erase a file."""
    return f"erased {path} in {os.getpid()}"

def answer(messages, functions):
    provider.requests.clear()
    if messages[-1].role == "user" and messages[-1].text == "erase":
        return FunctionCall("erase", {"path": "a.txt"})
    text = f"{os.getpid()}: {messages[-1].text}"
    tokens = 0 if messages[-1].text == "Who?" else 1000
    return LLMResponse(text, metadata={"usage": Usage(input_tokens=tokens, output_tokens=0)})

provider = ScriptedProvider(answer, price={"input": 10.0, "output": 10.0})  # an answer costs one cent

agent = Agent(provider)
agent.register_function("erase", "Erase a file.", erase)
agent.function_registry.get_function("erase").approve = True
'''
TOKENS = [f"token-{number}-of-both-processes" for number in range(5)]


@pytest.fixture(scope="module")
def url(tmp_path_factory, redis_address):
    """The address of a server of two processes, with an empty Redis."""
    with Redis.from_url(redis_address) as client:
        client.flushall()
    folder = tmp_path_factory.mktemp("served")
    (folder / "app.py").write_text(APP)
    options = ["--workers", "2", "--store", redis_address, "--max-cost-per-token", "0.5", "--requests-per-minute", "0"]
    with serving_process(folder, "app.py", *options, NBAGENT_SERVE_TOKEN=",".join(TOKENS)) as running:
        yield running.url


@pytest.fixture
def token(request):
    """A token per test, with its own conversations and budget."""
    tests = [name for name in vars(request.module) if name.startswith("test_")]
    return TOKENS[tests.index(request.function.__name__)]


class Connection:
    """A client with one connection, so one process answers. `pid` is the process of its last answer."""

    def __init__(self, url, token, open_clients):
        headers = {"Authorization": f"Bearer {token}"}
        limits = httpx.Limits(max_connections=1)
        self.client = open_clients.enter_context(
            httpx.Client(base_url=url, headers=headers, timeout=300, limits=limits)
        )

    def ask(self, message, conversation_id=None, **options):
        body = {"message": message, "conversation_id": conversation_id}
        answer = self.client.post("/agent/chat", json=body, **options).raise_for_status().json()
        self.pid = int(answer["response"].partition(":")[0])
        return answer["response"].partition(": ")[2]


@pytest.fixture
def both(url, token):
    """A connection to each of the two processes."""
    with ExitStack() as open_clients:
        found = {}
        while len(found) < 2:
            connection = Connection(url, token, open_clients)
            connection.ask("Who?")
            found.setdefault(connection.pid, connection)
        yield list(found.values())


def messages_of(connection, conversation_id):
    return connection.client.get(f"/agent/conversations/{conversation_id}").raise_for_status().json()["messages"]


def test_a_conversation_continues_in_either_process(both):
    for number in range(6):
        assert both[number % 2].ask(f"question {number}", "c1") == f"question {number}"
    asked = [each["content"] for each in messages_of(both[0], "c1") if each["role"] == "user"]
    assert asked == [f"question {number}" for number in range(6)]
    assert both[0].client.delete("/agent/conversations/c1").is_success
    assert both[1].client.get("/agent/conversations/c1").status_code == 404
    asked = {"json": {"message": "x"}, "headers": {"Idempotency-Key": "once"}}
    first, second = (connection.client.post("/agent/chat", **asked).json() for connection in both)
    assert first == second  # the request was repeated to the other process
    counted = [connection.client.get("/metrics").text for connection in both]
    first, second = ([line for line in text.splitlines() if line.startswith("nbagent_runs")] for text in counted)
    assert first == second != []


def test_an_approval_in_one_process_is_decided_through_the_other(both):
    waiting, other = both
    body = {"message": "erase", "conversation_id": "c1", "waits_for_approval": True}
    with waiting.client.stream("POST", "/agent/chat", json=body, headers={"Accept": "text/event-stream"}) as answer:
        lines = answer.iter_lines()
        next(line for line in lines if '"approval"' in line and '"asked"' in line)
        pending = other.client.get("/agent/approvals").json()["approvals"]
        assert [each["tool"] for each in pending] == ["erase"]
        address = f"/agent/approvals/{pending[0]['id']}"
        assert other.client.post(address, json={"decision": "approve"}).json()["decision"] == "approve"
        assert other.client.post(address, json={"decision": "deny"}).status_code == 409
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    other_pid = other.pid
    other.ask("Still you?")
    assert other.pid == other_pid != waiting.pid
    assert events[-1]["type"] == "done"
    results = [each["content"] for each in messages_of(other, "c1") if each["role"] == "tool"]
    assert results == [f"erased a.txt in {waiting.pid}"]


def test_both_processes_share_one_budget(both):
    answered = 0
    while (answer := both[answered % 2].client.post("/agent/chat", json={"message": "x"})).status_code == 200:
        answered += 1
    assert answer.json()["code"] == "budget_spent"
    assert answered == 50
    for connection in both:
        assert connection.client.post("/agent/chat", json={"message": "x"}).status_code == 402
