"""Versions of prompts and several conversations in the panel, in sync with cells, on any kernel."""

import pytest
from support.panels import Panel, history, result

pytestmark = pytest.mark.kernel

ANSWER = "lambda m, f: 'after ' + '+'.join(each.text for each in m if each.role == 'user')"
FAILING = "RuntimeError('it broke') if m[-1].text == 'fail' else "


@pytest.fixture
def kernel(shared):
    return shared


def opened(kernel, *questions, answer=ANSWER):
    kernel.ok(f"agent = Agent(ScriptedProvider({answer}))")
    for index, question in enumerate(questions):
        kernel.ok(f"%%agent\n{question}", cell_id=f"cell{index}")
    panel = Panel(kernel)
    panel.until(lambda: panel.can("Retry"))
    return panel


def edit(panel, place, question):
    """Edit the prompt of the turn at this place, and send another text."""
    panel.edit(place)
    panel.until_text("Escape cancels")
    panel.ask(question)
    panel.until_text(question)
    panel.until(lambda: panel.can("Retry"))


def asked(kernel):
    return result(kernel, "'+'.join(m.text for m in agent.conversation_history if m.role == 'user')").strip("'")


def test_versions_of_an_earlier_question_are_switched_in_all_panels_and_cells_follow(kernel):
    panel = opened(kernel, "one", "two", "three")
    other = Panel(kernel)
    edit(panel, 1, "zwei")
    for each in (panel, other):
        each.until(lambda each=each: "2/2" in each.text and "three" not in each.text and "after one+zwei" in each.text)
    assert asked(kernel) == "one+zwei"
    kernel.ok("%%agent\ndrei")
    other.click("Previous version")
    for each in (panel, other):
        each.until(lambda each=each: "1/2" in each.text and "zwei" not in each.text and "three" in each.text)
    assert asked(kernel) == "one+two+three"
    kernel.ok("%%agent\nTWO", cell_id="cell1")  # a cell that runs again replaces its turn
    panel.until(lambda: "after one+TWO" in panel.text and "1/2" in panel.text and "three" in panel.text)
    assert asked(kernel) == "one+TWO+three"
    panel.click("Next version")
    panel.until_text("after one+zwei+drei")
    panel.ask("vier")
    panel.until_text("after one+zwei+drei+vier")
    branches = "agent.trace.runs.groupby('branch', sort=False)['prompt'].apply('+'.join).tolist()"
    assert result(kernel, branches) == "['one+two+three', 'zwei+drei+vier', 'TWO']"


def test_a_version_that_fails_leaves_the_conversation_as_it_was(kernel):
    panel = opened(kernel, "one", "two", answer=ANSWER.replace("'after", FAILING + "'after"))
    edit(panel, 0, "fail")
    panel.until_text("after one", "it broke", "after one+two")
    assert history(kernel).count("'user'") == 2
    assert not panel.can("Next version")
    edit(panel, 1, "uno")  # the prompt that failed
    panel.until(lambda: "2/2" in panel.text and "it broke" not in panel.text and "two" not in panel.text)
    panel.click("Previous version")
    panel.until_text("after one", "after one+two", "1/2")


def test_a_failed_turn_keeps_its_place_when_the_first_question_is_edited(kernel):
    panel = opened(kernel, "one", answer=ANSWER.replace("'after", FAILING + "'after"))
    panel.ask("fail")
    panel.until(lambda: "it broke" in panel.text and panel.can("Retry"))
    panel.ask("two")
    panel.until(lambda: "after one+two" in panel.text and panel.can("Retry"))
    edit(panel, 0, "uno")
    panel.until(lambda: "after uno" in panel.text and "it broke" not in panel.text)
    panel.click("Previous version")
    panel.until_text("after one+two", "it broke")
    assert panel.text.index("after one") < panel.text.index("it broke") < panel.text.index("after one+two")


def test_nothing_can_be_switched_during_a_run(kernel, tmp_path):
    panel = opened(kernel, "one")
    panel.click("Retry")
    panel.until_text("2/2")
    gate = tmp_path / "gate"
    kernel.ok(f"agent.provider = Gated('begun ', 'ended', {str(gate)!r})")
    panel.ask("two")
    panel.until_text("begun")
    panel.tell("edit", panel.state["order"][0])
    assert not panel.can("Previous version")
    assert not panel.can("New chat")
    assert kernel.run("%agent new").error == "AgentBusyError"
    assert kernel.run("%%agent --new\nthree").error == "AgentBusyError"
    gate.touch()
    panel.until_text("begun ended")
    panel.until(lambda: panel.can("Previous version"))
    assert panel.box == ""


def test_an_earlier_prompt_is_retried_and_continued_in_another_conversation(kernel):
    panel = opened(kernel, "one", "two", "three")
    panel.tell("retry", panel.state["order"][1])
    panel.until(lambda: "2/2" in panel.text and "three" not in panel.text and panel.can("Retry"))
    panel.click("Previous version")
    panel.until_text("after one+two+three")
    panel.tell("branch", panel.state["order"][1])
    panel.until(lambda: "three" not in panel.text and len(panel.state["conversations"]) == 2)
    assert panel.state["status"].startswith("This is another conversation")
    panel.ask("drei")
    panel.until_text("after one+two+drei")
    assert panel.state["status"] == ""
    panel.tell("conversation", panel.state["conversations"][1][0])
    panel.until_text("after one+two+three")
    panel.click("New chat")
    panel.until(lambda: "one" not in panel.text)
    kernel.ok("%%agent\nfour")
    panel.until(lambda: panel.state["conversations"][0][1] == "four · 1 prompt")
