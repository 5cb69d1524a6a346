"""A plan as a live checklist, in the transcript that cells and panels show, and in the text of a saved notebook."""

import re

from support.hostile import PAYLOADS

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.agent.plan import Step
from nbagent.chat.checklist import checklist_html
from nbagent.chat.entry import past_turn
from nbagent.chat.recorded import Recorded
from nbagent.chat.transcript import Transcript
from nbagent.notebook.display.view import CellView


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


async def test_the_checklist_is_updated_in_place_and_a_failed_update_is_shown_as_a_call():
    displays: dict[int, dict[str, str]] = {}
    agent, transcript = agent_of_turns(), Transcript(timings=False)
    states = await shown(agent, CellView(transcript, displays.__setitem__))
    assert states == [FIRST, FIRST, REVISED, REVISED]
    assert displays[0]["text/plain"] == REVISED
    plain = transcript.plain()
    assert plain.count("Plan:") == 1
    assert "\n▸ update_plan(steps=" in plain
    assert "expected one step that is 'doing'" in plain
    assert 'class="nbagent-dropped"' in displays[0]["text/html"]
    assert transcript.html().count('<div class="nbagent-plan') == 1
    assert REVISED in past_turn(agent.conversation_history, Recorded(agent.trace)).text(), (
        "and so does a turn of the past"
    )


def test_hostile_steps_are_text():
    page = checklist_html([Step(payload.text, "doing", payload.text) for payload in PAYLOADS])
    inside = re.sub(r"</?(div|ul|li|span)( (class|role|aria-label)=\"[\w -]*\")*>", "", page)
    assert "<" not in inside
