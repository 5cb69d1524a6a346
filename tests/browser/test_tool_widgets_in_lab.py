"""A widget that a tool displays works inside the panel, in the place of its text."""

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + '''import ipywidgets
from nbagent import ChatPanel
slider = ipywidgets.IntSlider(7, description="Bins")
@tool
def choose() -> str:
    """Show a slider."""
    print("Choose the bins:")
    display(slider)
    return "shown"
agent = Agent(ScriptedProvider([FunctionCall("choose", {}, "1"), "Move the slider.", "Yes."]), tools=[choose])
'''
)


def test_a_slider_of_a_tool_can_be_moved_in_the_panel(lab, picture):
    page = lab.run("slider.ipynb", [SETUP, "ChatPanel(agent)"])
    panel = page.locator(".nbagent-panel")
    box = panel.get_by_label("Your question")
    box.fill("How many bins?")
    box.press("Enter")
    expect(panel).to_contain_text("Move the slider.")
    handle = panel.get_by_role("slider")
    expect(handle).to_be_visible()
    expect(panel.get_by_text("IntSlider(")).to_be_hidden()
    expect(panel.get_by_text("Bins", exact=True)).to_have_css("clip-path", "none")
    handle.focus()
    page.keyboard.press("ArrowRight")
    expect(panel.locator(".widget-readout")).to_have_text("8")
    picture(panel, "tool-widget")
