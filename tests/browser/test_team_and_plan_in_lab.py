"""A team and a plan in cells of real JupyterLab: who speaks is shown, and the plan is a checklist."""

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN, GATED

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + GATED
    + """
from nbagent import Team
def says(*turns, **options): return Agent(ScriptedProvider(turns, model="claude-sonnet-5"), **options)
over = FunctionCall("hand_over", {"to": "analyst", "message": "A question about the data."}, "h")
desk = says(over, system_prompt="You greet.")
agent = Team({"desk": desk, "analyst": says("**Gentoo**, with 5,076 g.", system_prompt="You know the data.")})"""
)
PLAN = """def update(id, *statuses):
    steps = [dict(step=step, status=status) for step, status in zip(["Load the data", "Plot it", "Mail it"], statuses)]
    return FunctionCall("update_plan", {"steps": steps}, id)
agent = says(update("1", "doing", "pending"), update("2", "done", "doing"), "The data is there.", plan=True)"""


def test_who_speaks_and_the_plan(lab, picture):
    question = "%%agent\nWhich species is the heaviest?"
    page = lab.run("team.ipynb", [SETUP, question, PLAN, "%%agent\nPlot the data."])
    team, plan = page.locator(".jp-Cell").nth(1), page.locator(".jp-Cell").nth(3)
    expect(plan).to_contain_text("The data is there.")
    expect(team.locator(".nbagent-speaker")).to_have_text(["desk", "analyst"])
    expect(team.locator("strong")).to_have_text("Gentoo")
    expect(plan.locator(".nbagent-plan")).to_contain_text("Plan: 1 of 2 done")
    expect(plan.get_by_role("img", name="done")).to_have_count(1)
    expect(plan.get_by_role("img", name="doing")).to_have_count(1)
    team.scroll_into_view_if_needed()
    picture(page, "team-and-plan")


#: The person approves this plan, and another step later; the second plan is denied.
APPROVED = """agent = Agent(Gated([
    update("1", "pending", "pending"), FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "m"),
    update("2", "done", "doing", "pending"), update("3", "done", "done", "done"), "Here is the **plot**.",
], model="claude-sonnet-5"), tools=[mean_by], plan=True, approve_plan=True)"""
DENIED = "agent = says(update('4', 'pending', 'pending', 'pending'), 'Then I stop here.', approve_plan=True)"


def test_a_plan_in_a_cell_waits_for_a_person(lab, picture, tmp_path):
    setup = f"{SETUP}\n{PLAN}\n{APPROVED}\ngate = {str(tmp_path / 'gate')!r}"
    page = lab.run("approved.ipynb", [setup, "%%agent\nPlot the data.", DENIED, "%%agent\nPlot it, and mail it."])
    cell, denied = page.locator(".jp-Cell").nth(1), page.locator(".jp-Cell").nth(3)
    plan, ask = cell.locator(".nbagent-plan"), cell.locator(".nbagent-ask")
    expect(ask).to_contain_text("Work by this plan?")
    expect(ask.locator(".nbagent-plan li")).to_have_count(2)
    picture(cell, "plan-cell-asks")
    ask.get_by_role("button", name="Approve", exact=True).click()
    expect(ask).to_have_count(0)
    expect(plan).to_contain_text("Plan: 0 of 2 done")
    picture(cell, "plan-cell-approved")
    (tmp_path / "gate").touch()
    expect(ask.locator(".nbagent-plan li")).to_have_count(3)
    picture(cell, "plan-cell-asks-again")
    ask.get_by_role("button", name="Approve", exact=True).click()
    expect(cell.locator("strong")).to_have_text("plot")
    expect(plan).to_contain_text("Plan: 3 of 3 done")
    expect(cell.get_by_text("approved:")).to_have_text(["approved: plan of 2 steps", "approved: plan of 3 steps"])
    picture(cell, "plan-cell-done")
    denied.get_by_label("Reason").fill("nobody wants the mail")
    picture(denied, "plan-cell-asks-denied")
    denied.get_by_role("button", name="Deny", exact=True).click()
    expect(denied).to_contain_text("Then I stop here.")
    expect(denied.locator(".nbagent-plan")).to_have_count(0)
    denied.locator("summary", has_text="Plan of 3 steps").click()
    expect(denied.locator("details")).to_contain_text("The user denied this call: nobody wants the mail.")
    picture(denied, "plan-cell-denied")
