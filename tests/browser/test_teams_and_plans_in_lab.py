"""A plan in real JupyterLab: a person approves it, and what changes later; or denies it."""

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN, GATED

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + GATED
    + """
def says(*turns, provider=ScriptedProvider, **options):
    return Agent(provider(turns, model="claude-sonnet-5"), **options)
mass = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "m")
def update(id, *statuses):
    steps = [dict(step=step, status=status) for step, status in zip(["Load the data", "Plot it", "Mail it"], statuses)]
    return FunctionCall("update_plan", {"steps": steps}, id)
"""
)
#: The person approves this plan, and another step later; the second plan is denied.
APPROVED = """agent = says(
    update("1", "pending", "pending"), mass, update("2", "done", "doing", "pending"),
    update("3", "done", "done", "done"), "Here is the **plot**.",
    provider=Gated, tools=[mean_by], plan=True, approve_plan=True)"""
DENIED = "agent = says(update('4', 'pending', 'pending', 'pending'), 'Then I stop here.', approve_plan=True)"


def test_a_plan_in_a_cell_waits_for_a_person(lab, tmp_path):
    setup = f"gate = {str(tmp_path / 'gate')!r}\n{SETUP}{APPROVED}"
    page = lab.run("plan.ipynb", [setup, "%%agent\nPlot the data.", DENIED, "%%agent\nPlot it, and mail it."])
    cell, denied = page.locator(".jp-Cell").nth(1), page.locator(".jp-Cell").nth(3)
    plan, ask = cell.locator(".nbagent-plan"), cell.locator(".nbagent-ask")
    expect(ask).to_contain_text("Work by this plan?")
    expect(ask.locator(".nbagent-plan li")).to_have_count(2)
    ask.get_by_role("button", name="Approve", exact=True).click()
    expect(ask).to_have_count(0)
    expect(plan).to_contain_text("Plan: 0 of 2 done")
    (tmp_path / "gate").touch()
    expect(ask.locator(".nbagent-plan li")).to_have_count(3)
    ask.get_by_role("button", name="Approve", exact=True).click()
    expect(cell.locator("strong")).to_have_text("plot")
    expect(plan).to_contain_text("Plan: 3 of 3 done")
    expect(plan.get_by_role("img", name="done")).to_have_count(3)
    expect(cell.get_by_text("approved:")).to_have_text(["approved: plan of 2 steps", "approved: plan of 3 steps"])
    denied.get_by_label("Reason").fill("nobody wants the mail")
    denied.get_by_role("button", name="Deny", exact=True).click()
    expect(denied).to_contain_text("Then I stop here.")
    expect(denied.locator(".nbagent-plan")).to_have_count(0)
    denied.locator("summary", has_text="Plan of 3 steps").click()
    expect(denied.locator("details")).to_contain_text("The user denied this call: nobody wants the mail.")
