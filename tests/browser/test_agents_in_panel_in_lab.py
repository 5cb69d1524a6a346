"""Several agents in the panel of real JupyterLab: who speaks, and what those do that a tool asks, live and folded."""

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN, GATED

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + GATED
    + """
from nbagent import ChatPanel, Team
def says(*turns, provider=ScriptedProvider, model="claude-sonnet-5", **options):
    return Agent(provider(turns, model=model), **options)
writer = says("Penguins weigh about **4.2 kg**.", "Gentoo penguins weigh about **5.1 kg**.", system_prompt="You write.")
critic = says("Of which species?", "Good.", model="claude-haiku-4-5", system_prompt="You find fault.")
agent = Team({"writer": writer, "critic": critic}, "round_robin", rounds=2)"""
)
PANEL = """
mass = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "m")
analyst = says(mass, "**Gentoo**, with 5,076 g.", provider=Gated, model="claude-haiku-4-5", tools=[mean_by])
ask = FunctionCall("ask_analyst", {"question": "Which species is the heaviest?"}, "a")
desk = says(FunctionCall("hand_over", {"to": "author"}, "h"), system_prompt="You greet.")
author = says(ask, "Gentoo penguins are the heaviest: 5,076 g on average.", system_prompt="You write.",
              tools=[analyst.as_tool("ask_analyst", "Knows the data.")])
agent = Team({"desk": desk, "author": author})
ChatPanel(agent)"""
#: A panel that is made after the question.
PAST = """
analyst = says(mass, "**Gentoo**, with 5,076 g.", model="claude-haiku-4-5", tools=[mean_by])
past = says(ask, "Gentoo.", tools=[analyst.as_tool("ask_analyst", "Knows the data.")])
past.chat_sync("Which penguins are the heaviest?")
ChatPanel(past)"""


def test_speakers_and_children(lab, picture, tmp_path):
    setup = f"{SETUP}\ngate = {str(tmp_path / 'gate')!r}"
    page = lab.run("agents.ipynb", [setup, "%%agent\nHow much do penguins weigh?", PANEL, PAST])
    cell, panel = page.locator(".jp-Cell").nth(1), page.locator(".nbagent-panel").first
    expect(cell.locator(".nbagent-speaker")).to_have_text(["writer", "critic", "writer", "critic"])
    expect(cell.locator("strong")).to_have_text(["4.2 kg", "5.1 kg"])
    picture(cell, "round-robin")
    box = panel.locator(".nbagent-input textarea")
    box.fill("Write a sentence about the heaviest penguins.")
    box.press("Enter")
    expect(panel.locator("details[open]")).to_contain_text("mean_by(")
    expect(panel.locator(".nbagent-speaker")).to_have_text(["desk", "author"])
    picture(panel, "child-in-panel-working")
    (tmp_path / "gate").touch()
    expect(panel).to_contain_text("5,076 g on average")
    expect(panel.locator(".nbagent-child > details[open]")).to_have_count(0)
    panel.locator(".nbagent-child > details > summary").click()
    expect(panel.locator(".nbagent-child strong")).to_have_text("Gentoo")
    picture(panel, "child-in-panel-unfolded")
    past = page.locator(".nbagent-panel").nth(1)
    expect(past.locator(".nbagent-child > details:not([open])")).to_contain_text("claude-haiku-4-5")
    past.locator(".nbagent-child > details > summary").click()
    expect(past.locator(".nbagent-child strong")).to_be_visible()
    picture(past, "child-in-past-turn")
