"""Earlier questions asked differently, and several conversations, in real JupyterLab."""

import pytest
from playwright.sync_api import expect
from support.lab import LOAD

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
TRAP = "<img src=x onerror=document.title='hit'> Which\u202e species?"


def opened(lab, name, theme="JupyterLab Light"):
    page = lab.run(name, [SETUP], theme)
    page.get_by_placeholder("Shift-Enter").wait_for()
    return page, page.get_by_role("region", name="Chat with an agent")


def ask(panel, text):
    box = panel.get_by_label("Your question")
    box.fill(text)
    box.press("Enter")
    last = panel.locator(".nbagent-entry").last
    expect(last.locator(".nbagent-you")).to_have_text(visible(text))
    last.locator(".nbagent-foot").wait_for()
    expect(panel.locator(".nbagent-busy")).to_have_count(0)


def visible(text):
    return text.replace("\u202e", "⟨U+202E⟩")


def shown(panel, *questions):
    expect(panel.locator(".nbagent-you")).to_have_text(list(questions))


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_an_earlier_question_is_edited_and_its_versions_are_switched(lab, picture, theme):
    name = theme.split()[-1].lower()
    page, panel = opened(lab, f"branches-{name}.ipynb", theme)
    box = panel.get_by_label("Your question")
    for question in ("one", "two", "three"):
        ask(panel, question)
    pencil = panel.get_by_role("button", name="Edit this question")
    expect(pencil).to_have_count(3)
    panel.get_by_text("two", exact=True).hover()
    picture(panel, f"pencil-{name}")
    pencil.nth(1).click()
    expect(box).to_have_value("two")
    expect(box).to_be_focused()
    expect(panel.get_by_role("status")).to_contain_text("Editing an earlier question")
    picture(panel, f"editing-{name}")
    box.press("Escape")
    expect(box).to_have_value("")
    shown(panel, "one", "two", "three")
    pencil.nth(1).press("Enter")
    expect(box).to_be_focused()
    ask(panel, "zwei")
    shown(panel, "one", "zwei")
    ask(panel, "drei")
    picture(panel, f"versions-{name}")
    panel.get_by_role("button", name="Previous version").press("Enter")
    shown(panel, "one", "two", "three")
    expect(panel.get_by_text("Answer 3 to 'three', after ['one', 'two'].")).to_be_visible()
    expect(panel.get_by_role("status")).to_have_text("Version 1 of 2")
    expect(panel.get_by_role("button", name="Previous version")).to_be_disabled()
    expect(panel.get_by_role("button", name="Next version")).to_be_focused()
    page.keyboard.press("Enter")
    shown(panel, "one", "zwei", "drei")
    ask(panel, "vier")
    expect(panel.get_by_role("status")).to_have_text("Answer 4 to 'vier', after ['one', 'zwei', 'drei'].")


def test_a_new_chat_begins_and_the_other_one_goes_on(lab, picture):
    page, panel = opened(lab, "chats.ipynb")
    begin, box = panel.get_by_role("button", name="New chat"), panel.get_by_label("Your question")
    expect(begin).to_be_disabled()
    ask(panel, TRAP)
    begin.click()
    expect(panel.locator(".nbagent-you")).to_have_count(0)
    expect(box).to_be_focused()
    ask(panel, "another")
    conversations = panel.get_by_role("combobox", name="Conversations")
    expect(conversations.locator("option")).to_have_text(["another · 1 question", visible(TRAP) + " · 1 question"])
    picture(panel, "conversations")
    page.set_viewport_size({"width": 800, "height": 1000})
    assert panel.locator(".nbagent-top").bounding_box()["height"] < 80, "two rows"
    picture(page, "conversations-800")
    page.set_viewport_size({"width": 1280, "height": 1200})
    conversations.select_option(index=1)
    expect(panel.locator(".nbagent-you")).to_have_count(1)
    ask(panel, "and more")
    expect(panel.get_by_role("status")).to_contain_text("Answer 2 to 'and more'")
    assert "hit" not in page.title()
