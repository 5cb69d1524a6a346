"""Limits of size, rate and concurrency, budgets, allowed models, CORS, Host and Origin, and the form of refusals."""

import asyncio
import json
import threading

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from support.serving import OTHER_TOKEN, TOKEN, events_of, served

from nbagent import Agent, FunctionCall, Limits, ScriptedProvider
from nbagent.errors import ConfigurationError, RateLimitError
from nbagent.server.app import create_app
from nbagent.server.conversations.opening import open_store
from nbagent.server.guards import Rate
from nbagent.server.settings import ServerSettings

ASK = {"message": "?"}


@pytest.fixture(scope="module")
def server():
    agent = Agent(ScriptedProvider(lambda messages, functions: "Yes."))
    with served(agent, max_body_bytes=1000, origins=["https://chat.example.org"]) as running:
        yield running


def problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["status"] == status
    assert told["title"]
    assert TOKEN not in answer.text
    return told["code"]


def test_a_large_body_is_refused(server):
    client = server.client()
    large = json.dumps({"message": "x" * 2000}).encode()
    assert problem(client.post("/agent/chat", content=large), 413) == "body_too_large"
    pieces = (large[at : at + 100] for at in range(0, len(large), 100))  # without a length
    assert problem(client.post("/agent/chat", content=pieces), 413) == "body_too_large"


def test_each_failure_is_reported_as_a_problem(server):
    client = server.client()
    assert problem(client.get("/no/such"), 404) == "not_found"
    answer = client.get("/agent/chat")
    assert problem(answer, 405) == "method_not_allowed"
    assert answer.headers["allow"] == "POST"
    headers = {"Content-Type": "application/json"}
    assert problem(client.post("/agent/chat", content=b"{", headers=headers), 400) == "invalid_json"
    wrong = client.post("/agent/chat", json={"message": 5, "password": "hunter2"})
    assert problem(wrong, 422) == "invalid_request"
    assert {each["field"] for each in wrong.json()["errors"]} == {"body.message", "body.password"}
    assert "hunter2" not in wrong.text
    assert problem(client.post("/agent/chat", json={"message": " "}), 422) == "invalid_request"
    assert problem(client.post("/agent/chat", json={**ASK, "model": "gpt-9"}), 403) == "model_not_allowed"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (
            RateLimitError("slow down", provider="acme", model="m1", status=429, retry_after=7),
            429,
            "provider_rate_limited",
        ),
        (RuntimeError("the password is hunter2"), 500, "internal_error"),
    ],
)
def test_a_provider_failure_is_reported_as_a_problem(error, status, code):
    with served(Agent(ScriptedProvider([error] * 2))) as server:
        client = server.client()
        answer = client.post("/agent/chat", json={**ASK, "conversation_id": "c"})
        assert problem(answer, status) == code
        assert "hunter2" not in answer.text
        assert answer.headers.get("retry-after") == ("7" if status == 429 else None)
        streamed = client.post("/agent/chat", json=ASK, headers={"Accept": "text/event-stream"})
        last = events_of(streamed)[-1]
        assert (last["type"], last["metadata"]["problem"]["code"]) == ("error", code)
        assert client.get("/agent/conversations/c").status_code == 404  # nothing is kept


def test_a_blocked_prompt_gets_an_answer_and_a_rejected_answer_a_problem():
    provider = ScriptedProvider(["wrong"] * 3)
    checks = [lambda answer: answer != "wrong"]
    with served(Agent(provider, validators=checks, guards=[lambda question: "secret" not in question])) as server:
        client = server.client()
        refused = client.post("/agent/chat", json={"message": "a secret"})
        assert (refused.status_code, refused.json()["success"]) == (200, False)
        assert provider.requests == []
        assert problem(client.post("/agent/chat", json=ASK), 502) == "answer_rejected"


def test_only_allowed_host_names_and_origins_are_admitted(server):
    client = server.client()
    assert problem(client.get("/skills", headers={"Host": "evil.example"}), 421) == "wrong_host"
    assert client.get("/healthz", headers={"Host": "10.0.0.7"}).status_code == 200  # a load balancer uses an address
    for page in ("https://evil.example", "null"):
        assert problem(client.get("/skills", headers={"Origin": page}), 403) == "wrong_origin"
    assert client.get("/skills", headers={"Origin": server.url}).status_code == 200
    # the last two come from the openai package
    headers = "authorization,content-type,x-stainless-arch,x-stainless-lang"
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": headers}
    allowed = client.options("/v1/responses", headers={"Origin": "https://chat.example.org", **asks})
    assert allowed.headers["access-control-allow-origin"] == "https://chat.example.org"
    refused = client.options("/agent/chat", headers={"Origin": "https://evil.example", **asks})
    assert "access-control-allow-origin" not in refused.headers
    assert refused.status_code >= 400


def test_a_browser_prompts_for_the_token(server):
    client = server.client(token=None)
    assert "Basic" in client.get("/docs", headers={"Accept": "text/html"}).headers["www-authenticate"]
    assert client.get("/skills", auth=("me", TOKEN)).status_code == 200
    assert client.get("/skills", auth=(TOKEN, "wrong")).status_code == 401


def test_each_token_has_its_own_rate_limit():
    with served(Agent(ScriptedProvider([])), requests_per_minute=2) as server:
        client = server.client()
        assert [client.get("/skills").status_code for _ in range(3)] == [200, 200, 429]
        refused = client.get("/skills")
        assert problem(refused, 429) == "too_many_requests"
        assert "ask the operator for more" in refused.json()["detail"]
        left = [refused.headers[f"x-ratelimit-{name}-requests"] for name in ("limit", "remaining", "reset")]
        assert left == ["2", "0", "60s"]
        assert 0 < int(refused.headers["retry-after"]) <= 60
        assert server.client(OTHER_TOKEN).get("/skills").status_code == 200
        assert client.get("/healthz").status_code == 200


def test_the_rate_limit_refills(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("nbagent.server.guards.monotonic", lambda: now[0])
    rate = Rate(2)
    assert [rate.take() for _ in range(3)] == [0, 0, 30]
    now[0] = 30.0
    assert [rate.take() for _ in range(2)] == [0, 30]


def test_concurrent_requests_are_limited():
    asked, go_on = threading.Event(), threading.Event()

    async def wait(messages, functions):
        asked.set()
        await asyncio.to_thread(go_on.wait)
        return "Done."

    with served(Agent(ScriptedProvider(wait)), max_concurrent=1) as server:
        client, first = server.client(), []
        asking = threading.Thread(target=lambda: first.append(server.client().post("/agent/chat", json=ASK)))
        asking.start()
        assert asked.wait(60)
        assert problem(client.post("/agent/chat", json=ASK), 429) == "too_many_at_once"
        assert client.get("/skills").status_code == 200
        go_on.set()
        asking.join(60)
        assert first[0].json()["response"] == "Done."
        assert client.post("/agent/chat", json=ASK).status_code == 200


PRICE = {"input": 1e6, "output": 0.0}  # a dollar for each word of the prompt


def test_budgets_of_conversation_and_token():
    agent = Agent(ScriptedProvider(lambda messages, functions: "Yes.", price=PRICE))
    with served(agent, max_cost_per_conversation=1.5, max_cost_per_token=4.5) as server:
        client = server.client()
        first = client.post("/agent/chat", json={"message": "one"}).json()
        assert first["meta"]["cost_usd"] == 1.0
        again = {"message": "two", "conversation_id": first["conversation_id"]}
        assert client.post("/agent/chat", json=again).json()["success"]  # 3 words: the answer was paid, and is given
        assert problem(client.post("/agent/chat", json=again), 402) == "budget_spent"
        assert client.post("/agent/chat", json={"message": "three"}).status_code == 200
        assert problem(client.post("/agent/chat", json={"message": "four"}), 402) == "budget_spent"
        assert server.client(OTHER_TOKEN).post("/agent/chat", json=ASK).status_code == 200


def test_a_request_can_lower_limits_but_not_raise_them():
    def tool() -> str:
        """Do it."""
        return "done"

    provider = ScriptedProvider(lambda messages, functions: FunctionCall("tool", {}), price=PRICE)
    with served(Agent(provider, tools=[tool]), limits=Limits(max_tool_calls=2)) as server:
        for lowered, reason, made in (
            ({"max_tool_calls": 1}, "tool_calls", 1),
            ({"max_tool_calls": 100}, "tool_calls", 2),
            ({"max_total_tokens": 1}, "tokens", 1),
            ({"max_cost": 1.0}, "cost", 1),
        ):
            answer = server.client().post("/agent/chat", json={**ASK, **lowered}).json()
            assert (answer["success"], answer["meta"]["limit_reason"]) == (False, reason)
            assert sum(each["result"]["success"] for each in answer["tool_calls"]) == made


def test_only_allowed_models():
    with served(Agent(ScriptedProvider(["Yes."])), models=["local:other"]) as server:
        assert server.host.models == ["scripted:scripted", "local:other"]
        client = server.client()
        asked = {**ASK, "provider": "scripted", "model": "scripted"}
        assert client.post("/agent/chat", json=asked).json()["meta"]["provider"] == "scripted"
        refused = client.post("/agent/chat", json={**ASK, "provider": "openai"})
        assert problem(refused, 403) == "model_not_allowed"


def test_metrics_contain_no_conversations_or_tokens(server):
    client = server.client()
    client.post("/agent/chat", json={**ASK, "conversation_id": "my-conversation"})
    client.get("/agent/conversations/my-conversation")
    client.request("PROPFIND", "/no/such/path")
    text = client.get("/metrics").text
    assert 'nbagent_runs_total{model="scripted:scripted",status="ok"}' in text
    assert 'route="/agent/conversations/{conversation_id}"' in text
    assert 'nbagent_http_requests_total{method="other",route="other",status="404"}' in text
    for secret in ("my-conversation", TOKEN, "no/such"):
        assert secret not in text


@pytest.mark.parametrize("wrong", [{"tokens": ["short"]}, {"tokens": "a-token-that-is-a-text"}, {"models": ["gpt"]}])
def test_wrong_settings_raise_one_error(wrong):
    with pytest.raises(ConfigurationError, match="tokens|models") as error:
        ServerSettings(**{"tokens": [TOKEN], **wrong})
    assert "short" not in str(error.value)
    assert "a-token" not in str(error.value)
    assert TOKEN not in repr(ServerSettings(tokens=[TOKEN]))
    with pytest.raises(ConfigurationError, match="token"):
        create_app(Agent(ScriptedProvider([])), ServerSettings())


def test_mounted_below_a_path_of_another_application():
    app = create_app(Agent(ScriptedProvider("Yes.")), ServerSettings(tokens=[TOKEN]), open_store("memory:"))
    outer = FastAPI(lifespan=lambda _: app.router.lifespan_context(app))
    outer.mount("/bot", app)
    with TestClient(outer, base_url="http://127.0.0.1") as client:
        assert client.get("/bot/healthz").status_code == 200
        assert "text/html" in client.get("/bot/").headers["content-type"]
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert client.post("/bot/agent/chat", json=ASK).json()["response"] == "Yes."
        assert client.get("/bot/v1/models/none").json()["error"]["message"]
