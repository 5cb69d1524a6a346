"""Budgets where the vendor counts nothing, or nonsense, and where answers break off: estimates count."""

import asyncio

import pytest
from support.loopback import Answer, Loopback, said, sse

from nbagent import Agent, Limits, LLMResponse, ScriptedProvider, Usage, create_provider

LONG = "word " * 2_000  # about 2,500 tokens


@pytest.mark.parametrize(
    "usage",
    [None, Usage(), Usage(-5, -5), Usage(0, 9_000), Usage(float("nan"), "7"), Usage(0, 0, 99)],
)
async def test_what_a_vendor_does_not_count_is_estimated_and_marked(usage):
    response = LLMResponse(LONG, metadata=None if usage is None else {"usage": usage})
    agent = Agent(ScriptedProvider([response], price={"input": 1, "output": 1}))
    result = await agent.chat("x" * 4_000)
    assert 1_000 <= result.usage.input_tokens < 1_100
    assert result.usage.output_tokens > 2_000
    assert result.cost == pytest.approx(result.usage.total_tokens / 1e6)
    assert result.metadata["usage_estimated"]
    row = agent.trace.calls.iloc[0]
    assert row["usage_estimated"]
    assert row["total_tokens"] == result.usage.total_tokens


async def test_a_provider_may_say_that_an_answer_took_no_tokens():
    response = LLMResponse(LONG, metadata={"usage": Usage(), "usage_estimated": False})
    agent = Agent(ScriptedProvider([response], price={"input": 1, "output": 1}))
    result = await agent.chat("x" * 4_000)
    assert (result.usage, result.cost) == (Usage(), 0)
    assert "usage_estimated" not in result.metadata
    row = agent.trace.calls.iloc[0]
    assert (row["total_tokens"], row["usage_estimated"]) == (0, False)


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": "many"}])
async def test_a_budget_of_tokens_holds_with_a_server_that_counts_nothing(usage):
    async with Loopback() as server:
        server.answers = [Answer(sse(said(LONG, usage=usage)))]
        provider = create_provider("open_source", base_url=server.url, model="mine")
        agent = Agent(provider, limits=Limits(max_total_tokens=2_000))
        result = await agent.chat("Hello")
        await provider.aclose()
    assert result.usage.total_tokens > 2_000


async def test_broken_attempts_spend_the_budget_and_end_the_run():
    async with Loopback() as server:
        half = Answer(sse(said(LONG, finish=None), done=False), headers={"retry-after-ms": "1"})
        server.answers = [half]
        provider = create_provider("open_source", base_url=server.url, model="mine", max_retries=9)
        agent = Agent(provider, limits=Limits(max_total_tokens=6_000))
        async with asyncio.timeout(60):
            result = await agent.chat("Hello")
        await provider.aclose()
    assert (result.status, result.limit_reason, len(server.requests)) == ("limit", "tokens", 3)
    assert result.metadata["usage_estimated"]
