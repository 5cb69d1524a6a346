"""Writing in the panel: earlier questions, leaving an edit, suggested questions."""

import pytest
from playwright.sync_api import expect
from support.lab import ask

pytestmark = pytest.mark.browser

SETUP = """%load_ext nbagent
from nbagent import Agent, ChatPanel, ScriptedProvider
"""
#: Whether the notebook would be saved with this text in the panel's output.
SAVED = """text => {
    const cells = window.jupyterapp.shell.currentWidget.context.model.toJSON().cells;
    return JSON.stringify(cells.at(-1).outputs).includes(text);
}"""


def opened(lab, name, code, theme="JupyterLab Light"):
    page = lab.run(name, [SETUP, code], theme)
    page.get_by_placeholder("Shift-Enter").first.wait_for()
    return page, page.get_by_role("region", name="Chat with an agent")


def asks(panel, text, answered):
    ask(panel, text)
    panel.get_by_role("log").get_by_text(answered).first.wait_for()


def test_up_recalls_earlier_questions_and_escape_leaves_an_edit(lab):
    code = "agent = Agent(ScriptedProvider(['first', 'second']))\nChatPanel(agent)"
    _, panel = opened(lab, "recall.ipynb", code)
    box = panel.get_by_label("Your question")
    box.press("ArrowUp")
    expect(box).to_have_value("")
    asks(panel, "one\ntwo <b>", "first")
    asks(panel, "three", "second")
    for key, value in (("ArrowUp", "three"), ("ArrowUp", "one\ntwo <b>")):
        box.press(key)
        expect(box).to_have_value(value)
    box.press("ArrowUp")  # moves to its first line
    assert box.evaluate("box => box.selectionStart") < len("one\n")
    for key, value in (("Control+End", "one\ntwo <b>"), ("ArrowDown", "three"), ("ArrowDown", "")):
        box.press(key)
        expect(box).to_have_value(value)
    box.fill("typed")
    expect(panel.locator(".nbagent-draft")).to_contain_text("tokens")  # the kernel knows the text
    box.press("ArrowUp")
    expect(box).to_have_value("typed")
    panel.get_by_role("button", name="Edit", exact=True).press("Enter")
    expect(box).to_have_value("three")
    expect(panel.get_by_role("status")).to_contain_text("Escape leaves it as it was")
    box.press("Escape")
    expect(box).to_have_value("")
    expect(panel.get_by_role("button", name="Edit", exact=True)).to_have_text("Edit")
    assert panel.locator(".nbagent-you").all_inner_texts() == ["one\ntwo <b>", "three"]
