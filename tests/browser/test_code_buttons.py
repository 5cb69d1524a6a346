"""Buttons on the code of answers: *Copy* and *Insert below*, in cells and panels of JupyterLab and Notebook 7."""

import pytest
from playwright.sync_api import expect
from support.lab import ask

pytestmark = pytest.mark.browser

SETUP = '''%load_ext nbagent
from nbagent import Agent, ChatPanel, ScriptedProvider
answer = """Hide **nothing**:

```python
clean = penguins.dropna()\u202e  # <img src=x onerror=hit(1)>
print("$x^2$", clean.shape)  # and a long line, long line, long line, long line, long line, long line, long line, end
```

and then

```
%pip list
```

```sql
select 1
```
"""
agent = Agent(ScriptedProvider(lambda messages, tools: answer, model="m"))'''
#: What is shown of the code: no character is hidden.
CODE = """clean = penguins.dropna()⟨U+202E⟩  # <img src=x onerror=hit(1)>
print("$x^2$", clean.shape)  # and a long line, long line, long line, long line, long line, long line, long line, end"""
CELLS = [SETUP, "%%agent\nHow is it not in?", "ChatPanel(agent, height='300px')", "'last'"]
#: Sources and execution counts of the notebook's code cells.
SOURCES = """() => window.jupyterapp.shell.currentWidget.context.model.sharedModel.cells
    .map(cell => [cell.getSource(), cell.execution_count])"""


def opened(lab, name, host="JupyterLab 4"):
    page = lab.run(name, CELLS, host=host)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_placeholder("Shift-Enter").wait_for()
    return page


def clipboard(page):
    return page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("host", ["JupyterLab 4", "Notebook 7"])
def test_code_is_copied_and_inserted_exactly_as_shown(lab, host):
    name = host.split()[0].lower()
    page = opened(lab, f"{name}-code.ipynb", host)
    cell, panel = page.locator(".jp-Cell").nth(1), page.locator(".nbagent-panel")
    coloured = cell.locator(".cm-line span")
    expect(coloured).to_have_count(0)  # a question is no Python
    code = cell.get_by_role("group", name="This code")
    expect(code).to_have_count(3)
    expect(code.last.get_by_role("button")).to_have_text(["Copy"])  # SQL would fail in a cell of Python
    code.first.get_by_role("button", name="Copy").click()
    expect(code.first.get_by_role("button", name="Copied")).to_be_visible()
    assert clipboard(page) == CODE
    cell.get_by_role("group", name="This answer").get_by_role("button", name="Copy").press("Enter")
    expect(cell.get_by_role("button", name="Copied").last).to_be_visible()
    assert f"Hide **nothing**:\n\n```python\n{CODE}\n```" in clipboard(page)
    code.first.get_by_role("button", name="Insert below").press("Enter")
    expect(page.locator(".jp-Cell")).to_have_count(5)
    expect(page.locator(".jp-Cell").nth(2).locator(".cm-content")).to_be_focused()
    sources = page.evaluate(SOURCES)
    assert sources[2] == [CODE, None], "the cell has not run"
    assert [source for source, _ in [*sources[:2], *sources[3:]]] == CELLS
    ask(panel, "And here?")
    expect(panel.locator(".nbagent-entry")).to_have_count(2)
    code = panel.locator(".nbagent-entry").last.get_by_role("group", name="This code")
    expect(code).to_have_count(3)
    code.nth(1).get_by_role("button", name="Insert below").click()
    expect(page.locator(".jp-Cell")).to_have_count(6)
    assert page.evaluate(SOURCES)[4:] == [["'last'", 4], ["%pip list", None]], "below the cell that ran last"
    page.evaluate("window.jupyterapp.shell.currentWidget.context.model.sharedModel.cells[1].setSource('x is not y')")
    expect(coloured.first).to_be_visible()
    lab.close_others()


SETUP_FIX = """%load_ext nbagent
from nbagent import Agent, ScriptedProvider
answer = 'The list has **one** number.\\n```python\\nnumbers = [1]\\nnumbers[0]  # the first\\n```'
agent = Agent(ScriptedProvider(lambda messages, tools: answer, model='m'))"""
FIX = [SETUP_FIX, "numbers = [1]\nnumbers[1]", "%agent fix", "'last'"]
FIXED = "numbers = [1]\nnumbers[0]  # the first"


def test_a_corrected_cell_replaces_the_failed_one_or_stands_below_it(lab):
    page = lab.open("fix.ipynb", FIX)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    failed, fixed = page.locator(".jp-Cell").nth(1), page.locator(".jp-Cell").nth(2)
    for _ in FIX[:2]:
        lab.command(page, "notebook:run-cell-and-select-next")
    failed.get_by_text("%agent fix").wait_for()  # an error drops what was to run after it
    lab.command(page, "notebook:run-cell-and-select-next")
    buttons = fixed.get_by_role("group", name="This code").last
    buttons.get_by_role("button", name="Replace cell").wait_for()
    buttons.get_by_role("button", name="Copy").click()
    expect(buttons.get_by_role("button", name="Copied")).to_be_visible()
    assert clipboard(page) == FIXED
    buttons.get_by_role("button", name="Replace cell").press("Enter")
    page.wait_for_function(f"({SOURCES})()[1][0].includes('numbers[0]')")
    assert [source for source, _ in page.evaluate(SOURCES)] == [FIX[0], FIXED, *FIX[2:]]
    buttons.get_by_role("button", name="Insert below").press("Enter")
    expect(page.locator(".jp-Cell")).to_have_count(5)
    assert [source for source, _ in page.evaluate(SOURCES)] == [FIX[0], FIXED, FIXED, *FIX[2:]]
