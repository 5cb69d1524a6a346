"""Writing in the panel: earlier questions, leaving an edit, suggested questions."""

import pytest
from playwright.sync_api import expect
from support.axe import serious
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


FOLLOW_UPS = """
lines = "By island?\\n<img src=x onerror=hit(1)> And by sex, for all of the years that were looked at?\\nPlot it"
def say(messages, functions):
    return lines if messages[0].text.startswith("You are given the end") else "Gentoo."
agent = Agent(ScriptedProvider(say))
ChatPanel(agent, followups=True)"""


def test_suggested_questions_are_put_into_the_box_by_keyboard_and_not_saved(lab):
    page, panel = opened(lab, "followups.ipynb", FOLLOW_UPS, "JupyterLab Dark")
    page.evaluate("() => { window.hits = []; window.hit = number => hits.push(number) }")
    asks(panel, "Which species is heaviest?", "Gentoo.")
    offered = panel.get_by_role("group", name="Suggested questions").get_by_role("button")
    expect(offered).to_have_count(3)
    expect(offered.nth(1)).to_contain_text("<img src=x onerror=hit(1)> And by sex")
    assert serious(page, ".nbagent-panel") == []
    page.keyboard.press("Shift+Tab")
    expect(offered.last).to_be_focused()
    page.keyboard.press("Enter")
    box = panel.get_by_label("Your question")
    expect(box).to_have_value("Plot it")
    expect(box).to_be_focused()
    expect(panel.locator(".nbagent-you")).to_have_count(1)
    page.wait_for_function(SAVED, arg="Gentoo.")
    assert not page.evaluate(SAVED, "By island?")
    page.keyboard.type(" now")
    expect(offered).to_have_count(0)
    assert page.evaluate("hits") == []
