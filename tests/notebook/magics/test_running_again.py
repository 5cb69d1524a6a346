"""A cell that runs again replaces its turn, wherever that is in the conversation."""

import pytest
from support.panels import Panel

pytestmark = pytest.mark.kernel

#: An agent that tells how it was asked: `A3 after 1 2` is the third answer, to a question that follows the first two.
HELPERS = """
def tell(messages, functions):
    said = [m.text.split()[0] for m in messages if m.role == 'user']
    return f"A{said[-1]} after {' '.join(said[:-1])}".rstrip()

def new_agent(**options):
    return Agent(ScriptedProvider(tell, model='m'), **options)
"""
HISTORY = "[m.text for m in agent.conversation_history]"


@pytest.fixture
def kernel(shared):
    shared.ok("agent = new_agent()")
    return shared


def ask(kernel, number, question="", options=""):
    return kernel.ok(f"%%agent {options}\n{number} {question}", cell_id=f"cell-{number}")


def run_all(kernel):
    for number in range(1, 6):
        cell = ask(kernel, number)
        assert "later turn" not in cell.text
    return kernel.value(HISTORY)


def test_cells_that_run_again_in_any_order_give_the_same_conversation_as_once(kernel):
    once = run_all(kernel)
    assert once[-2:] == ["5", "A5 after 1 2 3 4"]
    assert run_all(kernel) == once
    for number in (4, 2, 5, 1, 3):
        before = " ".join(map(str, range(1, number)))
        assert f"A{number} after {before}".rstrip() in ask(kernel, number).text
        assert kernel.value(HISTORY) == once
    assert kernel.value("len(agent.trace.runs)") == 15


def test_the_cell_says_if_later_turns_follow_another_question(kernel):
    run_all(kernel)
    assert " · 3 later turns follow the old question: run their cells again]" in ask(kernel, 2, "edited").text
    assert kernel.value(HISTORY)[2:6] == ["2 edited", "A2 after 1", "3", "A3 after 1 2"]
    assert "later turn" not in ask(kernel, 2, "edited").text
    assert "1 later turn follows" in ask(kernel, 4, "edited").text
    assert "later turn" not in ask(kernel, 5, "edited").text


def test_keep_appends_and_new_begins_again(kernel):
    run_all(kernel)
    ask(kernel, 2, options="--keep")
    assert kernel.value(HISTORY)[::2] == ["1", "2", "3", "4", "5", "2"]
    ask(kernel, 2, "edited")
    assert kernel.value(HISTORY)[::2] == ["1", "2", "3", "4", "5", "2 edited"]
    ask(kernel, 3, options="--new")
    assert kernel.value(HISTORY)[::2] == ["3"]


def test_questions_of_panels_and_code_stay_where_they_are(kernel):
    panel = Panel(kernel)
    ask(kernel, 1)
    panel.ask("2 from the panel")
    panel.until_text("A2 after 1")
    kernel.ok("_ = await agent.chat('3 from code')")
    ask(kernel, 4)
    ask(kernel, 1, "edited")
    assert kernel.value(HISTORY)[::2] == ["1 edited", "2 from the panel", "3 from code", "4"]
    panel.until(lambda: "1 edited" in panel.text and panel.text.count("A1") == 1)
    texts = [panel.text.index(text) for text in ("1 edited", "2 from the panel", "3 from code", "A4 after 1 2 3")]
    assert texts == sorted(texts)


def test_an_interrupted_cell_keeps_its_place(kernel, tmp_path):
    ask(kernel, 1)
    ask(kernel, 2)
    kernel.ok("agent.provider = Gated('begun ', 'never')")
    cell = kernel.send("%%agent\n1 again", cell_id="cell-1")
    kernel.until(cell, lambda: "begun" in cell.text)
    kernel.interrupt()
    assert kernel.wait(cell).status == "error"
    assert kernel.value(HISTORY) == ["1 again", "begun ", "2", "A2 after 1"]
