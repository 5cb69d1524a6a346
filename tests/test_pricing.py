"""What a request costs, and that a budget without a known price is an error before the first request."""

import math

import pytest
from support.loopback import Answer, Loopback, said, sse

from nbagent import Agent, Limits, LLMResponse, ScriptedProvider, Usage, create_provider, record, replay
from nbagent.errors import ConfigurationError
from nbagent.pricing import price

RATES = {"input": 0.5, "output": 1.5, "cached": 0.05}
COUNTS = {"prompt_tokens": 1_000_000, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 400_000}}


async def run_unpriced(limits, counts=COUNTS, **options):
    """Return the result of a prompt to a model of unknown price, and the requests that its server received."""
    async with Loopback() as server:
        server.answers = [Answer(sse(said("Hello.", usage=counts)))]
        provider = create_provider("open_source", base_url=server.url, model="mine", **options)
        agent = Agent(provider, limits=limits)
        try:
            return await agent.chat("Hello"), agent
        finally:
            assert len(server.requests) == len(agent.trace.calls)
            await provider.aclose()


BUDGET = Limits(max_cost=0.01)


@pytest.mark.parametrize(
    "ask",
    [
        lambda provider: Agent(provider, limits=BUDGET).chat("Hello"),
        lambda provider: Agent(provider).chat("Hello", limits=BUDGET),
        lambda provider: Agent(provider, limits=BUDGET).extract("one", int),
        lambda provider: anext(aiter(Agent(provider, limits=BUDGET).chat_stream("Hello"))),
    ],
)
async def test_a_budget_without_a_price_sends_nothing_and_names_the_remedies(ask):
    async with Loopback() as server:
        provider = create_provider("open_source", base_url=server.url, model="mine")
        with pytest.raises(ConfigurationError, match="max_cost=0.01: the price of open_source:mine") as caught:
            await ask(provider)
        assert (server.connections, server.requests) == (0, [])
        await provider.aclose()
    for way in ("price={", '"cached"', "Limits(max_total_tokens="):
        assert way in str(caught.value)


async def test_the_remedies_work():
    for limits, options in [
        (Limits(max_cost=0.01), {"price": RATES}),
        (Limits(max_total_tokens=1000), {}),
        (Limits(max_cost=None), {}),
        (Limits(max_cost=math.inf), {}),
    ]:
        result, agent = await run_unpriced(limits, **options)
        assert result.content == "Hello."
        known = agent.trace.calls["cost_usd"].notna().all()
        assert known == (result.cost is not None) == bool(options)


async def test_the_users_price_replaces_the_list():
    usage = Usage(1_000_000, 0)
    assert price(usage, "claude-sonnet-5", "claude") == 2.0
    assert price(usage, "claude-sonnet-5", "claude", rates={"input": 9, "output": 9}) == 9.0
    assert price(usage, "no-such-model", "openai") is None, "unknown, not zero"
    result, agent = await run_unpriced(Limits(), COUNTS | {"completion_tokens": 200_000}, price=RATES)
    assert result.cost == pytest.approx(0.6 * 0.5 + 0.4 * 0.05 + 0.2 * 1.5)
    assert agent.trace.calls["cost_usd"].tolist() == [result.cost]
    result, _ = await run_unpriced(Limits(), price={"input": 0.5, "output": 1.5})
    assert result.cost == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(("tier", "dollars"), [("default", 0.25), ("flex", 0.125), ("priority", 0.5), ("scale", None)])
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_the_tier_that_served_a_request_determines_the_price(tier, dollars, api):
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}]
    about = {"model": "gpt-5.4", "service_tier": tier}
    bodies = {
        "chat": said("Yes.", usage={"prompt_tokens": 100_000}, **about),
        "responses": {
            "type": "response.completed",
            "response": {"status": "completed", "output": output, "usage": {"input_tokens": 100_000}, **about},
        },
    }
    async with Loopback() as server:
        server.answers = [Answer(sse(bodies[api]))]
        provider = create_provider("openai", api_key="k", api=api, model="gpt-5.4", base_url=server.url)
        assert (await Agent(provider).chat("Hello")).cost == (dollars and pytest.approx(dollars, rel=1e-3))
        await provider.aclose()


def test_the_tiers_of_claude_and_gemini_are_in_their_usage():
    for model, provider, raw, dollars in [
        ("claude-opus-5-5", "claude", {"service_tier": "standard"}, 0.4),
        ("claude-opus-5-5", "claude", {"speed": "fast"}, 0.8),
        ("gemini-3.8-flash", "gemini", {"serviceTier": "priority"}, None),
    ]:
        assert price(Usage(100_000, 0), model, provider, raw) == dollars


async def test_the_cost_that_the_provider_reports_is_used():
    with_own_key = {"cost": 0.0001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.002}}
    openrouter, xai = ("openrouter", {"cost": 0.0021}, {}), ("xai", {"cost_in_usd_ticks": 21_000_000}, {})
    for name, bill, options in (openrouter, ("openrouter", with_own_key, {"price": RATES}), xai):
        async with Loopback() as server:
            server.answers = [Answer(sse(said("Hello.", model="mystery/one", usage={**COUNTS, **bill})))]
            provider = create_provider(name, api_key="k", base_url=server.url, **options)
            agent = Agent(provider, limits=Limits(max_cost=0.002))
            assert (await agent.chat("Hello")).cost == agent.trace.runs["cost_usd"].item() == pytest.approx(0.0021)
            await provider.aclose()


def test_an_invalid_price_is_named():
    for wrong, problem in [
        (0.5, "price: expected a Mapping, got 0.5"),
        ({"input": 1}, "a value for 'output'"),
        ({"input": 1, "output": -1}, r"price\['output'\]: expected a number of at least 0, got -1"),
        ({"input": 1, "output": 1, "cache": 1}, "'cached', got 'cache'"),
        ({"input": 1, "output": math.inf}, "finite"),
    ]:
        with pytest.raises(ConfigurationError, match=problem):
            create_provider("open_source", price=wrong)
    with pytest.raises(ConfigurationError, match="a value for 'output'"):
        create_provider("scripted", price={"input": 1})


async def test_scripts_and_replays_cost_nothing(tmp_path):
    result = await Agent(ScriptedProvider(["Hello."]), limits=Limits(max_cost=0.01)).chat("Hello")
    assert result.cost == 0
    said_once = LLMResponse("Hello.", metadata={"usage": Usage(1_000_000, 1)})
    with record(tmp_path / "run.jsonl"):
        paid = await Agent(ScriptedProvider([said_once], price=RATES)).chat("Hello")
    assert paid.cost == pytest.approx(0.5, abs=1e-3)
    with replay(tmp_path / "run.jsonl"):
        played = await Agent("open_source:mine", limits=Limits(max_cost=0.01)).chat("Hello")
    assert (played.status, played.cost) == ("ok", 0)
    played = await Agent(f"replay:{tmp_path / 'run.jsonl'}", limits=Limits(max_cost=0.01)).chat("Hello")
    assert (played.status, played.cost) == ("ok", 0)


@pytest.mark.parametrize("said", [math.nan, -1_000, math.inf])
def test_a_reported_cost_that_limits_cannot_count_is_ignored(said):
    usage = Usage(1_000_000, 0)
    assert price(usage, "openai/gpt-4o-mini", "openrouter", {"cost": said}) == pytest.approx(0.15)
    assert price(usage, "unlisted", "openrouter", {"cost": said}) is None
    assert price(usage, "grok-4", "xai", {"cost_in_usd_ticks": said}) == pytest.approx(price(usage, "grok-4", "xai"))


async def test_odd_token_counts_have_a_price():
    for counts, dollars in (
        ({"prompt_tokens": -5, "completion_tokens": 1_000_000, "prompt_tokens_details": {"cached_tokens": -1}}, 0.6),
        ({"prompt_tokens": 0, "completion_tokens": -1, "prompt_tokens_details": {"cached_tokens": 1_000_000}}, 0.075),
    ):
        result, _ = await run_unpriced(None, counts)
        assert result.cost is None
        assert price(result.usage, "gpt-4o-mini", "openai") == pytest.approx(dollars, rel=1e-4)
