"""A team and a plan in cells of real JupyterLab: who speaks is shown, and the plan is a checklist."""

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + """
from nbagent import Team
def says(*turns, **options): return Agent(ScriptedProvider(turns, model="claude-sonnet-5"), **options)
over = FunctionCall("hand_over", {"to": "analyst", "message": "A question about the data."}, "h")
desk = says(over, system_prompt="You greet.")
agent = Team({"desk": desk, "analyst": says("**Gentoo**, with 5,076 g.", system_prompt="You know the data.")})"""
)
PLAN = """def update(id, *statuses):
    steps = [dict(step=step, status=status) for step, status in zip(["Load the data", "Plot it"], statuses)]
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
