"""Replayed answers are not paid again: tables, sums, texts and footers distinguish them."""

import pytest

import nbagent
from nbagent import Agent, Limits, LLMResponse, ScriptedProvider, Usage
from nbagent.chat.transcript import Transcript
from nbagent.notebook.panel.meter import Meter

PRICE = 0.1500006  # dollars for a million input tokens of this model plus one output token


def agent(answer, **options):
    facts = {"usage": Usage(1_000_000, 1), "usage_raw": {"in": 1}, "model": "gpt-4o-mini"}
    provider = ScriptedProvider([LLMResponse(answer, None, "stop", facts)], model="gpt-4o-mini")
    provider.provider_name = "openai"
    return Agent(provider, **options)


async def test_tables_and_sums_keep_paid_and_replayed_apart(tmp_path):
    path, shown = tmp_path / "run.jsonl", []
    with nbagent.record(path):
        await agent("One.").chat("1?")
    mixed = agent("Two.", limits=Limits(max_cost=2 * PRICE))
    with nbagent.replay(path, mode="new"):
        for question in ("1?", "2?"):
            transcript = Transcript(timings=False)
            async for event in mixed.chat_stream(question):
                transcript.feed(event)
            shown.append(transcript.plain())
    trace = mixed.trace
    assert trace.calls["replayed"].tolist() == [True, False]
    assert trace.usage[["replayed", "n_calls"]].values.tolist() == [[True, 1], [False, 1]]
    assert trace.usage["cost_usd"].tolist() == pytest.approx([PRICE, PRICE])
    assert trace.runs["cost_usd"].tolist() == pytest.approx([0.0, PRICE])
    assert trace.runs["replayed_cost_usd"].fillna(0).tolist() == pytest.approx([PRICE, 0.0])
    assert "$0.1500 ($0.1500 replayed, not paid)" in trace._repr_html_()
    assert [text.get_text() for text in trace.plot_usage().texts] == ["($0.15)", "$0.15"]
    assert "replayed: $0.1500 not paid" in shown[0]
    assert "$0.1500" in shown[1]
    assert "not paid" not in shown[1]
    assert "$0.1500" in Meter(mixed).html()


async def test_a_replay_that_is_stopped_costs_nothing(tmp_path):
    path = tmp_path / "run.jsonl"
    with nbagent.record(path):
        await agent("One.").chat("1?")
    stopped = agent("Two.")
    with nbagent.replay(path):
        stream = stopped.chat_stream("1?")
        async for event in stream:
            if event.type == "text":
                break
        await stream.aclose()
    (call,), (run,) = stopped.trace.calls.to_dict("records"), stopped.trace.runs.to_dict("records")
    assert (call["error_type"], call["replayed"], call["cost_usd"] > 0) == ("interrupted", True, True)
    assert (run["cost_usd"], run["replayed"], run["replayed_cost_usd"]) == (0.0, True, call["cost_usd"])
