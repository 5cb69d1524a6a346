"""A cell whose agent asks another one, in real JupyterLab: the steps come live, unfolded, and are folded in the end."""

import pytest
from playwright.sync_api import expect
from support.lab import BEGIN, GATED

pytestmark = pytest.mark.browser

SETUP = (
    BEGIN
    + GATED
    + """
mass = FunctionCall("mean_by", {"column": "body_mass_g", "group": "species"}, "m")
analyst = Agent(Gated([mass, "**Gentoo**, with 5,076 g."], model="claude-haiku-4-5"), tools=[mean_by])
question = {"question": "Which species is the heaviest?"}
turns = [FunctionCall("ask_analyst", question, "a"), "Gentoo penguins are the heaviest: 5,076 g on average."]
agent = Agent(
    ScriptedProvider(turns, model="claude-sonnet-5"), tools=[analyst.as_tool("ask_analyst", "Knows the data.")]
)"""
)


def test_the_steps_of_a_child_in_a_cell(lab, picture, tmp_path):
    setup = f"{SETUP}\ngate = {str(tmp_path / 'gate')!r}"
    page = lab.open("children.ipynb", [setup, "%%agent\nWrite a sentence about the heaviest penguins."])
    lab.command(page, "notebook:run-cell-and-select-next")
    lab.command(page, "notebook:run-cell-and-select-next")
    cell = page.locator(".jp-Cell-outputArea:has(.nbagent)").first
    expect(cell.locator("details[open]")).to_contain_text("mean_by(")
    picture(cell, "child-working")
    (tmp_path / "gate").touch()
    expect(cell).to_contain_text("5,076 g on average")
    expect(cell.locator("details[open]")).to_have_count(0)
    cell.locator(".nbagent-child > details > summary").click()
    expect(cell.locator(".nbagent-child strong")).to_have_text("Gentoo")
    picture(cell, "child-unfolded")
