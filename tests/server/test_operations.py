"""Features for operators of `nbagent serve`: readiness, logs, request ids, named tokens, several agents, spans."""

import socket

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.redis_server import redis_server
from support.serving import served, serving_process

from nbagent import Agent, LLMResponse, ScriptedProvider, Usage
from nbagent.server.conversations.opening import open_store

APP = """
import asyncio
from nbagent import Agent, ScriptedProvider

def answer(messages, functions):
    if messages[-1].text == "fail":
        raise RuntimeError("a bug in line 4711")
    return "One."

one = Agent(ScriptedProvider(answer))
two = Agent(ScriptedProvider(lambda messages, functions: "Two."))
"""
ADA, ADAS_NEXT, OPS, STRANGER = (f"the-token-of-{name}" for name in ("ada-1", "ada-2", "operators", "a-stranger"))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    file = tmp_path_factory.mktemp("secrets") / "tokens.toml"
    file.write_text(f'admins = ["ops"]\n[tokens]\nada = "{ADA}"\nops = "{OPS}"\n')
    return file


@pytest.fixture(scope="module")
def process(tmp_path_factory, tokens):
    folder = tmp_path_factory.mktemp("served")
    (folder / "app.py").write_text(APP)
    options = ["app.py:one", "app.py:two", "--token-file", str(tokens), "--log-json"]
    with serving_process(
        folder, *options, NBAGENT_SERVE_ACCESS_LOG="1", NBAGENT_SERVE_MAX_BODY_BYTES="1000"
    ) as running:
        yield running


def test_failures_and_refused_tokens_are_logged_with_the_request_id(process):
    ada = process.client(ADA)
    assert ada.post("/agent/chat", json={"message": "a question about hunter2"}).is_success
    failed = ada.post("/agent/chat", json={"message": "fail"})
    assert failed.status_code == 500
    request_id = failed.headers["x-request-id"]
    assert request_id in failed.json()["detail"]
    refused = process.client(STRANGER).get("/skills?secret=hunter2", headers={"X-Request-Id": "mine-1"})
    assert (refused.status_code, refused.headers["x-request-id"]) == (401, "mine-1")
    bug = process.logged(lambda line: line["request_id"] == request_id and "exception" in line)
    assert "a bug in line 4711" in bug["exception"]
    refusal = process.logged(lambda line: line["request_id"] == "mine-1" and line["level"] == "WARNING")
    assert refusal["message"] == "refused a request from 127.0.0.1: unauthorized"
    line = process.logged(lambda line: line["logger"] == "nbagent.access" and line["request_id"] == request_id)
    assert {"holder": "ada", "method": "POST", "path": "/agent/chat", "status": 500}.items() <= line.items()
    process.logged(lambda line: line["logger"] == "nbagent.access" and line["request_id"] == "mine-1")
    for secret in (ADA, STRANGER, "hunter2"):
        assert secret not in process.log.read_text()


def test_several_agents_are_models(process):
    client = process.client(ADA)
    names = [each["id"] for each in client.get("/v1/models").json()["data"]]
    assert names == ["nbagent", "scripted:scripted", "one", "two"]
    for model, said in (("two", "Two."), ("one", "One."), ("nbagent", "One.")):
        asked = {"model": model, "messages": [{"role": "user", "content": "Who?"}]}
        answer = client.post("/v1/chat/completions", json=asked).json()
        assert answer["choices"][0]["message"]["content"] == said
    assert client.post("/agent/chat", json={"message": "Who?", "model": "two"}).json()["response"] == "Two."


def test_a_limit_from_the_environment(process):
    assert process.client(ADA).post("/agent/chat", json={"message": "x" * 2000}).status_code == 413


def test_a_token_is_rotated_while_the_server_runs(process, tokens):
    process.client(ADA).post("/agent/chat", json={"message": "Hi", "conversation_id": "ada-s"})
    content = tokens.read_text()
    tokens.write_text(content.replace(f'"{ADA}"', f'["{ADAS_NEXT}"]'))
    asked = {"old": process.client(ADA), "new": process.client(ADAS_NEXT), "other": process.client(OPS)}
    found = {name: client.get("/agent/conversations/ada-s").status_code for name, client in asked.items()}
    assert found == {"old": 401, "new": 200, "other": 404}
    tokens.write_text("[tokens]\nada = 'short'\n")
    assert asked["new"].get("/agent/conversations/ada-s").status_code == 200
    process.logged(lambda line: line["message"].startswith("the tokens were not reloaded"))
    assert "short" not in process.log.read_text()
    tokens.write_text(content)
    assert asked["old"].get("/skills").status_code == 200


def test_only_admins_see_total_costs(process):
    for token, sees in ((ADA, False), (OPS, True)):
        process.client(token).get("/skills")
        text = process.client(token).get("/metrics").text
        assert "nbagent_http_request_duration_seconds_bucket" in text
        assert ("nbagent_cost_dollars_total" in text, "nbagent_tokens_total" in text) == (sees, sees)


def test_headers_that_never_end_are_refused(process):
    address = ("127.0.0.1", int(process.url.rpartition(":")[2]))
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 100_000)
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")


@pytest.mark.full
def test_a_server_is_not_ready_without_its_store_or_its_provider():
    async def down(messages, functions):
        raise AssertionError

    with redis_server() as address:
        server = served(Agent(ScriptedProvider(down)), open_store(address))
        running = server.__enter__()
        client = running.client(token=None)
        assert client.get("/readyz").status_code == 200
        assert running.client().get("/readyz/providers").status_code == 200
        assert client.get("/readyz/providers").status_code == 401
    try:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        assert running.client().get("/readyz/providers").status_code == 503
    finally:
        server.__exit__(None, None, None)


def test_spans_of_the_server_join_the_trace_of_the_caller():
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    agent = Agent(ScriptedProvider(LLMResponse("Yes.", metadata={"usage": Usage(1, 1)})))
    agent.trace.to_otel(tracer_provider=provider)
    trace_id, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with served({"first": Agent(ScriptedProvider([])), "second": agent}) as server:
        server.client().get("/healthz")
        headers = {"traceparent": f"00-{trace_id}-{caller}-01"}
        assert (
            server.client().post("/agent/chat", json={"message": "?", "model": "second"}, headers=headers).status_code
            == 200
        )
    spans = {span.name: span for span in exporter.get_finished_spans()}
    top = spans["POST /agent/chat"]
    assert f"{top.parent.span_id:016x}" == caller
    assert {f"{span.context.trace_id:032x}" for span in spans.values()} == {trace_id}
    assert spans["invoke_agent"].parent.span_id == top.context.span_id
    assert (top.attributes["http.route"], top.attributes["http.response.status_code"]) == ("/agent/chat", 200)
