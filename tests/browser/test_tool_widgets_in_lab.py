"""In the panel in real JupyterLab: a tool's progress, and a widget that it displays, instead of its text."""

import re

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN, ask

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


def test_a_slider_of_a_tool_can_be_moved_in_the_panel(lab):
    page = lab.run("slider.ipynb", [SETUP, "ChatPanel(agent)"])
    panel = page.locator(".nbagent-panel")
    ask(panel, "How many bins?")
    expect(panel).to_contain_text("Move the slider.")
    handle = panel.get_by_role("slider")
    expect(handle).to_be_visible()
    expect(panel.get_by_text("IntSlider(")).to_be_hidden()
    expect(panel.get_by_text("Bins", exact=True)).to_have_css("clip-path", "none")
    handle.focus()
    page.keyboard.press("ArrowRight")
    expect(panel.locator(".widget-readout")).to_have_text("8")


PROGRESS = (
    BEGIN
    + """
import asyncio, os
from nbagent import ChatPanel, RunContext
async def reaches(name):
    while not os.path.exists(f"{gates}/{name}"): await asyncio.sleep(0.01)
@tool(timeout=600)
async def study(pages: int, run: RunContext) -> str:
    "Study."
    run.report(0.25)
    await reaches("words")
    run.report("page 6 of 8, $x$ <b>bold</b>" + ", and what it cites" * 9)
    await reaches("end")
    return "studied"
call = FunctionCall("study", {"pages": 8}, "s")
agent = Agent(ScriptedProvider([call, "Gentoo is heavy."], model="claude-sonnet-5"), tools=[study])
ChatPanel(agent)
"""
)


def test_how_far_a_tool_is_in_panels(lab, tmp_path):
    page = lab.open("progress.ipynb", [f"gates = {str(tmp_path)!r}\n{PROGRESS}", "ChatPanel(agent)"])
    lab.command(page, "notebook:run-cell-and-select-next")
    panels = page.locator(".nbagent-panel")
    ask(panels, "How heavy is a Gentoo?")
    call = panels.locator("details")
    expect(call.locator("progress")).to_have_js_property("value", 0.25)
    expect(call.locator(".nbagent-time")).to_have_text(re.compile(r"^[2-9] s$"))  # the page counts; nothing is sent
    lab.run_cell(page, 1)
    expect(call).to_contain_text([re.compile(r"25 %….*\d s")] * 2)
    (tmp_path / "words").touch()
    expect(call).to_contain_text(["page 6 of 8, $x$ <b>bold</b>, and"] * 2)
    expect(call.locator("progress")).to_have_count(0)
    (tmp_path / "end").touch()
    expect(panels).to_contain_text(["Gentoo is heavy."] * 2)
    expect(panels.get_by_text("page 6 of 8")).to_have_count(0)
