"""A plan in the panel of real JupyterLab: the person approves it, or refuses, and changes it while the model works."""

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + """
from nbagent import ChatPanel, Planner
def update(id, *steps):
    keys = ("step", "status", "note")
    return FunctionCall("update_plan", {"steps": [dict(zip(keys, step)) for step in steps]}, id)
load, plot, mail = ("Load the data",), ("Plot it",), ("Send it to everyone",)
mean = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "m")
agent = Planner(ScriptedProvider([
    update("1", load, plot, mail), "Then I stop here.",
    update("2", load, plot), mean, update("3", (*load, "done", "342 rows"), plot), "The data is there.",
    update("4", (*load, "done", "342 rows"), (*plot, "dropped", "no screen"), ("Describe it", "done")), "Described.",
], model="claude-sonnet-5"), tools=[mean_by], approve_plan=True)
ChatPanel(agent)"""
)
EDIT = """plan = agent.plan
plan.loc[2, "note"] = "in colours"
agent.plan = plan
agent.plan"""
SEEN = """%%agent --dry-run
Go on."""


def test_the_plan_waits_for_a_person_who_can_change_it(lab, picture):
    page = lab.open("plan.ipynb", [SETUP, EDIT, SEEN])
    lab.command(page, "notebook:run-cell-and-select-next")
    panel = page.locator(".nbagent-panel").first
    box = panel.locator(".nbagent-input textarea")

    def asks(text):
        box.fill(text)
        box.press("Enter")

    asks("Plot the data and send it to everyone.")
    panel.get_by_role("button", name="Deny", exact=True).wait_for()
    asked = panel.locator(".nbagent-ask")
    expect(asked).to_contain_text("Work by this plan?")
    expect(asked.locator(".nbagent-plan")).to_contain_text("Send it to everyone")
    picture(panel, "plan-asks")
    panel.get_by_role("button", name="Deny", exact=True).click()
    expect(panel).to_contain_text("Then I stop here.")
    expect(panel.locator(".nbagent-plan")).to_have_count(0)
    picture(panel, "plan-denied")
    asks("Then only plot it.")
    panel.get_by_role("button", name="Approve", exact=True).click()
    expect(panel).to_contain_text("The data is there.")
    expect(panel.locator(".nbagent-plan").last).to_contain_text("Plan: 1 of 2 done")
    picture(panel, "plan-approved")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1")  # not that of the panel
    lab.command(page, "notebook:run-all-below")
    seen = page.locator(".jp-Cell").nth(2).locator("details", has_text="The user has changed the plan.")
    seen.locator("summary").click()
    expect(seen).to_contain_text("note: in colours")
    page.locator(".jp-Cell").nth(2).scroll_into_view_if_needed()
    picture(page, "plan-edited")
    asks("Go on.")
    panel.get_by_role("button", name="Approve", exact=True).click()
    expect(panel.locator(".nbagent-plan").last).to_contain_text("Plan: 2 of 2 done, 1 dropped")
    picture(panel, "plan-changed")
