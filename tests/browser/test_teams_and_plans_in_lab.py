"""Several agents and plans in real JupyterLab: who speaks, what those do that a tool asks, and a plan that waits."""

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN, GATED

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + GATED
    + """
from nbagent import ChatPanel, Team
def says(*turns, provider=ScriptedProvider, **options):
    return Agent(provider(turns, model="claude-sonnet-5"), **options)
mass = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "m")
def update(id, *statuses):
    steps = [dict(step=step, status=status) for step, status in zip(["Load the data", "Plot it", "Mail it"], statuses)]
    return FunctionCall("update_plan", {"steps": steps}, id)
"""
)
TEAM = """analyst = says(mass, "**Gentoo**, with 5,076 g.", provider=Gated, tools=[mean_by])
ask = FunctionCall("ask_analyst", {"question": "Which species is the heaviest?"}, "a")
desk = says(FunctionCall("hand_over", {"to": "author"}, "h"), system_prompt="You greet.")
author = says(ask, "Gentoo penguins are the heaviest: 5,076 g on average.", system_prompt="You write.",
              tools=[analyst.as_tool("ask_analyst", "Knows the data.")])
agent = Team({"desk": desk, "author": author})
ChatPanel(agent)"""
#: The person approves this plan, and another step later; the second plan is denied.
APPROVED = """agent = says(
    update("1", "pending", "pending"), mass, update("2", "done", "doing", "pending"),
    update("3", "done", "done", "done"), "Here is the **plot**.",
    provider=Gated, tools=[mean_by], plan=True, approve_plan=True)"""
DENIED = "agent = says(update('4', 'pending', 'pending', 'pending'), 'Then I stop here.', approve_plan=True)"


def test_the_steps_of_an_agent_that_a_tool_asks_are_unfolded_until_they_are_done(lab, tmp_path):
    page = lab.run("agents.ipynb", [f"gate = {str(tmp_path / 'gate')!r}\n{SETUP}{TEAM}"])
    panel = page.locator(".nbagent-panel")
    box = panel.get_by_label("Your question")
    box.fill("Write a sentence about the heaviest penguins.")
    box.press("Enter")
    expect(panel.locator("details[open]")).to_contain_text("mean_by(")
    expect(panel.locator(".nbagent-speaker")).to_have_text(["desk", "author"])
    (tmp_path / "gate").touch()
    expect(panel).to_contain_text("5,076 g on average")
    expect(panel.locator(".nbagent-child > details[open]")).to_have_count(0)
    panel.locator(".nbagent-child > details > summary").click()
    expect(panel.locator(".nbagent-child strong")).to_have_text("Gentoo")


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
