"""Budgets where the vendor counts nothing, or nonsense: estimates count."""

import pytest

from nbagent import Agent, LLMResponse, ScriptedProvider, Usage

LONG = "word " * 2_000  # about 2,500 tokens


@pytest.mark.parametrize("usage", [None, Usage(), Usage(-5, -5), Usage(float("nan"), "7")])
async def test_what_a_vendor_does_not_count_is_estimated_and_paid(usage):
    response = LLMResponse(LONG, metadata=None if usage is None else {"usage": usage})
    model = ScriptedProvider([response], price={"input": 1, "output": 1})
    agent = Agent(model)
    result = await agent.chat("x" * 4_000)
    assert 1_000 <= result.usage.input_tokens < 1_100
    assert result.usage.output_tokens > 2_000
    assert result.cost == pytest.approx(result.usage.total_tokens / 1e6)
    assert result.metadata["usage_estimated"]
    assert agent.trace.calls.iloc[0]["usage_estimated"]
