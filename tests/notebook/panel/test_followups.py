"""Suggested follow-ups: asked only when switched on, in the background, counted, and dropped when they are too late."""

import pytest
from support.hostile import PAYLOADS
from support.panels import Panel, result

from nbagent.notebook.panel.followups import MAX_CHARS, suggested

pytestmark = pytest.mark.kernel

HELPERS = """
from nbagent import Usage
suggests = 'By island?\\n- **And** by sex?\\n3. Plot it\\nToo many'
held = asyncio.Event()
held.set()
async def say(messages, functions):
    if not messages[0].text.startswith('You are given the end'):
        return 'Gentoo.'
    await held.wait()
    if isinstance(suggests, Exception):
        raise suggests
    return LLMResponse(suggests, None, 'stop', {'usage': Usage(40, 10)})
from nbagent import LLMResponse
def made():
    return Agent(ScriptedProvider(say, price={'input': 1.0, 'output': 1.0}))
"""
SHOWN = ["By island?", "And by sex?", "Plot it"]


@pytest.fixture
def kernel(shared):
    return shared


def opened(kernel, on=True):
    kernel.ok("agent = made(); held.set()")
    return Panel(kernel, f"nbagent.ChatPanel(agent, followups={on})")


def offered(panel):
    box = panel.with_class("nbagent-followups")
    states = panel.states()
    return [states[child.removeprefix("IPY_MODEL_")]["description"] for child in states[box]["children"]] if box else []


def sources(kernel):
    return kernel.value("list(agent.trace.runs['source'])")


def test_nothing_is_asked_unless_it_is_switched_on_and_what_is_asked_costs(kernel):
    panel = opened(kernel, on=False)
    panel.ask("heaviest?")
    panel.usable(description="Retry")
    kernel.ok("%%agent\nin a cell")
    assert kernel.ok("%agent followups on").stdout.startswith("After each answer in a panel")
    kernel.ok("%%agent\nin another cell")
    panel.type("and?")  # sent by the script: that the box is empty now may arrive after the answer
    kernel.tell(panel.find(dock=""), method="custom", content={"ask": "and?", "number": 1})
    panel.until(lambda: offered(panel) == SHOWN)
    panel.until(lambda: "$0.0001" in panel.text)  # the meter counts it
    kernel.ok("%agent followups off")
    panel.until(lambda: not offered(panel))
    panel.ask("last")
    panel.until(lambda: panel.text.count("Gentoo.") == 5)
    panel.usable(description="Retry")
    assert sources(kernel) == ["panel", "magic", "magic", "panel", "followups", "panel"]
    assert kernel.value("[m.text for m in agent.conversation_history][-2:]") == ["last", "Gentoo."]


@pytest.mark.parametrize("how", ["type", "ask", "cell"])
def test_they_are_dropped_when_the_person_goes_on(kernel, how):
    panel = opened(kernel)
    kernel.ok("held.clear()")
    panel.ask("heaviest?")
    panel.until(lambda: sources(kernel) == ["panel", "followups"])
    goes_on = {"type": panel.type, "ask": panel.ask, "cell": lambda text: kernel.ok(f"%%agent\n{text}")}
    goes_on[how]("No, ")
    kernel.ok("while agent.trace.runs['status'].iloc[1] == 'running': await asyncio.sleep(0.01)")
    assert kernel.value("agent.trace.runs['status'].iloc[1]") == "interrupted"
    assert offered(panel) == []


def test_a_failure_is_no_trouble(kernel):
    panel = opened(kernel)
    kernel.ok("suggests, before = RuntimeError('no luck'), suggests")
    panel.ask("one")
    panel.until(lambda: sources(kernel) == ["panel", "followups"])
    assert result(kernel, "agent.trace.runs['status'].tolist()") == "['ok', 'error']"
    assert "no luck" not in panel.text
    kernel.ok("suggests = before")


def test_marks_of_lists_and_emphasis_are_left_out_and_hidden_characters_shown():
    assert suggested("Here:\n\n1. **One?**\n2) `two`\n* three\n• four") == ["Here:", "One?", "two"]
    found = [text for payload in PAYLOADS for text in suggested(payload.text)]
    assert [text for text in found if not text.isprintable() or not 0 < len(text) <= MAX_CHARS + 20] == []
