"""The spans of the timeline, the contents of plots and text views, and the display of a trace."""

import asyncio
import re

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, Usage, tool
from nbagent.errors import ConfigurationError
from nbagent.trace.views import fonts
from nbagent.trace.views.timeline import spans

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
    provider.provider_name = "claude"
    agent = Agent(provider, tools=[double])
    await agent.chat("Twice 4?")
    await agent.chat("Hello")
    with pytest.raises(ValueError, match="no"):
        await agent.chat("again")
    return agent.trace


def texts(ax) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


async def test_spans_match_the_tables(trace):
    found = spans(trace.rows_with_children())
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
    found = [span for span in spans(agent.trace.rows_with_children()) if span.lane == 2]
    assert [span.kind for span in found] == ["waiting", "thinking", "model"]
    assert found[1].seconds == pytest.approx(calls["thinking_s"][1])


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


async def test_usage_is_drawn_by_run(trace):
    ax = trace.plot_usage()
    heights = [bar.get_height() for container in ax.containers for bar in container]
    assert sum(heights) == trace.runs["total_tokens"].sum()
    costs = [text.get_text() for text in ax.texts]
    assert costs[0] == f"${trace.runs['cost_usd'].iloc[0]:.2g}"


async def test_tools_are_drawn_with_counts_failures_and_durations(trace):
    counts, seconds = trace.plot_tools()
    assert texts(counts) == ["double"]
    assert [bar.get_width() for container in counts.containers for bar in container] == [1, 1]
    assert [text.get_text() for text in counts.texts] == [" 2, 1 failed"]
    dots = seconds.collections[0].get_offsets()
    assert sorted(dots[:, 0]) == pytest.approx(sorted(trace.tool_calls["duration_s"]))


async def test_the_trace_displays_a_summary(trace):
    html = trace._repr_html_()
    text = re.sub(r"<style>.*</style>|<[^>]+>", " ", html, flags=re.DOTALL)
    assert "3 (1 error)" in text
    assert "4: claude-sonnet-5 ×4" in text
    assert "double ×2 (1 failed)" in text
    assert "(80 from the cache)" in text
    assert "run_" not in text


async def test_approval_waits_do_not_count_as_tool_time():
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
    found = [span for span in spans(agent.trace.rows_with_children()) if "wipe" in span.label]
    assert sorted(span.kind for span in found) == ["approval", "approval", "tool"]
    assert all(span.seconds >= 0.15 for span in found if span.kind == "approval")
    ax = agent.trace.timeline()
    assert "waiting for approval" in ax.figure.legends[0].get_texts()[-1].get_text()
    assert ax.get_xlabel() == "seconds (long waits for approval left out)"
    assert ax.get_xlim()[1] < 0.15, "the waits are shortened"
    assert re.fullmatch(r"1[5-9]\d ms|[\d.]+ s", ax.texts[1].get_text()), "but their durations are shown"
    assert agent.tool_stats()[["calls", "succeeded", "denied"]].values.tolist() == [[2, 1, 1]]


@pytest.fixture
def font(tmp_path):
    """A font that has 日 and 本, and nothing else: the only one that is installed beside Matplotlib's."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen
    from matplotlib import font_manager

    pen = TTGlyphPen(None)
    for go, point in [(pen.moveTo, (0, 0)), (pen.lineTo, (0, 700)), (pen.lineTo, (700, 0))]:
        go(point)
    pen.closePath()
    names = [".notdef", "sun", "book"]
    made = FontBuilder(1000, isTTF=True)
    made.setupGlyphOrder(names)
    made.setupCharacterMap({ord("日"): "sun", ord("本"): "book"})
    made.setupGlyf(dict.fromkeys(names, pen.glyph()))
    made.setupHorizontalMetrics(dict.fromkeys(names, (800, 0)))
    made.setupHorizontalHeader(ascent=800, descent=-200)
    made.setupNameTable({"familyName": "Of two signs", "styleName": "Regular"})
    made.setupOS2(usWeightClass=400)
    made.setupPost()
    made.save(tmp_path / "signs.ttf")
    before = list(font_manager.fontManager.ttflist)
    font_manager.fontManager.ttflist[:] = [each for each in before if "matplotlib" in each.fname]
    font_manager.fontManager.addfont(tmp_path / "signs.ttf")
    fonts._fonts_with.cache_clear()
    yield "Of two signs"
    font_manager.fontManager.ttflist[:] = before
    fonts._fonts_with.cache_clear()


@pytest.mark.filterwarnings("error")
async def test_labels_use_fonts_that_have_their_characters_or_boxes(font):
    agent = Agent(ScriptedProvider([FunctionCall("double", {"x": 4}, "1"), *["Done."] * 3]), tools=[double])
    await agent.chat("日本 \U00020000?")
    ax = agent.trace.timeline()
    question, call, _ = ax.get_yticklabels()
    assert question.get_text() == "日本 □?", "no font has the last character"
    assert question.get_fontfamily()[-1] == font
    assert font not in call.get_fontfamily()
    ax.figure.canvas.draw()
    assert agent.trace.timeline().get_yticklabels()[0].get_fontfamily()[-1] == font
    for sign in "日本":
        await agent.chat(sign)
    before = fonts._fonts_with.cache_info().misses
    assert [each.get_fontfamily()[-1] for each in agent.trace.timeline().get_yticklabels()[-2:]] == [font, font]
    assert fonts._fonts_with.cache_info().misses == before, "all fonts are read once for all labels"
