"""Earlier questions asked differently, and several conversations, in real JupyterLab."""

import pytest
from playwright.sync_api import expect
from support.lab import LOAD, ask

pytestmark = pytest.mark.browser

SETUP = (
    LOAD
    + """from nbagent import Agent, ChatPanel, ScriptedProvider
def answer(messages, functions):
    asked = [message.text for message in messages if message.role == "user"]
    return f"**Answer {len(asked)}** to {asked[-1]!r}, after {asked[:-1]}."
agent = Agent(ScriptedProvider(answer, model="claude-sonnet-5"))
ChatPanel(agent)"""
)


def opened(lab, name):
    page = lab.run(name, [SETUP])
    page.get_by_placeholder("Shift-Enter").wait_for()
    return page, page.get_by_role("region", name="Chat with an agent")


def answered(panel, text):
    ask(panel, text)
    last = panel.locator(".nbagent-entry").last
    expect(last.locator(".nbagent-you")).to_have_text(text)
    last.locator(".nbagent-foot").wait_for()
    expect(panel.locator(".nbagent-busy")).to_have_count(0)


def shown(panel, *questions):
    expect(panel.locator(".nbagent-you")).to_have_text(list(questions))


def test_an_earlier_question_is_edited_and_its_versions_are_switched(lab):
    page, panel = opened(lab, "branches.ipynb")
    box = panel.get_by_label("Your question")
    for question in ("one", "two", "three"):
        answered(panel, question)
    pencil = panel.get_by_role("button", name="Edit this question")
    expect(pencil).to_have_count(3)
    pencil.nth(1).click()
    expect(box).to_have_value("two")
    expect(box).to_be_focused()
    expect(panel.get_by_role("status")).to_contain_text("Editing an earlier question")
    box.press("Escape")
    expect(box).to_have_value("")
    shown(panel, "one", "two", "three")
    pencil.nth(1).press("Enter")
    expect(box).to_be_focused()
    answered(panel, "zwei")
    shown(panel, "one", "zwei")
    answered(panel, "drei")
    panel.get_by_role("button", name="Previous version").press("Enter")
    shown(panel, "one", "two", "three")
    expect(panel.get_by_text("Answer 3 to 'three', after ['one', 'two'].")).to_be_visible()
    expect(panel.get_by_role("status")).to_have_text("Version 1 of 2")
    expect(panel.get_by_role("button", name="Previous version")).to_be_disabled()
    expect(panel.get_by_role("button", name="Next version")).to_be_focused()
    page.keyboard.press("Enter")
    shown(panel, "one", "zwei", "drei")
    answered(panel, "vier")
    expect(panel.get_by_role("status")).to_have_text("Answer 4 to 'vier', after ['one', 'zwei', 'drei'].")
