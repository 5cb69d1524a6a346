"""The spans of the timeline, the contents of pictures and of views as text, and the display of a trace."""

import asyncio
import itertools
import re
import sqlite3
import sys
import time
from contextlib import closing

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest
from support.hostile import PAYLOADS

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Trace, Usage, tool
from nbagent.core.render.control_chars import show_all_chars
from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.trace.views.timeline import MAX_LANES, packed, spans

mpl.use("agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def double(x: int) -> int:
    """Twice x."""
    if x < 0:
        raise ValueError("negative")
    return 2 * x


@pytest.fixture
async def trace():
    facts = {"usage": Usage(1100, 20, 40, 0, 5), "model": "claude-sonnet-5"}
    calls = [FunctionCall("double", {"x": 4}, "1"), FunctionCall("double", {"x": -1}, "2")]
    turns = [LLMResponse("", calls, None, facts), LLMResponse("It is 8.", None, "stop", facts), "Hi.", ValueError("no")]
    provider = ScriptedProvider(turns, delay=0.01, model="claude-sonnet-5")
    provider.vendor = "claude"
    agent = Agent(provider, tools=[double])
    await agent.chat("Twice 4?")
    await agent.chat("Hello")
    with pytest.raises(ValueError, match="no"):
        await agent.chat("again")
    return agent.trace


def texts(ax) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


async def test_spans_match_the_tables(trace):
    found = spans(trace.calls, trace.tool_calls)
    assert [span.label for span in found if span.kind in ("tool", "error") and "(" in span.label] == ["  double()"] * 2
    assert sorted(span.kind for span in found) == [*["error"] * 2, *["model"] * 3, "tool", *["waiting"] * 2]
    seconds = sum(span.seconds for span in found)
    assert seconds == pytest.approx(trace.calls["duration_s"].sum() + trace.tool_calls["duration_s"].sum())
    assert min(span.start for span in found) == 0
    second = [span for span in found if span.kind == "waiting"][1]
    assert second.seconds == pytest.approx(trace.calls["ttft_s"].iloc[2])


async def test_thinking_lasts_until_the_first_other_delta():
    think = {"thinking": "Twice four.", "usage": Usage(10, 5)}
    call = [FunctionCall("double", {"x": 4}, "1")]
    turns = [LLMResponse("", call, None, think), LLMResponse("It is 8.", None, "stop", think), "Hi."]
    agent = Agent(ScriptedProvider(turns, delay=0.05), tools=[double])
    await agent.chat("Twice 4?")
    await agent.chat("Hello")
    calls = agent.trace.calls
    assert calls["thinking_s"].isna().tolist() == [False, False, True]
    assert calls["thinking_s"][1] >= 0.05
    assert (calls["ttft_s"] + calls["thinking_s"].fillna(0) <= calls["duration_s"]).all()
    found = [span for span in spans(calls, agent.trace.tool_calls) if span.lane == 2]
    assert [span.kind for span in found] == ["waiting", "thinking", "model"]
    assert found[1].seconds == pytest.approx(calls["thinking_s"][1])
    assert "░" in agent.trace.to_text("timeline")


async def test_the_pause_before_a_retry_counts_as_waiting(trace):
    again = pd.DataFrame(trace.calls).assign(ttft_s=0.5, retry_wait_s=2.0, duration_s=4.0, error_type=None)
    found = [span for span in spans(again, trace.tool_calls.iloc[:0]) if span.lane == 0]
    assert [(span.kind, span.seconds) for span in found] == [("waiting", 2.5), ("model", 1.5)]


async def test_pauses_between_runs_are_left_out(trace):
    calls = pd.DataFrame(trace.calls)
    later = calls["run_id"] != calls["run_id"].iloc[0]
    apart = calls.assign(started=calls["started"].where(~later, calls["started"] + pd.Timedelta(hours=3)))
    end = max(span.start + span.seconds for span in spans(apart, trace.tool_calls))
    assert end < 60


async def test_the_timeline_names_questions_calls_and_models(trace):
    ax = trace.timeline()
    assert texts(ax) == ["Twice 4?", "double(x=4)", "double(x=-1)", "claude-sonnet-5", "Hello", "again"]
    assert [line.get_ydata()[0] for line in ax.lines] == [3.5, 4.5]  # between the runs
    one = trace.timeline(trace.runs["run_id"].iloc[1])
    assert texts(one) == ["Hello"]
    assert not one.lines
    assert "pauses" not in one.get_xlabel()
    with pytest.raises(ConfigurationError, match="'x'"):
        trace.timeline("x")


async def test_names_hide_nothing(tmp_path):
    names = [payload.text for payload in PAYLOADS if payload.effect == "control"]
    agent = Agent(ScriptedProvider([[FunctionCall(name, {}, str(n)) for n, name in enumerate(names)], "ok"]))
    await agent.chat("hi")
    axes = agent.trace.timeline()
    assert len(texts(axes)) > len(names)
    assert [each for each in texts(axes) if show_all_chars(each) != each] == []
    axes.figure.savefig(tmp_path / "timeline.png")  # a character that the font lacks is a warning


async def test_many_steps_share_few_lanes():
    agent = Agent(ScriptedProvider(lambda messages, functions: "ok"))
    while len(agent.trace.rows("calls")) <= MAX_LANES:
        agent.clear_history()
        await agent.chat("x")
    assert len(texts(agent.trace.timeline())) <= 6
    found = sorted(packed(spans(agent.trace.calls, agent.trace.tool_calls)), key=lambda span: (span.lane, span.start))
    for one, two in itertools.pairwise(found):
        assert one.lane < two.lane or one.start + one.seconds <= two.start + 1e-9


async def test_usage_is_drawn_by_run(trace):
    ax = trace.plot_usage()
    heights = [bar.get_height() for container in ax.containers for bar in container]
    assert sum(heights) == trace.runs["total_tokens"].sum()
    costs = [text.get_text() for text in ax.texts]
    assert costs[0] == f"${trace.runs['cost_usd'].iloc[0]:.2g}"


async def test_tools_are_drawn_by_count_with_what_failed_and_how_long_they_took(trace):
    counts, seconds = trace.plot_tools()
    assert texts(counts) == ["double"]
    assert [bar.get_width() for container in counts.containers for bar in container] == [1, 1]
    assert [text.get_text() for text in counts.texts] == [" 2, 1 failed"]
    dots = seconds.collections[0].get_offsets()
    assert sorted(dots[:, 0]) == pytest.approx(sorted(trace.tool_calls["duration_s"]))


async def test_days_are_those_of_the_machine(monkeypatch, tmp_path):
    agent = Agent(ScriptedProvider([LLMResponse("Hi.", None, "stop", {"usage": Usage(9, 1)})] * 4))
    for _ in range(4):
        await agent.chat("Hello")
    agent.trace.save(tmp_path / "t.sqlite")
    times = [f"2026-03-0{day}T{hour:02}:00:00+00:00" for day in (1, 2) for hour in (9, 12)]
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as database, database:
        for number, when in enumerate(times, 1):
            # each as long as the others: the days have equal places in the timeline
            database.execute(
                "UPDATE calls SET ts = ?, started = ?, duration_s = 1.0 WHERE rowid = ?", (when, when, number)
            )
    trace = Trace.load(tmp_path / "t.sqlite")
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")  # UTC+14: a new day begins at 10 o'clock
    time.tzset()
    days = ["2026-03-01", "2026-03-02", "2026-03-03"]
    try:
        assert trace.summary("day").index.astype(str).tolist() == days
        for ax in (trace.plot_usage(), trace.timeline()):
            ax.figure.canvas.draw()
            assert [label.get_text() for label in ax.get_xticklabels(minor=True)] == days
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_pictures_are_drawn_on_given_axes(trace):
    _, axes = plt.subplots(2, 2)
    assert trace.timeline(ax=axes[0, 0]) is axes[0, 0]
    assert trace.plot_usage(axes[0, 1]) is axes[0, 1]
    assert trace.plot_tools(axes[1]) == list(axes[1])
    assert axes[1, 0].get_ylim() == axes[1, 1].get_ylim()  # a tool has the same line in both


async def test_thirty_tools_have_a_line_each_and_the_most_used_come_first():
    names = [f"tool_with_quite_a_long_name_{number}" for number in range(29)] + ["$\\href{x}$ \n made up"]
    calls = [FunctionCall(name, {}, f"{name}{again}") for n, name in enumerate(names) for again in range(n % 3 + 1)]
    agent = Agent(ScriptedProvider([calls, "ok"]))
    await agent.chat("x")
    counts, _ = agent.trace.plot_tools()
    counts.figure.canvas.draw()  # names are no formulas
    assert "$\\href{x}$ made up" in texts(counts)
    called = [int(text.get_text().split(",")[0]) for text in counts.texts]
    assert called == sorted(called, reverse=True)
    boxes = [label.get_window_extent() for label in counts.get_yticklabels()]
    assert all(one.y0 >= other.y1 for one, other in itertools.pairwise(boxes))  # no name covers another


def test_pictures_of_empty_traces_have_a_note():
    for ax in (Trace().timeline(), Trace().plot_usage(), *Trace().plot_tools()):
        ax.figure.canvas.draw()
        assert [text.get_text() for text in ax.texts] == ["Nothing yet."]
        assert not [*ax.get_xticks(), *ax.get_yticks()]


def test_without_matplotlib_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'nbagent\[plot\]'"):
        Trace().timeline()


async def test_the_trace_displays_a_summary(trace):
    html = trace._repr_html_()
    text = re.sub(r"<style>.*</style>|<[^>]+>", " ", html, flags=re.DOTALL)
    assert "3 (1 error)" in text
    assert "4: claude-sonnet-5 ×4" in text
    assert "double ×2 (1 failed)" in text
    assert "(80 from the cache)" in text
    assert "run_" not in text


async def test_the_timeline_has_a_line_for_each_step(trace):
    *lines, legend = trace.to_text("timeline").splitlines()
    labels = [re.split(" {2,}[^ a-z]| {4,}", line)[0].rstrip() for line in lines]
    assert labels == ["Twice 4?", "  double(x=4)", "  double(x=-1)", "claude-sonnet-5", "Hello", "again"]
    assert sum("×" in line for line in lines) == 2
    assert lines[0].endswith(("ms", "s"))
    assert legend.strip().startswith("0 to ")
    only = trace.to_text("timeline", trace.runs["run_id"][1]).splitlines()
    assert len(only) == 2


async def test_tables_of_usage_and_tools(trace):
    lines = [line.split() for line in trace.to_text("usage").splitlines()]
    assert lines[1][:4] == ["1", "2,200", "80", "40"]
    assert lines[1][4] == f"${trace.runs['cost_usd'][0]:.4f}"
    assert len(lines) == 1 + len(trace.runs)
    tools = [line.split() for line in trace.to_text("tools").splitlines()]
    assert tools[1][:6] == ["double", "2", "1", "1", "0", "0"]


async def test_waiting_for_approval_is_not_time_of_the_tool():
    async def approve(call, definition):
        await asyncio.sleep(0.15)
        return call.arguments["table"] == "cities"

    @tool(approve=True)
    def wipe(table: str) -> str:
        """Delete a table."""
        return "gone"

    calls = [FunctionCall("wipe", {"table": "cities"}, "1"), FunctionCall("wipe", {"table": "people"}, "2")]
    agent = Agent(ScriptedProvider([calls, "Done."]), tools=[wipe], approve=approve)
    await agent.chat("Delete the cities and the people")
    found = [span for span in spans(agent.trace.calls, agent.trace.tool_calls) if "wipe" in span.label]
    assert sorted(span.kind for span in found) == ["approval", "approval", "tool"]
    assert all(span.seconds >= 0.15 for span in found if span.kind == "approval")
    assert "?" in agent.trace.to_text("timeline").splitlines()[1]
    assert "waiting for approval" in agent.trace.timeline().figure.legends[0].get_texts()[-1].get_text()
    stats = agent.trace.to_text("tools").splitlines()[1].split()
    assert stats[:6] == ["wipe", "2", "1", "0", "0", "1"]


def test_an_empty_trace_has_every_view_and_an_unknown_one_is_an_error_that_names_them():
    shown = {Trace().to_text(view) for view in ("summary", "timeline", "usage", "tools", "transcript")}
    assert shown == {"Nothing yet.", "Nothing was said yet.", "runs  0"}
    with pytest.raises(ConfigurationError, match="'summary', 'timeline', .*got 'picture'"):
        Trace().to_text("picture")
