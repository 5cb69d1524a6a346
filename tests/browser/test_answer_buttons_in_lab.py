"""Thumbs below answers in real JupyterLab: clicks, keys, names and states for screen readers, reload and restart."""

import nbformat
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = """%load_ext nbagent
from nbagent import Agent, ChatPanel, ScriptedProvider
agent = Agent(ScriptedProvider(lambda messages, functions: "**Gentoo** penguins are heaviest.", model="m"))"""
CELLS = [SETUP, "%%agent\nWhich species is heaviest?", "ChatPanel(agent, height='200px')"]


def test_a_click_in_the_cell_shows_in_the_panel_and_the_other_way_round(lab):
    page = lab.run("thumbs.ipynb", CELLS)
    cell, panel = page.locator(".jp-Cell").nth(1), page.locator(".nbagent-panel")
    good, bad = (cell.get_by_role("button", name=f"{name} answer") for name in ("Good", "Bad"))
    in_panel = panel.get_by_role("button", name="Good answer")
    for button in (good, bad, in_panel):
        expect(button).to_have_attribute("aria-pressed", "false")
    good.click()
    for button in (good, in_panel):
        expect(button).to_have_attribute("aria-pressed", "true")
    in_panel.click()
    expect(good).to_have_attribute("aria-pressed", "false")
    good.focus()
    page.keyboard.press("Tab")
    expect(bad).to_be_focused()
    page.keyboard.press("Enter")  # this must not edit the cell
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(bad).to_be_focused()
    made = lab.run_new_cell(page, "print('scores:', agent.trace.scores['value'].tolist())")
    expect(made.locator(".jp-OutputArea-output")).to_have_text("scores: [0.0]")


def test_the_state_survives_a_reload_and_the_thumbs_leave_with_the_kernel(lab):
    page = lab.run("thumbs-again.ipynb", CELLS, fresh=True)
    cell = page.locator(".jp-Cell").nth(1)
    cell.get_by_role("button", name="Bad answer").click()
    expect(cell.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    page.reload()
    lab.wait_for_kernel(page)
    expect(cell.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")
    saved = nbformat.read(lab.folder / "thumbs-again.ipynb", as_version=4).cells[1].outputs
    assert [set(output.data) for output in saved] == [{"text/html", "text/plain"}]
    assert "<button" not in saved[0].data["text/html"]
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(page.locator(".nbagent-thumbs")).to_have_count(0)
    expect(cell.locator(".nbagent-foot")).to_be_visible()
