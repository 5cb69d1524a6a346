"""The tables of a trace: declared columns and dtypes, empty or not, and the values of a simple run."""

from contextlib import suppress
from dataclasses import replace

import pytest
from support.loopback import Answer, Loopback, said, sse
from support.spans import Collected

from nbagent import Agent, Budget, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage, create_provider
from nbagent.errors import IncompleteStreamError
from nbagent.notebook.panel.meter import Meter
from nbagent.providers.http import retry
from nbagent.trace.columns import COLUMNS

#: Streams that break or say no more after twelve characters, and a whole one with the provider's counts.
BROKEN = Answer(sse(said("It is twelve", None), done=False), end="drop")
HALTED = replace(BROKEN, end="stall")
WHOLE = Answer(sse(said("It is 8.", usage={"prompt_tokens": 2000, "completion_tokens": 7})))


def double(x: int) -> int:
    """Twice x."""
    return 2 * x


@pytest.fixture
async def trace():
    usage = {"usage": Usage(100, 20, cache_read_tokens=40, reasoning_tokens=5), "model": "m-1", "thinking": "hm"}
    calls = [FunctionCall("double", {"x": 4}, "w1"), FunctionCall("double", {"x": "y"}, "w2")]
    first = LLMResponse("", calls, None, usage)
    agent = Agent(ScriptedProvider([first, "It is 8."], model="m"), tools=[double])
    await agent.chat("Twice 4?")
    return agent.trace


def test_an_empty_table_has_all_its_columns_and_their_dtypes():
    for table, columns in COLUMNS.items():
        frame = getattr(Trace(), table)
        assert len(frame) == 0
        assert frame.dtypes.astype(str).to_dict() == columns


@pytest.mark.parametrize(
    ("answers", "models"),
    [([BROKEN, WHOLE], 1), ([BROKEN, WHOLE], 2), ([BROKEN], 1), ([HALTED], 1), ([replace(HALTED, body=b"")], 1)],
    ids=["sent again", "another model is asked", "the run fails", "stopped", "stopped before the first word"],
)
async def test_a_broken_attempt_counts_the_same_in_budget_tables_spans_and_metrics(monkeypatch, answers, models):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)
    collected, budget, stops_at = Collected(), Budget(max_cost=1), "text" if answers[0].body else "turn_started"
    async with Loopback() as server:
        server.answers = list(answers)
        about = {"api_key": "k" * 12, "base_url": f"{server.url}/v1", "max_retries": len(answers) - models}
        asked = [create_provider("deepseek", model="deepseek-v4-flash", **about) for _ in range(models)]
        agent = collected.follow(Agent(asked, budget=budget))
        trace, meter, stream = agent.trace, Meter(agent), agent.chat_stream("word " * 2000)
        trace.observers.append(lambda _, event: event.type == "usage" and meter.count("run", event))
        with suppress(IncompleteStreamError):
            async for event in stream:
                if answers[0].end == "stall" and event.type == stops_at:
                    break
        await stream.aclose()
        for each in asked:
            await each.aclose()
    tables = trace.calls, trace.runs, trace.usage
    for taken, column in ((budget.spent, "cost_usd"), (budget.account.usage.total_tokens, "total_tokens")):
        assert [table[column].sum() for table in tables] == pytest.approx([taken] * 3)
    spans = [span.attributes for span in collected.spans if span.name.startswith("chat")]
    for name, taken in (("input_tokens", budget.account.usage.input_tokens), ("cost", budget.spent)):
        assert sum(span.get(f"gen_ai.usage.{name}", 0) for span in spans) == pytest.approx(taken)
    assert trace.calls["usage_estimated"].tolist() == [True, False][:models]
    assert [table["cost_usd"].isna().any() for table in tables] == [not answers[0].body] * 3, "unknown, not zero"
    assert (f" tokens, at least ${budget.spent:.4f}" in meter.html()) == (budget.spent > 0)


async def test_changing_a_frame_or_an_argument_does_not_change_the_trace(trace):
    mine = trace.tool_calls
    mine.loc[0, "name"] = "changed"
    assert trace.tool_calls["name"].iloc[0] == "double"
    arguments = trace.tool_calls["args"]
    assert arguments.tolist() == trace.tool_calls["args_sent"].tolist() == [{"x": 4}, {"x": "y"}]
    arguments[0]["x"] = 5
    assert trace.tool_calls["args"][0] == trace.run(trace.runs["run_id"][0])["tool_calls"]["args"][0] == {"x": 4}
    assert "{'x': 4}" in repr(trace.tool_calls)


def test_the_display_hides_ids_and_times(trace):
    shown = repr(trace.tool_calls)
    assert "double" in shown
    assert "tool_call_id" not in shown
    assert "session_" not in shown
    html = trace.tool_calls._repr_html_()
    assert "double" in html
    assert "run_id" not in html
    assert "run_id" in trace.tool_calls[["run_id"]]._repr_html_()


async def test_a_disabled_trace_stays_empty_and_its_views_say_so():
    agent = Agent(ScriptedProvider([FunctionCall("double", {"x": 4}), "It is 8."]), tools=[double], trace=False)
    assert (await agent.chat("Twice 4?")).content == "It is 8."
    assert {name: len(getattr(agent.trace, name)) for name in COLUMNS} == dict.fromkeys(COLUMNS, 0)
    assert not agent.trace.recorder.results
    for shown in (repr(agent.trace), agent.trace._repr_html_()):
        assert "nothing is recorded" in shown
    assert not agent.fork().trace.is_recording
