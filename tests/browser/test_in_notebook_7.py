"""Notebook 7 from approval to branches, where no other test looks: `test_docked.py`, `test_code_buttons.py`,
`test_draft_in_lab.py` and `test_cell.py` run there, too."""

import pytest
from playwright.sync_api import expect
from support.axe import serious
from support.lab import LIGHT, LOAD, ask, fits, throttle

pytestmark = pytest.mark.browser

SETUP = f"""{LOAD}
from nbagent import Agent, ChatPanel, FunctionCall, ScriptedProvider, tool
wiped = []
@tool(approve=True)
def wipe(table: str, rows: int = 1) -> str:
    '''Delete rows.'''
    wiped.append((table, rows))
    return f"{{rows}} rows of {{table}} are gone."
def answer(messages, tools):
    asked = [message.text for message in messages if message.role == "user"]
    if "wipe" in asked[-1] and messages[-1].role == "user":
        return FunctionCall("wipe", {{"table": "cities", "rows": 3}}, f"call{{len(messages)}}")
    return f"Answer {{len(asked)}} to {{asked[-1]!r}}."
agent = Agent(ScriptedProvider(answer, model="claude-sonnet-5"), tools=[wipe])"""
CELLS = [SETUP, "%%agent\nwipe it", "ChatPanel(agent)"]


def answered(panel, text):
    expect(panel.locator(".nbagent-entry").last).to_contain_text(text)
    expect(panel.locator(".nbagent-busy")).to_have_count(0)


def test_approval_model_picker_and_branches(lab):
    page = lab.open_in("Notebook 7", "walk.ipynb", CELLS)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.set_viewport_size({"width": 800, "height": 900})
    throttle(page)
    lab.run_cell(page, 0)
    cell = lab.run_cell(page, 1)
    cell.get_by_role("button", name="Edit", exact=True).click()
    cell.get_by_role("textbox", name="Arguments, as JSON").fill('{"table": "cities", "rows": 2}')
    cell.get_by_role("button", name="Approve", exact=True).click()
    expect(cell).to_contain_text('approved as edited: wipe(table="cities", rows=2)')
    expect(cell).to_contain_text("Answer 1 to 'wipe it'.")

    lab.run_cell(page, 2)
    panel = page.get_by_role("region", name="Chat with an agent")
    panel.get_by_placeholder("Ask anything").wait_for()
    ask(panel, "wipe more")
    panel.get_by_role("alert").get_by_text("wipe").wait_for()
    panel.get_by_role("textbox", name="Reason").fill("too much")
    panel.get_by_role("button", name="Deny", exact=True).press("Enter")
    answered(panel, "Answer 2 to 'wipe more'.")
    expect(panel.get_by_role("log")).to_contain_text("denied")
    ask(panel, "three")
    answered(panel, "Answer 3 to 'three'.")

    panel.get_by_role("button", name="Edit", exact=True).nth(1).click()
    expect(panel.get_by_label("Your prompt")).to_have_value("wipe more")
    ask(panel, "two")
    answered(panel, "Answer 2 to 'two'.")
    expect(panel.locator(".nbagent-you")).to_have_text(["wipe it", "two"])
    panel.get_by_role("button", name="Previous version").press("Enter")
    expect(panel.locator(".nbagent-you")).to_have_text(["wipe it", "wipe more", "three"])
    expect(panel.get_by_role("button", name="Next version")).to_be_focused()
    panel.get_by_role("group", name="This answer").last.get_by_role("button", name="Copy").click()
    expect(panel.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "Answer 3 to 'three'."

    panel.get_by_role("button", name="Model: claude-sonnet-5").click()
    expect(panel.get_by_label("Search models")).to_be_focused()
    page.keyboard.type("local")
    page.keyboard.press("Enter")
    expect(panel.get_by_role("button", name="Model: SmolLM2")).to_be_visible()
    for width, theme in ((1440, LIGHT), (800, "JupyterLab Dark"), (390, "JupyterLab Dark")):
        page.set_viewport_size({"width": width, "height": 900})
        lab.theme(page, theme)
        assert fits(panel)
        assert serious(page, ".nbagent-panel") == []
    lab.close_others()


def test_a_page_that_loads_its_widgets_slowly_shows_the_buttons(lab):
    """As on Binder: the widgets' scripts arrive seconds after the form, and then run slowly."""
    late = []

    def load(route):
        late.append(route)
        page.wait_for_timeout(4_000)
        route.continue_()

    page = lab.open("slow.ipynb", CELLS, prepare=lambda page: None)
    lab.run_cell(page, 0)
    page.route("**/@jupyter-widgets/**", load)
    throttle(page)
    cell = lab.run_cell(page, 1)
    cell.get_by_role("button", name="Approve", exact=True).click()
    assert late
    expect(cell).to_contain_text("3 rows of cities are gone.")
