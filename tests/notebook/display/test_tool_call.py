"""How a tool call looks: tables as tables, code as code, images below the call."""

import asyncio
import re

import numpy as np
import pandas as pd
from support.displays import Displays

from nbagent import Agent, FunctionCall, LLMResponse, ScriptedProvider, tool
from nbagent.chat.entry import past_turn
from nbagent.chat.recorded import Recorded
from nbagent.chat.transcript import Transcript
from nbagent.core import events
from nbagent.core.content.images import Image
from nbagent.functions.executor import ToolExecutor
from nbagent.functions.live import as_registry
from nbagent.notebook.display.view import CellView

GIF = Image(b"GIF89a\3\0\2\0\0\0\0,\0\0\0\0\3\0\2\0\0\2", "image/gif")


def shown(tool, **arguments):
    """Run an agent that calls the tool. Returns the agent and the displays."""
    call = FunctionCall(tool.__name__, arguments, "c")
    agent, displays = Agent(ScriptedProvider([call, "done"]), tools=[tool]), Displays()

    async def run():
        view = CellView(Transcript(timings=False), displays)
        async for event in agent.chat_stream("question"):
            view.feed(event)
        view.close()

    asyncio.run(run())
    return agent, displays


def test_a_data_frame_is_a_table():
    def rows() -> pd.DataFrame:
        return pd.DataFrame({"n": range(25), "<b>": ["<img src=x>" + "y" * 200] * 25}, index=np.arange(25) * 2)

    html = shown(rows)[1].html
    assert "result: 25 rows × 2 columns" in html
    assert '<tr><th></th><th class="n">n</th><th>&lt;b&gt;</th></tr>' in html
    assert html.count("<tr>") == 11
    assert "<img" not in html
    assert max(map(len, re.findall("<td>(.*?)</td>", html))) < 120


def test_a_missing_value_is_a_dash_and_text_stays_unchanged():
    def rows() -> pd.DataFrame:
        whole = pd.array([1, None], dtype="Int64")
        return pd.DataFrame({"x": [0.5, np.nan], "whole": whole, "when": [pd.NaT, pd.NaT], "text": ["nan", None]})

    html = shown(rows)[1].html
    assert '<tr><td>0</td><td class="n">0.5</td><td class="n">1</td><td>–</td><td>nan</td></tr>' in html
    assert '<tr><td>1</td><td class="n">–</td><td class="n">–</td><td>–</td><td>–</td></tr>' in html


def test_code_in_arguments_reads_as_code():
    def run(code: str, times: int) -> str:
        return "ok"

    html = shown(run, code="import os\nprint('<b>', '\u202e')", times=2)[1].html
    assert '<small>code</small><pre><span class="nbagent-keyword">import</span> os\n' in html
    assert '<small>arguments</small><pre>{"times": 2}</pre>' in html
    assert "\\u202e" in html, "what would change the reading order is visible"
    assert "<b>" not in html


def feed(transcript, kind, call_id, **fields):
    metadata = {"tool_call_id": call_id, "is_error": False, "duration_s": 1.5}
    transcript.feed(kind("", call_id, {}, metadata, **fields))


def test_a_running_call_s_printed_text_is_below_it_and_folds_when_it_ends():
    transcript, outputs = Transcript(), [{"stream": "stdout", "text": "epoch 1\n\x1b[1mepoch <2>\x1b[0m\n\n"}]
    feed(transcript, events.ToolCall, "fit")
    feed(transcript, events.ToolStarted, "fit")
    running = r'<span>running…</span> <span class="nbagent-time" data-nbagent-since="\d+\.\d">'
    assert re.search(running, transcript.html())
    feed(transcript, events.ToolPrinted, "fit", outputs=outputs)
    call, printed = transcript.html().split("</details>")
    assert "epoch" not in call, "it stands below"
    assert "<pre>epoch 1\nepoch &lt;2&gt;</pre>" in printed
    assert "epoch <2>" in transcript.plain()
    displayed = {"text/plain": "a chart"}
    feed(transcript, events.ToolResult, "fit", outputs=[*outputs, displayed])
    call, displayed = transcript.html().split("</details>")
    assert '<span class="nbagent-ok">✓</span> 1.5 s' in call
    assert "<small>printed</small><pre>epoch 1\nepoch &lt;2&gt;</pre>" in call
    assert "a chart" in displayed, "what was displayed stays visible"


def test_a_group_s_time_starts_with_the_first_call_that_needs_no_approval():
    transcript = Transcript()
    transcript.feed(events.TurnStarted())
    for name in ("a", "b"):
        feed(transcript, events.ToolCall, name)
        feed(transcript, events.ToolStarted, name)
    with transcript.call_waits("a"):
        assert transcript.html().count("data-nbagent-since") == 2
        with transcript.call_waits("b"):
            assert "tool calls" not in transcript.html(), "the forms show both calls"
    assert transcript.html().count("data-nbagent-since") == 3


def test_a_waiting_call_hides_and_edits_no_other_call_with_its_provider_id():
    @tool(approve=True)
    def wipe(table: str) -> str:
        return "wiped"

    async def approve(call, definition):
        with view.waiting_for_approval(call) as show_edited:
            during.append(displays.html)
            show_edited({"table": "rivers"})
        return {"table": "rivers"}

    child = Agent(ScriptedProvider([FunctionCall("wipe", {"table": "towns"}, "call_0"), "ok"]), tools=[wipe])
    calls = [FunctionCall("helper", {"question": "wipe"}, "call_0"), "done"]
    agent = Agent(ScriptedProvider(calls), tools=[child.as_tool("helper", "Helps.")], approve=approve)
    displays, during = Displays(), []
    view = CellView(Transcript(), displays)
    agent.observers.append(view.feed)
    asyncio.run(agent.chat("question"))
    view.close()
    assert ["helper" in html and "wipe(" not in html for html in during] == [True]
    assert re.findall(r"(\w+)\([^)]*\)</code> <span [^>]*>edited", displays.html) == ["wipe"]


def test_a_call_that_a_tool_makes_itself_hides_and_edits_no_other_call():
    def wipe(table: str) -> str:
        return "wiped"

    async def outer(question: str) -> str:
        return await ToolExecutor(as_registry(tool(wipe, approve=True))).execute("wipe", {"table": "towns"})

    async def approve(call, definition):
        with view.waiting_for_approval(call) as show_edited:
            during.append(displays.html)
            show_edited({"table": "rivers"})
        return {"table": "rivers"}

    agent = Agent(
        ScriptedProvider([FunctionCall("outer", {"question": "q"}, "c"), "ok"]), tools=[outer], approve=approve
    )
    displays, during = Displays(), []
    view = CellView(Transcript(), displays)
    agent.observers.append(view.feed)
    asyncio.run(agent.chat("question"))
    view.close()
    assert ["outer" in html for html in during] == [True]
    assert "rivers" not in displays.html


def test_the_calls_of_one_answer_are_a_group():
    """The group has each call of the answer and none of the next one. Their displays stay visible below."""

    def one() -> Image:
        return GIF

    def two() -> str:
        raise ValueError("not two")

    calls = [FunctionCall(*each) for each in (("one", {}, "a"), ("two", {}, "b"), ("two", {}, "e"), ("one", {}, "c"))]
    agent = Agent(ScriptedProvider([LLMResponse("", calls), FunctionCall("two", {}, "d"), "done"]), tools=[one, two])
    displays = Displays()

    async def run():
        view = CellView(Transcript(), displays)
        async for event in agent.chat_stream("question"):
            view.feed(event)
        view.close()

    asyncio.run(run())
    assert any(" open><summary>" in bundle["text/html"] for _, bundle in displays.sent), "unfolded as long as they run"
    head, *inside = displays.shown[0]["text/html"].split("<details ")[1:]
    assert '4 tool calls</span> <code>one, two</code> <span class="nbagent-side">' in head
    assert re.search(r'<span class="nbagent-bad">✗ 2 errors</span> \d+ (ms|µs)</span></summary>', head)
    assert [page.count("<img") for page in inside] == [0, 0, 0, 2]
    assert inside[-1].index("</div></details>") < inside[-1].index("<img")
    past = past_turn(agent.conversation_history, Recorded(agent.trace)).html()
    assert head in past, "and so it is later"
    assert displays.shown[1]["text/html"].count("<details ") == 1
