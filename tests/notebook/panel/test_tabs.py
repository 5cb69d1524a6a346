"""The timeline of the panel's Trace tab, from the traces of real runs."""

import re

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.notebook.panel.tabs import NOTHING, timeline_html


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def asked(*turns):
    agent = Agent(ScriptedProvider([*turns, "done"], model="m"), tools=[add])
    agent.chat_sync("go", max_iterations=100)
    return agent.trace


def test_each_step_has_a_row_with_its_bars_below_its_question():
    trace = asked(FunctionCall("add", {"a": 1, "b": 2}, "c"))
    page = timeline_html(trace, {})
    assert re.findall("<span>([^<]+)</span>", page) == ["go", "m", "add(a=1, b=2)", "m", "seconds"]
    bars = [(float(left), float(width)) for left, width in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", page)]
    assert len(bars) >= 3
    assert all(0 <= left <= left + width <= 100.02 for left, width in bars)
    assert re.search('class="nbagent-span-tool" title="tool: [0-9.]+ [mµ]?s"', page)
    assert "<button" not in page, "the panel does not show the turn"
    assert timeline_html(trace, {trace.runs["run_id"].iloc[0]: "turn_1"}).count('data-turn="turn_1"') == 4


def test_names_are_escaped_and_a_long_trace_shows_its_end():
    assert timeline_html(Agent(ScriptedProvider([])).trace, {}) == NOTHING
    page = timeline_html(asked(*(FunctionCall("<img src=x>", {}, f"c{number}") for number in range(80))), {})
    assert page.count('class="nbagent-trace-step"') == 100
    assert "the last 100 of 161 steps" in page
    assert "&lt;img src=x&gt;" in page
    assert "<img" not in page


def test_a_run_in_progress_has_no_time_yet():
    pages = []

    def look(step: int) -> None:
        """Look at the timeline."""
        pages.append(timeline_html(agent.trace, {}))

    turns = [FunctionCall("look", {"step": step}, f"c{step}") for step in range(2)]
    agent = Agent(ScriptedProvider([*turns, "done"], model="m"), tools=[look])
    agent.chat_sync("go")
    assert "<span>go</span><small></small>" in pages[1]
    assert re.findall("<span>([^<]+)</span>", pages[1]) == ["go", "m", "look(step=0)", "m", "seconds"]
