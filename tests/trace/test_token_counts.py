"""The token counts in the tables match those of a real llama.cpp server."""

import json

import pytest

from nbagent import Agent, Trace


@pytest.mark.full
@pytest.mark.local_model
async def test_token_counts_of_the_embedded_model():
    def celsius(fahrenheit: float) -> float:
        """Convert degrees Fahrenheit to Celsius."""
        return round((fahrenheit - 32) * 5 / 9, 1)

    agent = Agent("local", tools=[celsius], trace=Trace(record_http=True))
    await agent.chat("Convert 100 degrees Fahrenheit to Celsius.")
    await agent.chat("Convert 50 degrees Fahrenheit to Celsius.")
    await agent.chat("Say hello.")
    asked = [timings(body) for body in agent.trace.http["response_body"] if '"timings"' in body]
    sent, cached, generated = (sum(each[name] for each in asked) for name in ("prompt_n", "cache_n", "predicted_n"))
    assert len(asked) >= 2
    assert agent.trace.calls["input_tokens"].sum() == sent + cached
    assert agent.trace.calls["cache_read_tokens"].sum() == cached > 0
    assert agent.trace.runs["output_tokens"].sum() == generated
    assert agent.trace.usage["total_tokens"].sum() == sent + cached + generated
    assert agent.trace.tool_calls["name"].tolist() == ["celsius", "celsius"]


def timings(body: str) -> dict:
    """The last counts in a raw answer from llama.cpp's server."""
    lines = [line.removeprefix("data:") for line in body.splitlines() if '"timings"' in line]
    return json.loads(lines[-1])["timings"]
