"""What backends make of the spans: sums, prices, conversations, the HTTP requests below a call, replayed answers."""

import httpx
import pytest
from opentelemetry.trace import format_span_id
from support.loopback import Answer, Loopback, said, sse
from support.spans import Collected

import nbagent
from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage, create_provider


@pytest.fixture
def collected():
    return Collected()


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


def counted(text="eight", calls=None, model="claude-sonnet-5"):
    return LLMResponse(text, calls, "tool_calls" if calls else "stop", {"usage": Usage(1000, 100), "model": model})


def twice():
    """An agent that asks its model twice, at a known price."""
    provider = ScriptedProvider([counted("", [FunctionCall("double", {"x": 4})]), counted()], model="claude-sonnet-5")
    provider.vendor = "claude"
    return Agent(provider, tools=[double])


def sums(spans, name):
    return sum(span.attributes.get(name, 0) for span in spans)


async def test_a_sum_over_all_spans_is_what_was_used(collected):
    result = await collected.follow(twice()).chat("Twice 4?")
    assert sums(collected.spans, "gen_ai.usage.output_tokens") == 200
    assert sums(collected.spans, "operation.cost") == pytest.approx(result.cost)
    assert collected.named("invoke_agent").attributes["gen_ai.aggregated_usage.input_tokens"] == 2000
    # backends count each span with a model as a request
    assert sum("gen_ai.request.model" in span.attributes for span in collected.spans) == 2
    reasons = [span.attributes.get("gen_ai.response.finish_reasons") for span in collected.spans]
    assert reasons == [("stop",), ("tool_call",), None, ("stop",)]


async def test_a_conversation_has_one_id_and_a_run_its_labels(collected):
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


async def test_http_requests_stand_below_their_call_whose_first_chunk_is_timed(collected):
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
