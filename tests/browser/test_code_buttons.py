"""Buttons on the code of answers: *Copy* and *Insert below*, in cells and panels of JupyterLab and Notebook 7.

Below a failed cell *Explain and fix*, and on its correction *Accept* and *Reject*.
"""

import re
import shutil

import pytest
from playwright.sync_api import expect
from support.axe import serious
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
    page.get_by_placeholder("Ask anything").wait_for()
    return page


def clipboard(page):
    return page.evaluate("navigator.clipboard.readText()")


@pytest.mark.parametrize("host", ["JupyterLab 4", "Notebook 7"])
def test_code_is_copied_and_inserted_exactly_as_shown(lab, host):
    name = host.split()[0].lower()
    page = opened(lab, f"{name}-code.ipynb", host)
    cell, panel = page.locator(".jp-Cell").nth(1), page.locator(".nbagent-panel")
    coloured = cell.locator(".cm-line span")
    expect(coloured).to_have_count(0)  # a prompt is not Python
    code = cell.get_by_role("group", name="This code")
    expect(code).to_have_count(3)
    expect(code.last.get_by_role("button")).to_have_text(["Copy"])  # SQL would fail in a Python cell
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


SETUP_DIAGRAM = """%load_ext nbagent
from nbagent import Agent, ChatPanel, ScriptedProvider
fence = "```mermaid\\nflowchart LR\\n{}\\n```\\n\\n".format
sources = ["a[Orders] --> b[Report]", "a --> --> b", "a[<img src=x onerror=hit(1)>] --> b"]
answer = "- [ ] draw\\n- [x] plan\\n\\n" + "".join(map(fence, sources))
agent = Agent(ScriptedProvider(lambda messages, tools: answer, model='m'))"""


def test_a_diagram_is_drawn_above_its_folded_source(lab):
    cells = [SETUP_DIAGRAM, "%%agent\nHow?", "ChatPanel(agent, height='500px')"]
    page = lab.run("diagram.ipynb", cells)
    page.evaluate("() => { window.hit = () => { window.wasHit = true; }; }")
    for answer in (page.locator(".jp-Cell").nth(1), page.locator(".nbagent-panel .nbagent-entry")):
        image = answer.get_by_role("img", name="Diagram")
        expect(image).to_have_attribute("src", re.compile("^data:image/svg"))
        page.wait_for_function("image => image.naturalWidth > 50", arg=image.element_handle())
        expect(answer.locator("pre").first).to_be_hidden()
        answer.get_by_text("Source").click()
        expect(answer.locator("pre").first).to_contain_text("a[Orders] -->")
        for code in answer.locator("pre").all()[
            1:
        ]:  # anything that is not a diagram, or might load something, stays code
            expect(code).to_be_visible()
        expect(answer.get_by_role("button", name="Insert below")).to_have_count(0)
        expect(answer.locator(".nbagent-task").first).to_have_css("list-style-type", "none")
    assert page.evaluate("[window.wasHit, document.querySelectorAll('.jp-Notebook img[src=x]').length]") == [None, 0]
    in_light = [image.get_attribute("src") for image in page.get_by_role("img", name="Diagram").all()]
    lab.theme(page, "JupyterLab Dark")
    for image, before in zip(page.get_by_role("img", name="Diagram").all(), in_light, strict=True):
        expect(image).not_to_have_attribute("src", before)


SETUP_FIX = """%load_ext nbagent
from nbagent import Agent, ScriptedProvider
answer = 'The list has **one** number:\\n```python\\nnumbers = [1]\\nnumbers[0]  # the first\\n```\\nThat is all.'
agent = Agent(ScriptedProvider(lambda messages, tools: answer, model='m'))"""
FAILED = "numbers = [1]\nnumbers[1]"
FIXED = "numbers = [1]\nnumbers[0]  # the first"
FIX = [SETUP_FIX, FAILED, "'last'"]


@pytest.mark.parametrize("host", ["JupyterLab 4", "Notebook 7"])
def test_a_click_explains_a_failed_cell_and_another_corrects_it(lab, host):
    page = lab.run(f"{host.split()[0].lower()}-fix.ipynb", FIX, host=host)
    failed = page.locator(".jp-Cell").nth(1)
    failed.get_by_role("button", name="Explain and fix").press("Enter")
    expect(failed.get_by_text("That is all.")).to_be_visible()
    expect(failed.locator(".nbagent pre")).to_have_count(1)  # the code is shown once, as a diff
    assert failed.locator(".nbagent-diff ins").text_content() == "numbers[0]  # the first\n"
    expect(failed.get_by_role("button", name="Accept")).to_be_visible()
    assert serious(page, ".jp-OutputArea-output:has(.nbagent-fix), .jp-OutputArea-output .nbagent") == []
    failed.get_by_role("button", name="Reject").press("Enter")
    expect(failed.locator(".nbagent-diff")).to_be_hidden()
    assert page.evaluate(SOURCES)[1] == [FAILED, 2]
    failed.get_by_text("Rejected").click()
    set_source = "window.jupyterapp.shell.currentWidget.context.model.sharedModel.cells[1].setSource"
    page.evaluate(f"{set_source}('numbers = [1, 2]\\nnumbers[2]')")  # meanwhile, the person edits
    failed.get_by_role("button", name="Accept").click()
    expect(failed.get_by_role("status")).to_contain_text("The cell has changed meanwhile")
    expect(failed.locator(".nbagent-diff del")).to_have_text(["numbers = [1, 2]", "numbers[2]"])
    assert page.evaluate(SOURCES)[1] == ["numbers = [1, 2]\nnumbers[2]", 2]
    failed.get_by_role("button", name="Accept").press("Enter")
    expect(failed.get_by_text("Accepted: the cell has not run")).to_be_visible()
    assert page.evaluate(SOURCES)[1] == [FIXED, 2]
    page.keyboard.press("Shift+Enter")  # the cell is selected
    expect(failed.locator(".jp-OutputArea-output")).to_have_text("1")
    lab.close_others()


def test_a_copy_of_the_notebook_changes_no_cell_of_the_original(lab):
    page = lab.run("fix.ipynb", [SETUP_FIX, "%%agent\nHow?", FAILED])
    page.locator(".jp-Cell").nth(2).get_by_role("button", name="Explain and fix").click()
    expect(page.get_by_role("button", name="Accept")).to_be_visible()
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    shutil.copy(lab.folder / "fix.ipynb", lab.folder / "a copy.ipynb")
    page.evaluate("""window.jupyterapp.commands.execute('docmanager:open',
        {path: 'a copy.ipynb', kernelPreference: {autoStartDefault: false, shouldStart: false}})""")
    copied = page.locator(".jp-NotebookPanel:visible .jp-Cell")
    copied.nth(2).get_by_role("button", name="Accept").click()
    expect(copied.nth(2).get_by_text("Not accepted: this is another notebook")).to_be_visible()
    copied.nth(2).get_by_role("button", name="Explain and fix").click()
    expect(copied.nth(2).get_by_text("%agent fix")).to_be_visible()
    copied.nth(1).get_by_role("button", name="Insert below").click()
    expect(copied.nth(1).get_by_text("Not inserted: this is another notebook")).to_be_visible()
    in_all = """[...window.jupyterapp.shell.widgets('main')].filter(each => each.context)
        .map(each => each.context.model.sharedModel.cells.map(cell => cell.getSource()))"""
    assert page.evaluate(in_all) == [[SETUP_FIX, "%%agent\nHow?", FAILED]] * 2
