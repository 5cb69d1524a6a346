"""A scripted analyst writes eight cells into the open notebook while the person types in another cell."""

import subprocess
import sys

import nbformat
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

SETUP = """%load_ext nbagent
import asyncio, re
from nbagent import Agent, ChatPanel, FunctionCall, ScriptedProvider
def text(source): return FunctionCall("add_cell", {"source": source, "kind": "markdown"})
def code(source): return FunctionCall("add_cell", {"source": source})
def plan(*states):
    steps = zip(("Load", "Compare", "Sum up"), states)
    return FunctionCall("update_plan", {"steps": [{"step": step, "status": status} for step, status in steps]})
run = FunctionCall("run_cells", {"cells": ["LAST"]})
turns = [
    [plan("doing", "pending", "pending"), text("# Orders\\n\\nLoad them."), code(
        "import matplotlib.pyplot as plt\\nimport pandas as pd\\n\\n"
        "orders = pd.DataFrame({'city': ['Bonn', 'Bonn', 'Rome'], 'total': [1, 3, 8]})\\norders")],
    run,
    [plan("done", "doing", "pending"), text("## Means\\n\\nOne for each city."),
     code("means = orders.groupby('town')['total'].mean()\\nmeans")],
    run,
    FunctionCall("edit_cell", {"cell": "LAST", "source": "means = orders.groupby('city')['total'].mean()\\nmeans"}),
    run,
    [text("## A plot\\n\\nThe same means."), code("_ = means.plot.bar(rot=0)")],
    run,
    [plan("done", "done", "done"), text("## Summary\\n\\nRome has 8 on average: [Means](#Means)."),
     code("means.max()")],
    run,
    "Rome, 8 on average.",
]
async def script(messages, functions):
    await asyncio.sleep(0.3)
    turn = turns[sum(message.role == "assistant" for message in messages)]
    ids = re.findall(r"Added code cell \\d+, id ([\\w-]+)", "\\n".join(message.text for message in messages))
    if isinstance(turn, FunctionCall):
        now = {"cell": ids[-1:] and ids[-1], "cells": ids[-1:]}
        return FunctionCall(turn.name, {name: now.get(name, value) for name, value in turn.arguments.items()})
    return turn
agent = Agent(ScriptedProvider(script), tools=[])
%agent analyst on
%agent mode auto"""
ASK = "%%agent\nWhich city orders most?"
HEADINGS = ["# Orders", "## Means", "## A plot", "## Summary"]
MINE, TYPED = "target = 5", "# orders a city by the end of May, says Ada"


@pytest.mark.parametrize(
    ("host", "place"), [("JupyterLab 4", "cell"), ("JupyterLab 4", "panel"), ("Notebook 7", "panel")]
)
def test_it_writes_runs_and_mends_cells_while_the_person_types(lab, host, place, keep):
    asks = ASK if place == "cell" else "ChatPanel(agent, height='300px')"
    name = f"analyst-in-{place}-{host.split()[1]}.ipynb"
    page = lab.open_in(host, name, [SETUP, asks, MINE])
    lab.run_cell(page, 0)
    lab.run_cell(page, 1)
    if place == "panel":
        box = page.get_by_role("region", name="Chat with an agent").get_by_label("Your prompt")
        box.fill("Which city orders most?")
        box.press("Enter")
    page.locator(".jp-MarkdownCell", has_text="Load them.").wait_for()
    mine = page.locator(".jp-CodeCell .cm-content", has_text=MINE)
    mine.click()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.keyboard.type(TYPED, delay=80)
    page.locator(".nbagent-foot").first.wait_for()
    expect(page.locator(".jp-CodeCell .cm-content", has_text=TYPED)).to_be_focused()
    if (host, place) == ("JupyterLab 4", "panel"):
        keep(page.locator(".jp-NotebookPanel"), "analyst")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
    notebook = nbformat.read(lab.folder / name, 4)
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells if MINE in cell.source] == [f"{MINE}\n{TYPED}"]
    written = [cell for cell in notebook.cells if "nbagent" in cell.metadata]
    assert [cell.source.partition("\n")[0] for cell in written if cell.cell_type == "markdown"] == HEADINGS
    shown = [[output.output_type for output in cell.outputs] for cell in written if cell.cell_type == "code"]
    assert shown == [["execute_result"], ["execute_result"], ["display_data"], ["execute_result"]]
    assert "text/html" in written[1].outputs[0].data
    assert "image/png" in written[5].outputs[0].data
    first = [cell.source for cell in notebook.cells].index(written[0].source)
    assert [cell.id for cell in notebook.cells[first : first + 8]] == [cell.id for cell in written]
    assert (first == 2) == (place == "cell"), "below the cell that asks; from a panel at the end"
    runs_again_twice(notebook, written, lab.folder)
    lab.close_others()


def runs_again_twice(notebook, written, folder):
    """Without nbagent, the cells run in their own kernels and show the saved outputs."""
    notebook.cells, notebook.metadata = written, {"kernelspec": notebook.metadata.kernelspec}
    text = nbformat.writes(notebook)
    assert "import nbagent" not in text
    for number in (1, 2):
        (folder / f"alone-{number}.ipynb").write_text(text)
    files = map(str, folder.glob("alone-*.ipynb"))
    command = [sys.executable, "-m", "pytest", "-q", "--nbval", "-p", "no:cacheprovider", "-c", "/dev/null", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
