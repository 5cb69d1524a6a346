"""Cells and panel in both themes: the pictures in README, documentation and tutorials.

`make pictures` keeps them. The data, the tools and the plot are real; what the model says is a script.
"""

from pathlib import Path

import pytest
from playwright.sync_api import expect
from support.lab import ask

pytestmark = pytest.mark.browser

DATA = Path(__file__).parents[2] / "notebooks" / "data" / "penguins.csv"

SETUP = f"""%load_ext nbagent
import asyncio
import json
from typing import Literal
import matplotlib.pyplot as plt
import pandas as pd
from nbagent import Agent, ChatPanel, FunctionCall, Limits, LLMResponse, ScriptedProvider, Usage, live, tool

penguins = pd.read_csv({str(DATA)!r})
Group = Literal["species", "island", "sex"]

@tool
def mean_by(column: Literal["bill_length_mm", "body_mass_g"], group: Group) -> dict:
    "Mean of a column for each value of a group."
    return penguins.groupby(group)[column].mean().round(1).to_dict()

@tool
def count_by(group: Group) -> dict:
    "Rows for each value of a group."
    return penguins[group].value_counts().to_dict()

@tool(approve=True)
def run_code(code: str) -> dict:
    "Run code in the notebook. Returns the number of rows of each table."
    exec(code, globals())
    return {{name: len(table) for name, table in globals().items() if isinstance(table, pd.DataFrame)}}

@tool
def plot_by(column: str, group: str) -> dict:
    "Plot the means of a column. Returns them."
    means = clean.groupby(group)[column].mean().round(1)
    means.plot.barh(color="#818cf8", figsize=(5, 1.3))
    return means.to_dict()
"""
SCRIPT = """
class Claude(ScriptedProvider):
    "Says what the script says, at Claude's pace and prices. The numbers are those that the tools returned."
    provider_name = "claude"

def calls(*made, thinking="", used=Usage()):
    made = [FunctionCall(name, arguments, f"{name}{used}") for name, arguments in made]
    return LLMResponse("", made, "tool_calls", {"thinking": thinking, "usage": used})
def says(text, used):
    return LLMResponse(text, None, "stop", {"usage": used})
def heaviest(mean, count):
    first, second, *_ = order = sorted(mean, key=mean.get, reverse=True)
    rows = [f"| {each} | {mean[each]:,} | {count[each]} |" for each in order]
    table = "\\n".join(["| species | mean body mass (g) | penguins |", "|---|--:|--:|", *rows])
    by = f"{mean[first] - mean[second]:,.0f} g"
    return f"**{first}** penguins are heaviest, on average **{by}** more than {second}.\\n\\n{table}"
def plotted(rows, mean):
    before, first = rows["penguins"], max(mean, key=mean.get)
    return f"Dropped {before - rows['clean']} of {before} rows. **{first}** first, with {mean[first]:,} g."
mass = {"column": "body_mass_g", "group": "species"}
counted = {"group": "species"}
code = {"code": 'clean = penguins.dropna(subset=["sex"])'}
turns = iter([
    lambda *_: calls(("mean_by", mass), ("count_by", counted), thinking="By species, then.", used=Usage(604, 43, 490)),
    lambda *results: says(heaviest(*results[-2:]), Usage(790, 86, 604)),
    lambda *_: calls(("run_code", code), thinking="First the rows.", used=Usage(1020, 61, 790)),
    lambda *_: calls(("plot_by", mass), used=Usage(1130, 48, 1020)),
    lambda *results: says(plotted(*results[-2:]), Usage(1240, 33, 1130)),
])
async def turn(messages, functions):
    await asyncio.sleep(0.25)
    return next(turns)(*(json.loads(each.text) for each in messages if each.role == "tool"))
agent = Agent(Claude(turn, model="claude-sonnet-5", delay=0.005), tools=live, limits=Limits(max_cost=0.02))"""


def test_a_conversation(lab, keep):
    question = "%%agent\nWhich species is heaviest, and by how much?"
    page = lab.run("talk.ipynb", [SETUP + SCRIPT, question, "agent.trace", "ChatPanel(agent, height='430px')"])
    panel = page.locator(".nbagent-panel")
    panel.get_by_placeholder("Ask anything").wait_for()
    cell = page.locator(".jp-Cell").nth(1)
    for past in ("Thought", "count_by", "129 out"):  # from before there was a panel
        panel.get_by_role("log").get_by_text(past).first.wait_for()
    for place in (1, 2):  # the two calls, and the first of them
        cell.locator("summary").nth(place).click()
    assert "5076.0" in cell.locator("details[open]").first.inner_text()
    panel.get_by_label("Your prompt").fill("Drop the rows without a sex, then plot mass by species.")
    keep(cell, "cell")
    panel.get_by_label("Your prompt").press("Enter")
    panel.get_by_text("asks to run in your kernel").wait_for()
    panel.locator("summary").last.click()
    assert "First the rows." in panel.locator("details[open]").inner_text(), "the call is only in the form"
    keep(panel, "panel")
    panel.get_by_role("button", name="Approve").click()
    panel.get_by_role("log").get_by_text("Dropped 11 of 344 rows.").wait_for()
    assert panel.locator("img").count() == 1
    assert panel.locator("details[open]").count() == 1  # what the reader opened stays open
    panel.get_by_role("tab", name="Trace").click()
    panel.locator(".nbagent-timeline b").nth(6).wait_for()
    labels = panel.locator(".nbagent-timeline span").all_inner_texts()
    assert labels[0].startswith("Which species is heaviest"), "a run begins with its question"
    assert [label.partition("(")[0] for label in labels[2:4]] == ["mean_by", "count_by"]
    keep(panel, "trace")


HEAVIEST = """agent = Agent("local", tools=[heaviest])
masses = penguins.groupby("species")["body_mass_g"].mean()"""
TOOL = """def heaviest(species: Literal["Adelie", "Chinstrap", "Gentoo"], count: int = 3) -> list:
    "The body masses in grams of the heaviest penguins of a species."
    return penguins[penguins["species"] == species]["body_mass_g"].nlargest(count).astype(int).tolist()"""


def test_a_draft_and_a_version_with_the_embedded_model(lab, keep):
    page = lab.run("draft.ipynb", [SETUP, TOOL, HEAVIEST, "ChatPanel(agent, height='250px')"])
    panel = page.locator(".nbagent-panel")
    panel.get_by_placeholder("Ask anything").wait_for()
    box = ask(panel, "List the body masses of the 2 heaviest Gentoo penguins.")
    panel.get_by_role("log").get_by_text("gives 6300 and 6050.").wait_for()
    panel.get_by_role("button", name="Edit", exact=True).click()
    expect(box).to_have_value("List the body masses of the 2 heaviest Gentoo penguins.")
    ask(panel, "List the body masses of the 3 heaviest Gentoo penguins.")
    panel.get_by_role("log").get_by_text("gives 6300, 6050 and 6000.").wait_for()
    expect(panel.locator(".nbagent-versions")).to_contain_text("2/2")
    box.fill("Which of the means in @masses is largest?")
    expect(panel.locator(".nbagent-draft")).to_contain_text("@masses")
    expect(panel.locator(".nbagent-sum")).to_contain_text("tokens")
    keep(panel, "draft")


SLOW = """from threading import Event
go_on = Event()
@tool
def bootstrap(column: Literal["bill_length_mm", "body_mass_g"], samples: int) -> str:
    "Bootstrap the mean of a column."
    for done in range(0, samples, samples // 4):
        print(f"{done:,} of {samples:,} samples")
    go_on.wait()
    return str(round(penguins[column].sem(), 2))
columns = [("bootstrap", {"column": column, "samples": 4000}) for column in ("bill_length_mm", "body_mass_g")]
turns = [calls(*columns, used=Usage(640, 70)), LLMResponse("Both are **certain** to about 1 %.", None, "stop")]
agent = Agent(Claude(turns, model="claude-sonnet-5"), tools=live)"""


def test_an_empty_panel_its_models_and_running_tools(lab, keep):
    page = lab.run("begin.ipynb", [SETUP + SCRIPT, SLOW, "ChatPanel(agent, height='330px')"])
    panel = page.locator(".nbagent-panel")
    expect(panel.locator(".nbagent-greeting")).to_contain_text("What is in @penguins?")
    keep(panel, "greeting")
    panel.get_by_role("button", name="Model: claude-sonnet-5").click()
    panel.get_by_label("Search models").fill("claude")
    expect(panel.locator(".nbagent-picker-rows button").nth(4)).to_be_visible()
    keep(panel, "models")
    page.keyboard.press("Escape")
    ask(panel, "How certain are the means of bill length and mass?")
    expect(panel.locator("pre", has_text="3,000 of 4,000 samples").first).to_be_visible()
    keep(panel, "running")
    lab.run_new_cell(page, "go_on.set()")
    panel.get_by_role("log").get_by_text("Both are certain").wait_for()


BROKEN = 'penguins.groupby("specie")["body_mass_g"].mean().round(1)'
ANSWER = f"""agent = Agent(Claude([
'''The table has no column `specie`; it is `species`:
```python
{BROKEN.replace("specie", "species")}
```'''], model="claude-sonnet-5"))"""


def test_a_failed_cell_is_explained(lab, keep):
    page = lab.run("failed.ipynb", [f"%xmode Minimal\n{SETUP}{SCRIPT}", ANSWER, BROKEN])
    failed = page.locator(".jp-Cell").nth(2)
    failed.get_by_role("button", name="Explain and fix").click()
    failed.get_by_role("button", name="Accept").wait_for()
    keep(failed, "fix")
