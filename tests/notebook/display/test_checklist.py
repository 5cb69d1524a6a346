"""A plan as a live checklist, in the transcript that cells and panels show, and in the text of a saved notebook."""

import re

import pytest
from support.hostile import PAYLOADS
from support.panels import Panel

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core import events
from nbagent.notebook.display.checklist import checklist_html
from nbagent.notebook.display.tool_call import tool_call_html
from nbagent.notebook.display.transcript import Transcript
from nbagent.notebook.display.view import CellView, TerminalView
from nbagent.notebook.panel.entry import turn_text
from nbagent.plan import Step


def update(*steps) -> FunctionCall:
    return FunctionCall(
        "update_plan", {"steps": [dict(zip(("step", "status", "note"), s, strict=False)) for s in steps]}
    )


def load(path: str) -> str:
    """Load a table."""
    raise FileNotFoundError(path)


def agent_of_turns() -> Agent:
    turns = [
        update(("Load a.csv", "doing"), ("Plot it",)),
        FunctionCall("load", {"path": "a.csv"}),
        update(("Load a.csv", "dropped", "not there"), ("Make data", "doing"), ("Plot it",)),
        update(("Make data", "doing"), ("Plot it", "doing")),
        "Done so far.",
    ]
    return Agent(ScriptedProvider(turns), tools=[load], plan=True)


async def shown(agent, view) -> list[str]:
    """The checklist after each result."""
    states = []
    async for event in agent.chat_stream("Plot it."):
        view.feed(event)
        if event.type == "tool_result":
            states.append(view.transcript.plain().split("\n▸ ")[0])
    view.close()
    return states


FIRST = "Plan: 0 of 2 done\n  → Load a.csv\n  ○ Plot it"
REVISED = "Plan: 0 of 2 done, 1 dropped\n  ✗ Load a.csv (not there)\n  → Make data\n  ○ Plot it"


async def test_the_checklist_is_updated_in_its_place_and_a_failed_update_stands_for_itself():
    displays: dict[int, dict[str, str]] = {}
    agent, transcript = agent_of_turns(), Transcript(timings=False)
    states = await shown(agent, CellView(transcript, displays.__setitem__))
    assert states == [FIRST, FIRST, REVISED, REVISED]
    assert displays[0]["text/plain"] == REVISED
    plain = transcript.plain()
    assert plain.count("Plan:") == 1
    assert "\n▸ update_plan(steps=" in plain
    assert "exactly one step is 'doing'" in plain
    assert 'class="nbagent-dropped"' in displays[0]["text/html"]
    assert transcript.html().count('<div class="nbagent-plan') == 1


async def test_a_turn_of_the_past_shows_its_plan():
    agent = agent_of_turns()
    await agent.chat("Plot it.")
    assert REVISED in turn_text(agent.conversation_history)


async def test_a_terminal_prints_each_version(capsys):
    agent = agent_of_turns()
    await shown(agent, TerminalView(Transcript(timings=False)))
    printed = capsys.readouterr().out
    assert FIRST in printed
    assert REVISED in printed
    assert printed.count("update_plan(") == 0


def test_hostile_steps_are_text():
    page = checklist_html([Step(payload.text, "doing", payload.text) for payload in PAYLOADS])
    inside = re.sub(r"</?(div|ul|li|span)( (class|role|aria-label)=\"[\w -]*\")*>", "", page)
    assert "<" not in inside


@pytest.mark.kernel
def test_a_plan_in_a_cell_of_a_notebook(shared):
    shared.ok(
        """
def step(**given): return given
agent = Agent(ScriptedProvider([
    FunctionCall("update_plan", {"steps": [step(step="Count"), step(step="Tell")]}, "1"),
    FunctionCall("update_plan", {"steps": [step(step="Count", status="done"), step(step="Tell", status="done")]}, "2"),
    "Two.",
]), plan=True)
"""
    )
    cell = shared.ok("%%agent\nHow many?")
    assert "Plan: 2 of 2 done\n  ✓ Count\n  ✓ Tell" in cell.text
    assert "Two." in cell.text
    assert "['done', 'done']" in shared.ok("print(agent.plan['status'].tolist())").stdout


@pytest.mark.kernel
def test_a_plan_in_the_panel_waits_for_a_click(shared):
    shared.ok(
        """
def step(**given): return given
agent = Agent(ScriptedProvider([
    FunctionCall("update_plan", {"steps": [step(step="Count"), step(step="Tell")]}, "1"),
    FunctionCall("update_plan", {"steps": [step(step="Count", status="done"), step(step="Tell")]}, "2"),
    "Two so far.",
]), approve_plan=True)
"""
    )
    panel = Panel(shared)
    panel.ask("How many?")
    panel.until_text("Work by this plan?")
    panel.click("Approve")
    panel.until_text("Plan: 1 of 2 done", "Count", "Tell", "Two so far.")
    assert shared.ok("print(agent.trace.tool_calls['approval'].tolist())").stdout == "['approved', 'auto']\n"
    shared.ok("plan = agent.plan; plan.loc[2, 'status'] = 'dropped'; agent.plan = plan")
    assert shared.ok("print(agent.plan['status'].tolist())").stdout == "['done', 'dropped']\n"


def test_a_plan_that_waits_is_called_a_plan_unless_that_would_hide_something():
    def title(arguments, name="update_plan"):
        called = events.ToolCall("", name, arguments, {"tool_call_id": "1"})
        page = tool_call_html(called, None, edited=None, state="waiting", timings=False)
        return page.partition("<summary>")[2].partition("</summary>")[0]

    steps = [{"step": "Load"}, {"step": "Plot"}]
    assert ">Plan of 2 steps<" in title({"steps": steps})
    assert ">Plan of 1 step<" in title({"steps": steps[:1]})
    for name, odd in [("update_plan", {"steps": [*steps, {"step": "Send", "to": "all"}]}), ("plan", {"steps": steps})]:
        assert f"<code>{name}(steps=" in title(odd, name)
