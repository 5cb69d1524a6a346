"""A notebook in Voila. Pages from nbconvert: `test_cell.py` and `test_kept_in_lab.py`."""

import pytest
from playwright.sync_api import expect
from support.axe import serious
from support.lab import LOAD, fits, throttle

pytestmark = pytest.mark.browser

SETUP = (
    LOAD
    + """from nbagent import Agent, ChatPanel, FunctionCall, ScriptedProvider, live, tool
ran = []
@tool(approve=True)
def wipe(table: str) -> str:
    ran.append(table)
    return "gone"
def made(answer="**Gentoo** are heaviest. See https://example.org/a. "):
    turns = [FunctionCall("wipe", {"table": "cities"}, "a"), answer * 20, "slow " * 5000]
    return Agent(ScriptedProvider(turns, delay=0.02), tools=live)
agent, other = made(), made("```\\nx = 1\\n```\\n")"""
)
ASKS = "() => document.querySelector('.nbagent-panel').innerText.includes('asks to run')"
ANSWERED = "() => document.querySelectorAll('.nbagent-panel .nbagent-foot').length == 1"


def asks_in_panel(page):
    """A prompt in the panel, whose tool is approved there."""
    box = page.locator(".nbagent-row textarea").first
    box.wait_for()
    box.press_sequentially("wipe it", delay=20)
    box.press("Enter")
    page.wait_for_function(ASKS)
    page.locator(".nbagent-panel button", has_text="Approve").first.press("Enter")
    page.wait_for_function(ANSWERED)


@pytest.mark.parametrize(("theme", "widths"), [("light", (1440, 800, 390)), ("dark", (800,))])
def test_voila(lab, theme, widths):
    lab.write("app.ipynb", [SETUP, "%%agent\nwipe it", "ChatPanel(other)"])
    page = lab.visit("voila/render/app.ipynb", theme=theme)
    throttle(page)
    asks_in_panel(page)
    buttons = page.locator(".nbagent-panel").get_by_role("group", name="This code").first
    expect(buttons.get_by_role("button")).to_have_text(["Copy"])  # there are no cells to insert code into
    page.locator(".nbagent-row textarea").first.fill("go on")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.body.innerText.includes('slow slow')")
    page.locator(".nbagent-panel button", has_text="Stop").press("Enter")
    page.wait_for_function("() => document.body.innerText.includes('Interrupted.')")
    cell = page.locator(".nbagent").first.inner_text()
    assert "denied" in cell, "nobody can answer a cell there"
    assert "Gentoo are heaviest." in cell
    panel = page.locator(".nbagent-panel")
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        assert fits(panel)
        assert serious(page, ".nbagent-panel") == []
    assert serious(page, ".nbagent") == [], "in the cell"
    lab.close_others()
