"""Runs as OpenTelemetry spans and metrics: their tree, names and contents, and a collector that receives them."""

import asyncio
import json
import sys
from urllib.parse import urlsplit

import httpx
import pytest
from opentelemetry import trace as otel
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id
from support.called import called
from support.loopback import Answer, Loopback, said, sse
from support.spans import Collected

import nbagent
from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage, create_provider
from nbagent.core.content.images import Image
from nbagent.errors import AuthenticationError, ConfigurationError, MissingDependencyError
from nbagent.providers.http import retry
from nbagent.trace.export.otel import CAPTURE_VARIABLE
from nbagent.trace.export.otel_attributes import PROVIDERS


@pytest.fixture
def collected():
    return Collected()


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def fail(why: str) -> None:
    """Fails."""
    raise KeyError(f"secret-{why}")


COUNTED = {"prompt_tokens": 20, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}


async def test_the_tree_of_a_run_with_a_retry_and_parallel_tools(collected, monkeypatch):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.01)
    async with Loopback() as server:
        server.answers = [
            Answer(b"{}", 503),
            Answer(sse(called('{"x": 4}', "double"), called('{"why": "me"}', "fail", "c2"), said("", "tool_calls"))),
            Answer(sse(said("It is 8.", usage=COUNTED))),
        ]
        provider = create_provider("deepseek", api_key="k" * 12, model="m", base_url=f"{server.url}/v1")
        agent = collected.follow(Agent(provider, tools=[double, fail]))
        result = await agent.chat("Twice 4?", temperature=0.5, max_tokens=99, origin={"agent": "helper"})
        await provider.aclose()
    inner = [("chat m", []), ("execute_tool double", []), ("execute_tool fail", []), ("chat m", [])]
    assert collected.tree() == [("invoke_agent helper", inner)]
    run, first, doubled, failed, last = collected.spans
    assert [span.kind.name for span in collected.spans] == ["INTERNAL", "CLIENT", "INTERNAL", "INTERNAL", "CLIENT"]
    assert run.attributes["nbagent.run_id"] == result.run_id
    assert run.attributes["gen_ai.provider.name"] == "deepseek"
    assert first.attributes["gen_ai.request.temperature"] == 0.5
    assert first.attributes["gen_ai.request.max_tokens"] == 99
    assert first.attributes["server.address"] == "127.0.0.1"
    assert first.attributes["server.port"] == urlsplit(server.url).port
    assert [event.name for event in first.events] == ["retry"]
    assert first.events[0].attributes["error.type"] == "ServerError"
    assert first.attributes["nbagent.usage_estimated"] is True  # the provider reported no counts
    used = {name: value for name, value in last.attributes.items() if name.startswith("gen_ai.usage")}
    assert used == {
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 5,
    }
    assert last.attributes["gen_ai.response.model"] == "m1"
    assert (doubled.attributes["gen_ai.tool.call.id"], doubled.attributes["gen_ai.tool.name"]) == ("c1", "double")
    assert doubled.attributes["nbagent.tool_call_id"] == agent.trace.tool_calls["tool_call_id"].iloc[0]
    assert doubled.attributes["gen_ai.tool.description"] == "Twice x."
    assert (failed.attributes["error.type"], failed.status.status_code.name) == ("KeyError", "ERROR")


async def test_metrics_are_tokens_and_seconds(collected):
    facts = {"usage": Usage(100, 20), "model": "m-1"}
    agent = collected.follow(Agent(ScriptedProvider([LLMResponse("a", metadata=facts), ValueError("b")], model="m")))
    await agent.chat("1")
    with pytest.raises(ValueError, match="b"):
        await agent.chat("2")
    common = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "scripted", "gen_ai.request.model": "m"}
    answered = common | {"gen_ai.response.model": "m-1"}
    tokens = [(about, total) for about, total, _, _ in collected.points("gen_ai.client.token.usage")]
    assert tokens == [({"gen_ai.token.type": kind, **answered}, n) for kind, n in (("input", 100), ("output", 20))]
    seconds = collected.points("gen_ai.client.operation.duration")
    assert [(about, count) for about, _, count, _ in seconds] == [
        (answered, 1),
        (common | {"error.type": "ValueError"}, 1),
    ]
    assert all(total > 0 for _, total, _, _ in seconds)


async def test_an_error_ends_all_spans(collected):
    async with Loopback() as server:
        server.answers = [Answer(b'{"error": {"message": "no such key"}}', 401)]
        provider = create_provider("gemini", api_key="k" * 12, model="m", base_url=f"{server.url}/v1beta")
        with pytest.raises(AuthenticationError):
            await collected.follow(Agent(provider)).chat("1")
        await provider.aclose()
    assert collected.tree() == [("invoke_agent", [("chat m", [])])]
    for span in collected.spans:
        assert span.attributes["error.type"] == "AuthenticationError"
        assert span.attributes["http.response.status_code"] == 401
        assert span.attributes["gen_ai.provider.name"] == PROVIDERS["gemini"] == "gcp.gemini"
        assert (span.status.status_code.name, span.status.description) == ("ERROR", None)


async def test_an_interrupt_ends_all_spans(collected):
    started = asyncio.Event()

    async def wait() -> None:
        """Wait forever."""
        started.set()
        await asyncio.Event().wait()

    provider = ScriptedProvider([[FunctionCall("wait", {}), FunctionCall("double", {"x": 1})], "on"])
    agent = collected.follow(Agent(provider, tools=[wait, double]))
    task = asyncio.create_task(agent.chat("1"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    inner = [("chat scripted", []), ("execute_tool wait", []), ("execute_tool double", [])]
    assert collected.tree() == [("invoke_agent", inner)]
    assert collected.named("invoke_agent").attributes["nbagent.status"] == "interrupted"
    assert collected.named("execute_tool wait").attributes["error.type"] == "interrupted"
    await agent.chat("2")
    assert collected.spans[-2].attributes["nbagent.status"] == "ok"


async def test_spans_started_by_a_tool_are_its_children(collected):
    tracer = collected.tracers.get_tracer("mine")
    child = collected.follow(Agent(ScriptedProvider(["half"], model="child")))

    def ask(question: str) -> str:
        """Call another agent, from the tool's thread."""
        with tracer.start_as_current_span("my own"):
            return str(child.chat_sync(question))

    asking = [FunctionCall("ask", {"question": "?"}), "done"]
    agent = collected.follow(Agent(ScriptedProvider(asking, model="m"), tools=[ask]))
    with tracer.start_as_current_span("request"):
        around = otel.get_current_span()
        await agent.chat("1")
        assert otel.get_current_span() is around
    asked = [("execute_tool ask", [("my own", [("invoke_agent", [("chat child", [])])])])]
    inner = [("chat m", []), *asked, ("chat m", [])]
    assert collected.tree() == [("request", [("invoke_agent", inner)])]


def talk():
    thought = {"thinking": "secret-thought", "usage": Usage(1, 1)}
    turns = [[FunctionCall("double", {"x": 4}, "w1"), FunctionCall("fail", {"why": "w"}, "w2")]]
    provider = ScriptedProvider(
        [*turns, LLMResponse("secret-answer", None, "stop", thought), ValueError("secret-error")]
    )
    return Agent(provider, tools=[double, fail], system_prompt="secret-system")


async def talked(agent):
    await agent.chat(["secret-question", Image(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2", "image/gif")])
    with pytest.raises(ValueError, match="secret"):
        await agent.chat("secret-again")


@pytest.mark.parametrize("value", ["", "false", "EVENT_ONLY"])
async def test_message_texts_are_omitted(collected, monkeypatch, value):
    monkeypatch.setenv(CAPTURE_VARIABLE, value)
    await talked(collected.follow(talk()))
    assert "execute_tool fail" in collected.everything()
    assert "secret" not in collected.everything()


@pytest.mark.parametrize("how", ["argument", "SPAN_ONLY"])
async def test_message_texts_are_sent_on_request(collected, monkeypatch, how):
    if how != "argument":
        monkeypatch.setenv(CAPTURE_VARIABLE, how)
    await talked(collected.follow(talk(), **({"capture_content": True} if how == "argument" else {})))
    run, asked, doubled, failed, answered = collected.spans[:5]
    question = {"type": "text", "content": "secret-question\n[image: 3x2 gif]"}
    assert json.loads(run.attributes["gen_ai.input.messages"]) == [{"role": "user", "parts": [question]}]
    assert json.loads(run.attributes["gen_ai.system_instructions"]) == [{"type": "text", "content": "secret-system"}]
    call = {"type": "tool_call", "id": "w1", "name": "double", "arguments": {"x": 4}}
    (said_first,) = json.loads(asked.attributes["gen_ai.output.messages"])
    assert (said_first["parts"][0], said_first["role"]) == (call, "assistant")
    (offered, _) = json.loads(asked.attributes["gen_ai.tool.definitions"])
    assert (offered["type"], offered["name"], offered["description"]) == ("function", "double", "Twice x.")
    told = json.loads(answered.attributes["gen_ai.input.messages"])
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool"]
    assert told[2]["parts"] == [{"type": "tool_call_response", "id": "w1", "response": "8"}]
    (answer,) = json.loads(answered.attributes["gen_ai.output.messages"])
    parts = [{"type": "reasoning", "content": "secret-thought"}, {"type": "text", "content": "secret-answer"}]
    assert answer == {"role": "assistant", "parts": parts, "finish_reason": "stop"}
    assert doubled.attributes["gen_ai.tool.call.arguments"] == '{"x": 4}'
    assert doubled.attributes["gen_ai.tool.call.result"] == "8"
    assert "secret-w" in failed.status.description
    assert collected.spans[5].status.description == "secret-error"


async def test_forks_are_observed_until_stop(collected):
    agent = collected.follow(collected.follow(Agent(ScriptedProvider(list("abcd")))))  # the cell ran twice
    elsewhere = Collected()
    await elsewhere.follow(agent.fork()).chat("0")
    assert (len(collected.spans), len(elsewhere.spans)) == (0, 2)
    fork = agent.fork()
    await fork.chat("1")
    assert len(collected.spans) == 2
    assert collected.spans[0].attributes["gen_ai.conversation.id"] == fork.context.here.conversation_id
    agent.trace.observers[0].stop()
    await agent.chat("2")
    await fork.chat("3")
    assert len(collected.spans) == 2


@pytest.mark.parametrize("is_in_environment", [True, False])
async def test_a_collector_over_http(monkeypatch, is_in_environment):
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    async with Loopback() as server:
        server.answers = [Answer(b"", headers={"content-type": "application/x-protobuf"})]
        agent = Agent(ScriptedProvider([FunctionCall("double", {"x": 2}), "four"], model="m"), tools=[double])
        if is_in_environment:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        telemetry = agent.trace.to_otel(None if is_in_environment else server.url)
        result = await agent.chat("Twice 2?")
        await asyncio.to_thread(telemetry.stop)
        received = {request.path: request.body for request in server.requests}
    spans = ExportTraceServiceRequest.FromString(received["/v1/traces"])
    (resource,) = spans.resource_spans
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "nbagent"
    by_name = {span.name: span for span in resource.scope_spans[0].spans}
    assert by_name.keys() == {"invoke_agent", "chat m", "execute_tool double"}
    top = by_name.pop("invoke_agent")
    assert {span.parent_span_id for span in by_name.values()} == {top.span_id}
    assert {span.trace_id for span in by_name.values()} == {top.trace_id}
    assert result.run_id in str(top.attributes)
    metrics = ExportMetricsServiceRequest.FromString(received["/v1/metrics"])
    names = {metric.name for metric in metrics.resource_metrics[0].scope_metrics[0].metrics}
    assert names == {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"}


def test_wrong_settings_raise_errors(monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    trace = Agent("scripted").trace
    with pytest.raises(ConfigurationError, match="OpenTelemetry is not set up"):
        trace.to_otel()
    with pytest.raises(ConfigurationError, match="either endpoint or providers"):
        trace.to_otel("http://localhost:4318", tracer_provider=TracerProvider(shutdown_on_exit=False))
    with pytest.raises(ConfigurationError, match="address of a collector, got 'localhost:4318'"):
        trace.to_otel("localhost:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingDependencyError, match="pip install .opentelemetry-exporter"):
        trace.to_otel("http://localhost:4318")
    assert trace.observers == []


def counted(text="eight", calls=None, model="claude-sonnet-5"):
    return LLMResponse(text, calls, "tool_calls" if calls else "stop", {"usage": Usage(1000, 100), "model": model})


def twice():
    """An agent with two model requests at a known price."""
    provider = ScriptedProvider([counted("", [FunctionCall("double", {"x": 4})]), counted()], model="claude-sonnet-5")
    provider.provider_name = "claude"
    return Agent(provider, tools=[double])


def sums(spans, name):
    return sum(span.attributes.get(name, 0) for span in spans)


async def test_the_sum_over_all_spans_is_the_usage(collected):
    result = await collected.follow(twice()).chat("Twice 4?")
    assert sums(collected.spans, "gen_ai.usage.output_tokens") == 200
    assert sums(collected.spans, "operation.cost") == pytest.approx(result.cost)
    assert collected.named("invoke_agent").attributes["gen_ai.aggregated_usage.input_tokens"] == 2000
    # backends count each span with a model as a request
    assert sum("gen_ai.request.model" in span.attributes for span in collected.spans) == 2
    reasons = [span.attributes.get("gen_ai.response.finish_reasons") for span in collected.spans]
    assert reasons == [("stop",), ("tool_call",), None, ("stop",)]


async def test_a_conversation_has_one_id_and_each_run_its_labels(collected):
    agent, other = (collected.follow(Agent(ScriptedProvider(list("abcd")))) for _ in range(2))
    await agent.chat("1", user="ada", session="monday", tags=["draft", "x"])
    run = collected.named("invoke_agent").attributes
    assert (run["user.id"], run["session.id"], run["nbagent.tags"]) == ("ada", "monday", ("draft", "x"))
    await agent.chat("2")
    agent.undo()
    await agent.chat("2, again")
    agent.clear_history()
    await agent.chat("3")
    await other.chat("4")
    ids = [
        [span.attributes["gen_ai.conversation.id"] for span in collected.spans if span.name == name]
        for name in ("invoke_agent", "chat scripted")
    ]
    assert ids[0] == ids[1]
    first, second, again, cleared, others = ids[0]
    assert first == second == again
    assert len({first, cleared, others}) == 3


async def test_http_requests_are_below_their_call_and_the_first_chunk_is_timed(collected):
    instrumentation = pytest.importorskip("opentelemetry.instrumentation.httpx")
    async with Loopback() as server, httpx.AsyncClient() as client:
        instrumentation.HTTPXClientInstrumentor.instrument_client(client, tracer_provider=collected.tracers)
        server.answers = [Answer(b"{}", 503, headers={"retry-after": "0"}), Answer(sse(said("It is 8.")))]
        provider = create_provider("ollama", model="m", base_url=f"{server.url}/v1", client=client)
        await collected.follow(Agent(provider, trace=nbagent.Trace(record_http=True))).chat("1")
    assert collected.tree() == [("invoke_agent", [("chat m", [("POST", []), ("POST", [])])])]
    assert [request.headers["traceparent"].split("-")[2] for request in server.requests] == [
        format_span_id(span.context.span_id) for span in collected.spans if span.name == "POST"
    ]
    ((about, total, count, bounds),) = collected.points("gen_ai.client.operation.time_to_first_chunk")
    assert (about["server.address"], count, bounds[0]) == ("127.0.0.1", 1, 0.01)
    assert total == collected.named("chat m").attributes["gen_ai.response.time_to_first_chunk"]


async def test_a_replayed_answer_is_marked_and_costs_nothing(collected, tmp_path):
    with nbagent.record(tmp_path / "run.jsonl"):
        await twice().chat("Twice 4?")
    with nbagent.replay(tmp_path / "run.jsonl", "new"):
        agent = collected.follow(twice())
        await agent.chat("Twice 4?")
        run, *_ = collected.spans
        chats = [span for span in collected.spans if span.name.startswith("chat")]
        assert [span.attributes.get("nbagent.replayed") for span in [run, *chats]] == [True] * 3
        for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.cost", "operation.cost"):
            assert [span.attributes[name] for span in chats] == [0, 0]
        assert "nbagent.cost_usd" not in run.attributes
        assert run.attributes["gen_ai.aggregated_usage.input_tokens"] == 0
        for metric in ("token.usage", "operation.duration", "operation.time_to_first_chunk"):
            assert collected.points(f"gen_ai.client.{metric}") == []
