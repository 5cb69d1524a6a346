"""The open notebook as an agent's document: how the page shows changes, and what the person keeps."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from playwright.sync_api import expect
from support.axe import serious
from support.lab import Lab, ask, python_in
from support.mcp_sessions import configured, session, text_of

pytestmark = pytest.mark.browser

SETUP = """%load_ext nbagent
from nbagent.notebook.document.live import live_notebook
notebook = await live_notebook()"""
SHARED = "window.jupyterapp.shell.currentWidget.context.model.sharedModel"
#: Ids, sources, counts, marks and outputs of the cells on the page.
CELLS = f"""() => {SHARED}.cells.map(cell => ({{
    id: cell.getId(), source: cell.getSource(), count: cell.execution_count ?? null,
    mark: cell.getMetadata('nbagent') ?? null, outputs: cell.getOutputs?.() ?? []}}))"""
SAVE = "() => window.jupyterapp.shell.currentWidget.context.save()"


def sources(page):
    return [cell["source"] for cell in page.evaluate(CELLS)]


def do(lab, page, code):
    """Run code in a new last cell, and remove it."""
    lab.run_new_cell(page, f"{code}\nprint('do' + 'ne')")
    expect(page.get_by_text("done", exact=True)).to_have_count(1)
    place = page.evaluate(f"({CELLS})().findIndex(cell => cell.source.endsWith(\"print('do' + 'ne')\"))")
    page.evaluate(f"{SHARED}.deleteCell({place})")


CHANGES = """cells = await notebook.cells()
title = await notebook.insert("# Orders", "markdown", below=cells[0].id)
table = await notebook.insert("import pandas as pd\\nprint('two')\\npd.DataFrame({'n': [1, 2]})", below=title.id)
assert [o['output_type'] for o in (await notebook.run(table.id)).outputs] == ['stream', 'execute_result']
await notebook.edit(cells[1].id, "x = 2", expected="x = 1")
await notebook.move(cells[2].id, below="")
await notebook.delete(cells[3].id)"""


@pytest.mark.parametrize("host", ["JupyterLab 4", "Notebook 7"])
def test_what_a_run_changed_is_marked_shown_and_undone_also_after_a_reload(lab, host, picture):
    name = f"{host.split()[0].lower()}-changes.ipynb"
    page = lab.open_in(host, name, [SETUP, "x = 1", "'moves'", "'goes'"])
    before = sources(page)
    lab.run_cell(page, 0)
    do(lab, page, CHANGES)
    table = "import pandas as pd\nprint('two')\npd.DataFrame({'n': [1, 2]})"
    assert sources(page) == ["'moves'", SETUP, "# Orders", table, "x = 2"]
    ran = page.evaluate(CELLS)[3]
    assert (ran["outputs"][0]["text"], ran["mark"]) == ("two\n", {"run": ""})
    assert ran["count"] > 1
    bar = page.get_by_role("region", name="Changed by the agent")
    expect(bar).to_contain_text("2 cells added, 1 edited, 1 deleted, 1 moved")
    expect(page.locator(".jp-Cell.nbagent-written")).to_have_count(3)
    bar.get_by_role("button", name="Show changes").click()
    expect(bar.locator("ins")).to_have_count(5)
    expect(bar.locator("del")).to_have_text(["x = 1", "'goes'"])
    assert serious(page, ".nbagent-changes") == []
    picture(page, f"{host.split()[0].lower()}-changes")
    page.evaluate(SAVE)
    nbformat.validate(saved := json.loads((lab.folder / name).read_text()))
    assert saved["metadata"]["nbagent"]["changes"]
    page.reload()
    lab.wait_for_kernel(page)
    bar.get_by_role("button", name="Undo").click()
    expect(bar).to_have_count(0)
    assert sources(page) == before
    assert [cell["mark"] for cell in page.evaluate(CELLS)] == [None] * 4
    page.evaluate(SAVE)
    assert "nbagent" not in json.loads((lab.folder / name).read_text())["metadata"]
    lab.close_others()


def test_what_the_person_changed_since_stays_and_the_bar_is_back_in_a_new_kernel(lab):
    page = lab.open("since.ipynb", [SETUP, "a = 1", "b = 1"], fresh=True)
    lab.run_cell(page, 0)
    do(lab, page, "for cell in (await notebook.cells())[1:3]: await notebook.edit(cell.id, cell.source + '0')")
    page.evaluate(f"{SHARED}.cells[1].setSource('a = 11')")
    bar = page.get_by_role("region", name="Changed by the agent")
    bar.get_by_role("button", name="Undo").click()
    expect(bar).to_contain_text("Not undone, because it was changed since: cell 2.")
    expect(bar).to_contain_text("1 cell edited")
    assert sources(page) == [SETUP, "a = 11", "b = 1"]
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(bar).to_have_count(0)
    lab.run_cell(page, 0)
    bar.get_by_role("button", name="Keep").click()
    expect(bar).to_have_count(0)
    expect(page.locator(".nbagent-written")).to_have_count(0)
    assert page.evaluate(f"{SHARED}.getMetadata('nbagent') ?? null") is None


def test_undo_after_a_restart_brings_back_what_cells_showed_unless_it_was_long(lab):
    page = lab.open("restart.ipynb", [SETUP, "'old'", "print('long' * 30_000)"], fresh=True)
    before = sources(page)
    lab.command(page, "notebook:run-all-cells")
    expect(page.locator(".jp-OutputArea-output", has_text="longlong")).to_have_count(1)
    do(lab, page, "for cell in (await notebook.cells())[1:3]: await notebook.edit(cell.id, 'edited')")
    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    bar = page.get_by_role("region", name="Changed by the agent")
    expect(bar).to_have_count(0)
    lab.run_cell(page, 0)
    bar.get_by_role("button", name="Undo").click()
    expect(bar).to_have_count(0)
    assert sources(page) == before
    old, long = [cell["outputs"][0] for cell in page.evaluate(CELLS)[1:]]
    assert old["data"]["text/plain"] == "'old'"
    assert "too long to be kept for an undo after a restart" in long["text"]


TYPED = "# what the person types while the agent writes around it, character by character"
WRITES = """import asyncio
from nbagent.core.background import background_loop
async def write(mine):
    while (await notebook.cell(mine)).source == "'mine'":
        await asyncio.sleep(0.05)
    try:
        await notebook.edit(mine, "")
    except Exception as error:
        said = str(error)
    for n in range(8):
        cell = await notebook.insert(f"n = {n}\\nprint(n)\\nn", below="")
        await notebook.run(cell.id)
        await notebook.edit(cell.id, f"n = {n} + 1")
        await notebook.insert(f"## {n}", "markdown")
    return said
cells = [each for each in await notebook.cells() if each.source == "'mine'"]
writing = asyncio.run_coroutine_threadsafe(write(cells[0].id), background_loop())"""


def test_the_person_types_while_the_agent_writes_and_loses_nothing(lab):
    page = lab.open("typing.ipynb", [SETUP, *["'above'"] * 30, "'mine'", *["'below'"] * 30])
    lab.run_cell(page, 0)
    do(lab, page, WRITES)
    mine = page.locator(".cm-content", has_text=re.compile("^'mine'$"))
    mine.click()
    page.keyboard.press("Control+a")
    top = mine.bounding_box()["y"]
    for letter in TYPED:
        page.keyboard.type(letter, delay=30)
    page.wait_for_function(f"{SHARED}.cells.length == 78")
    expect(page.locator(":focus")).to_contain_text(TYPED)
    assert abs(page.locator(":focus").bounding_box()["y"] - top) < 3, "the page has not scrolled"
    assert sources(page).count(TYPED) == 1
    page.keyboard.press("Escape")
    said = lab.run_new_cell(page, "await asyncio.wrap_future(writing)")
    expect(said).to_contain_text(re.compile(r"the person is typing in cell 32|cell 32 \(\w+\) changed since"))


#: Gives a notebook the kernel of the one that is shown.
SAME_KERNEL = """path => {
    const {id} = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    return window.jupyterapp.serviceManager.sessions.startNew({path, name: path, type: 'notebook', kernel: {id}});
}"""
BESIDE = "path => { window.jupyterapp.commands.execute('docmanager:open', {path, options: {mode: 'split-right'}}); }"
PANEL = """from nbagent import Agent, ChatPanel, FunctionCall, ScriptedProvider
async def add(code: str) -> str:
    cell = await (await live_notebook()).insert(code)
    return cell.id
ChatPanel(Agent(ScriptedProvider([FunctionCall("add", {"code": "'panel'"}, "a"), "Added."], model="m"), tools=[add]))"""


def test_each_of_two_notebooks_in_a_kernel_receives_its_own_changes(lab):
    page = lab.open("one.ipynb", [SETUP, PANEL])
    lab.run_cell(page, 0)
    lab.run_cell(page, 1)
    panel = page.get_by_role("region", name="Chat with an agent")
    panel.get_by_label("Your prompt").wait_for()
    name = page.locator(".jp-NotebookPanel").get_attribute("id")  # JupyterLab may have its panels in any order
    one = page.locator(f".jp-NotebookPanel[id='{name}']")
    for path in ("two.ipynb", "three.ipynb"):
        lab.write(path, ["two = await live_notebook()", "await two.insert(\"'cell'\"); two.path"])
        page.evaluate(f"path => {{ ({SAME_KERNEL})(path) }}", path)
    two = lab.visit("notebooks/two.ipynb")
    lab.wait_for_kernel(two)
    lab.command(two, "notebook:run-all-cells")
    expect(two.locator(".jp-Cell")).to_have_count(3)
    expect(two.get_by_role("region", name="Changed by the agent")).to_contain_text("1 cell added")
    expect(page.get_by_role("region", name="Changed by the agent")).to_have_count(0)
    ask(panel, "add it")
    expect(one.locator(".jp-Cell")).to_have_count(3)
    expect(one.locator(".nbagent-written")).to_contain_text("'panel'")
    expect(two.locator(".jp-Cell")).to_have_count(3)
    two.close()
    gone = lab.run_new_cell(page, "await two.cells()")
    expect(gone).to_contain_text("PageError: the page with two.ipynb has not responded for 10 s")
    blocked = lab.run_new_cell(page, "from nbagent.core.background import run_sync\nrun_sync(notebook.cells())")
    expect(blocked).to_contain_text("Use a %%agent cell without %%time")
    page.evaluate(BESIDE, "three.ipynb")
    three = page.locator(f".jp-NotebookPanel:not([id='{name}'])")
    lab.wait_for_kernel(page)
    lab.run_cell(page, 0)
    expect(three).to_contain_text("only one notebook of a page, which is one.ipynb")
    expect(one.get_by_role("region", name="Changed by the agent")).to_have_count(1)
    expect(three.get_by_role("region", name="Changed by the agent")).to_have_count(0)


def test_two_notebooks_of_two_kernels_are_changed_side_by_side(lab):
    insert = "await notebook.insert(\"'by the agent'\")\nnotebook.path"
    page = lab.open("left.ipynb", [SETUP, insert])
    lab.write("right.ipynb", [SETUP, insert])
    page.evaluate(BESIDE, "right.ipynb")
    panels, bars = page.locator(".jp-NotebookPanel"), page.get_by_role("region", name="Changed by the agent")
    expect(panels).to_have_count(2)
    for place in (1, 0):
        page.evaluate("id => window.jupyterapp.shell.activateById(id)", panels.nth(place).get_attribute("id"))
        lab.wait_for_kernel(page)
        lab.command(page, "notebook:run-all-cells")
        expect(panels.nth(place).locator(".nbagent-written")).to_have_text(re.compile("'by the agent'"))
        expect(panels.nth(place)).to_contain_text(re.compile(r"'(left|right)\.ipynb'"))  # the cell has run to its end
    expect(bars).to_have_count(2)
    assert {re.search(r"'(left|right)\.ipynb'", panel.inner_text())[1] for panel in panels.all()} == {"left", "right"}
    panels.nth(0).get_by_role("button", name="Undo").click()
    expect(bars).to_have_count(1)
    expect(panels.nth(0).locator(".jp-Cell")).to_have_count(2)
    expect(panels.nth(1).locator(".jp-Cell")).to_have_count(3)


ASKS = """%load_ext nbagent
import re
from nbagent import Agent, ChatPanel, FunctionCall, ScriptedProvider
def turn(messages, functions):
    added = re.findall(r"id ([\\w-]+)", "\\n".join(message.text for message in messages if message.role == "tool"))
    source = messages[-1].text if messages[-1].role == "user" else ""
    if source:
        return FunctionCall("add_cell", {"source": source})
    if len(messages) % 8 == 3:
        return FunctionCall("edit_cell", {"cell": added[0], "source": "a = 2"})
    if len(messages) % 8 == 5:
        return FunctionCall("delete_cell", {"cell": added[0]})
    return "Done."
agent = Agent(ScriptedProvider(turn), tools=[])
%agent tools add notebook"""


def test_each_change_is_approved_edited_or_denied_where_the_agent_was_asked(lab):
    page = lab.open("asks.ipynb", [ASKS, "%%agent\na = 1", "ChatPanel(agent, height='300px')"])
    before = sources(page)
    lab.run_cell(page, 0)
    cell = lab.run_cell(page, 1)
    cell.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".jp-Cell.nbagent-written .cm-content")).to_have_text("a = 1")
    cell.get_by_role("button", name="Edit", exact=True).click()
    cell.get_by_role("textbox", name="source").fill("a = 3")
    cell.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".jp-Cell.nbagent-written .cm-content")).to_have_text("a = 3")
    cell.get_by_role("button", name="Deny", exact=True).click()
    expect(cell).to_contain_text("Done.")
    assert sources(page) == [*before[:2], "a = 3", before[2]]
    lab.run_cell(page, 3)
    panel = page.get_by_role("region", name="Chat with an agent")
    ask(panel, "b = 1")
    question = panel.locator(".nbagent-ask")
    question.get_by_role("button", name="Edit", exact=True).click()
    question.get_by_role("textbox", name="source").fill("b = 2")
    question.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".jp-Cell.nbagent-written .cm-content").last).to_have_text("b = 2")


def test_a_waiting_change_is_shown_and_decided_where_it_applies(lab, picture):
    """Also after the page was reloaded."""
    page = lab.open("places.ipynb", [ASKS, "%%agent\na = 1", "'last'"], fresh=True)
    before = sources(page)
    lab.run_cell(page, 0)
    cell = lab.run_cell(page, 1)
    change = page.get_by_role("group", name="A change that waits for your approval")
    expect(change.locator("ins")).to_have_text("a = 1")
    expect(cell.locator(".nbagent-proposal")).to_have_count(1)
    change.get_by_role("button", name="Accept").click()
    written = page.locator(".jp-Cell").nth(2)
    expect(written.locator("del")).to_have_text("a = 1")
    expect(written.locator("ins")).to_have_text("a = 2")
    expect(written.locator(".cm-content")).to_be_hidden()
    assert serious(page, ".nbagent-proposal") == []
    picture(page, "change-in-place")
    page.evaluate(SAVE)
    page.reload()
    change.get_by_role("button", name="Edit").click()
    change.get_by_role("textbox").fill("a = 3")
    change.get_by_role("button", name="Accept").click()
    expect(written.locator("del")).to_have_text("a = 3")
    assert sources(page) == [*before[:2], "a = 3", before[2]]
    change.get_by_role("button", name="Reject").click()
    expect(change).to_have_count(0)
    expect(written.locator(".cm-content")).to_be_visible()
    assert sources(page) == [*before[:2], "a = 3", before[2]]


#: A cell that the agent writes and runs. It goes on once there is a file, and then changes the notebook itself.
OWN = """import asyncio
from pathlib import Path
from nbagent.notebook.document.live import live_notebook
print('begun', flush=True)
while not Path('go').exists():
    await asyncio.sleep(0.05)
mine = await live_notebook()
cell = await mine.insert("'by its cell'", below='')
mine.path"""
WORKS = f"""%load_ext nbagent
from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.notebook.document import live
live.ANSWER_S = 90  # on a busy machine
turns = [FunctionCall("add_cell", {{"source": {OWN!r}}}, "a"), FunctionCall("run_cells", {{}}, "b"),
         FunctionCall("add_cell", {{"source": "'after'"}}, "c"), "Done."]
agent = Agent(ScriptedProvider(turns), tools=[])
%agent tools add notebook
%agent mode auto"""


async def work_in_the_notebook(server):
    """An MCP client adds a cell to the open notebook, runs it and edits the person's."""
    async with session(server) as client:
        await client.call_tool("add_cell", {"source": "print(6 * 7)"})
        listed = text_of(await client.call_tool("list_cells"))
        added, own = (
            re.search(rf"^\d+\. ([\w-]+) .*: {re.escape(code)}$", listed, re.M)[1] for code in ("print(6 * 7)", "x = 1")
        )
        ran = text_of(await client.call_tool("run_cells", {"cells": [added]}))
        await client.call_tool("read_cell", {"cell": own})
        await client.call_tool("edit_cell", {"cell": own, "source": "x = 2"})
        return ran


def test_an_mcp_client_works_in_the_open_notebook(lab):
    setup = "%load_ext nbagent\n%agent tools add notebook\n%agent mode auto\n%agent serve --mcp"
    page = lab.open("mcp-client.ipynb", ["x = 1", setup])
    cell = lab.run_cell(page, 1)
    expect(cell).to_contain_text("mcpServers")
    server = configured(cell.inner_text())
    with ThreadPoolExecutor(1) as thread:  # Playwright has the loop of this one
        ran = thread.submit(asyncio.run, work_in_the_notebook(server)).result()
    assert "Printed:\n42" in ran
    expect(page.locator(".nbagent-written").last).to_contain_text("42")
    assert sources(page) == ["x = 2", setup, "print(6 * 7)"]
    bar = page.get_by_role("region", name="Changed by the agent")
    expect(bar).to_contain_text("1 cell edited")  # by the last call: each is a run
    expect(lab.run_new_cell(page, "%agent serve --stop\n'no' + 'more'")).to_contain_text("'nomore'")


def test_a_page_that_is_loaded_again_gets_what_the_agent_and_its_cells_do_meanwhile(lab):
    page = lab.open("again.ipynb", [WORKS, "%%agent\nwork"], fresh=True)
    lab.run_cell(page, 0)
    lab.run_cell(page, 1)
    expect(page.locator(".jp-Cell").nth(2).locator(".jp-OutputArea-output")).to_have_text("begun")
    page.evaluate(SAVE)
    url = page.url
    page.goto("about:blank")
    (lab.folder / "go").touch()
    page.goto(url)
    expect(page.locator(".nbagent-written")).to_have_count(3)
    assert sources(page) == ["'by its cell'", WORKS, "%%agent\nwork", OWN, "'after'"]
    ran = page.evaluate(CELLS)[3]["outputs"]
    assert [ran[0]["text"], ran[1]["data"]["text/plain"]] == ["begun\n", "'again.ipynb'"]


SLOW = "print('begun', flush=True)\nimport time; time.sleep(60)"


def test_stop_in_the_middle_leaves_a_valid_notebook(lab):
    page = lab.open("stop.ipynb", [SETUP, f"cell = await notebook.insert({SLOW!r})\nawait notebook.run(cell.id)"])
    lab.run_cell(page, 0)
    asking = lab.run_cell(page, 1)
    slow = page.locator(".jp-Cell").nth(2)
    expect(slow.locator(".jp-OutputArea-output")).to_have_text("begun")
    expect(slow.locator(".jp-InputPrompt")).to_have_text("[*]:")
    lab.command(page, "notebook:interrupt-kernel")
    expect(asking.locator(".jp-InputPrompt")).not_to_have_text("[*]:")
    expect(slow.locator(".jp-InputPrompt")).not_to_have_text("[*]:")
    page.evaluate(SAVE)
    nbformat.validate(saved := json.loads((lab.folder / "stop.ipynb").read_text()))
    assert saved["cells"][2]["outputs"][0]["text"] == ["begun\n"]


def test_others_in_a_shared_notebook_see_what_the_agent_does(tmp_path):
    """With `jupyter-collaboration`, where the server has the notebook."""
    with Lab(tmp_path, python=python_in(".venv-rtc"), JUPYTER_PATH="") as lab:
        page = lab.open("shared.ipynb", [SETUP, "x = 1"], fresh=True)
        other = lab.visit("lab/tree/shared.ipynb")
        lab.wait_for_kernel(other)
        lab.run_cell(page, 0)
        do(lab, page, CHANGES.rpartition("await notebook.move")[0])
        expect(other.locator(".jp-Cell")).to_have_count(4)
        expect(other.locator(".jp-OutputArea-output", has_text="two")).to_have_count(1)
        bar = other.get_by_role("region", name="Changed by the agent")
        expect(bar).to_contain_text("2 cells added, 1 edited")
        expect(other.locator(".nbagent-written")).to_have_count(3)
        bar.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("region", name="Changed by the agent")).to_have_count(0)
        assert sources(page) == sources(other) == [SETUP, "x = 1"]
        page.evaluate(f"() => void ({SAVE})()")  # the server saves shared notebooks: this promise may never settle
        saved = page.wait_for_function(  # which does not wait for promises
            """() => {
                const request = new XMLHttpRequest();
                request.open('GET', '/api/contents/shared.ipynb', false);
                request.send();
                const { content } = JSON.parse(request.responseText);
                return content && !('nbagent' in content.metadata) && content;
            }""",
            polling=500,
        )
        nbformat.validate(saved.json_value())
