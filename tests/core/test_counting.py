"""Budgets where the vendor counts nothing, or nonsense, and where answers break off: estimates count."""

import asyncio

import pytest
from support.loopback import Answer, Loopback, said, sse

from nbagent import Agent, Limits, LLMResponse, ScriptedProvider, Usage, create_provider

LONG = "word " * 2_000  # about 2,500 tokens


@pytest.mark.parametrize("usage", [None, Usage(), Usage(-5, -5), Usage(float("nan"), "7")])
async def test_what_a_vendor_does_not_count_is_estimated_and_marked(usage):
    response = LLMResponse(LONG, metadata=None if usage is None else {"usage": usage})
    agent = Agent(ScriptedProvider([response], price={"input": 1, "output": 1}))
    result = await agent.chat("x" * 4_000)
    assert 1_000 <= result.usage.input_tokens < 1_100
    assert result.usage.output_tokens > 2_000
    assert result.cost == pytest.approx(result.usage.total_tokens / 1e6)
    assert result.metadata["usage_estimated"]
    assert agent.trace.calls.iloc[0]["usage_estimated"]


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
