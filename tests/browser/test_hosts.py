"""The same notebook in JupyterLab, Notebook 7 and Voila, and as a page from nbconvert without a network."""

import json
import os

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import expect
from support.lab import LOAD

pytestmark = pytest.mark.browser

SETUP = (
    LOAD
    + """from nbagent import Agent, ChatPanel, FunctionCall, ScriptedProvider, live, tool
ran = []
@tool(approve=True)
def wipe(table: str) -> str:
    ran.append(table)
    return "gone"
def made(answer="**Gentoo** are heaviest. "):
    turns = [FunctionCall("wipe", {"table": "cities"}, "a"), answer * 20, "slow " * 5000]
    return Agent(ScriptedProvider(turns, delay=0.02), tools=live)
agent, endless, other = made(), made("slow " * 500), made("```\\nx = 1\\n```\\n")"""
)
ASKS = "() => document.querySelector('.nbagent-panel').innerText.includes('asks to run')"
#: Notes whether an answer was seen before its end.
WATCH = """() => {
    const text = () => document.querySelector('.jp-Cell-outputArea:has(.nbagent)')?.innerText;
    const note = () => window.streamed ||= text()?.includes('heaviest') && !document.querySelector('.nbagent-foot');
    new MutationObserver(note).observe(document.body, {childList: true, subtree: true});
}"""
ANSWERED = "() => document.querySelectorAll('.nbagent-panel .nbagent-foot').length == 1"


@pytest.fixture(autouse=True)
def only_the_shared_page(lab):
    """No other JupyterLab stays open."""
    yield
    lab.close_others()


def asks_in_panel(page):
    """A question in the panel, whose tool is approved there."""
    box = page.locator(".nbagent-input textarea").first
    box.wait_for()
    box.press_sequentially("wipe it", delay=20)
    box.press("Enter")
    page.wait_for_function(ASKS)
    page.locator(".nbagent-panel button", has_text="Approve").first.click()
    page.wait_for_function(ANSWERED)


@pytest.mark.parametrize("path", ["lab/tree", "notebooks"], ids=["JupyterLab 4", "Notebook 7"])
def test_a_notebook(lab, path):
    name = path.replace("/", "-") + ".ipynb"
    lab.write(name, [SETUP, "%%agent\nwipe it", "ChatPanel(other)", "%%agent endless -t wipe\ngo"])
    page = lab.visit(f"{path}/{name}", "&reset")
    lab.wait_for_kernel(page)
    page.evaluate(WATCH)
    lab.command(page, "notebook:run-all-cells")
    page.locator(".nbagent-ask button", has_text="Approve").first.click()
    page.wait_for_function("window.streamed")
    page.wait_for_selector(".nbagent-foot")
    page.locator(".nbagent-ask button", has_text="Deny").first.click()
    page.wait_for_function("() => document.body.innerText.includes('slow slow')")
    lab.command(page, "kernelmenu:interrupt")
    page.wait_for_function("() => document.body.innerText.includes('Interrupted.')")
    asks_in_panel(page)
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    cells = nbformat.read(lab.folder / name, 4).cells
    answers = [output for output in cells[1].outputs if "heaviest" in str(output)]
    assert len(answers) == 1, "the updates of a display are one output"
    assert "[scripted" in answers[0].data["text/plain"]
    assert "approved: wipe(" in json.dumps(cells[1].outputs)


def test_voila(lab):
    lab.write("app.ipynb", [SETUP, "%%agent\nwipe it", "ChatPanel(other)"])
    page = lab.visit("voila/render/app.ipynb")
    asks_in_panel(page)
    buttons = page.locator(".nbagent-panel").get_by_role("group", name="This code").first
    expect(buttons.get_by_role("button")).to_have_text(["Copy"])  # there are no cells to insert
    page.locator(".nbagent-input textarea").first.fill("go on")
    page.locator(".nbagent-panel button", has_text="Send").click()
    page.wait_for_function("() => document.body.innerText.includes('slow slow')")
    page.locator(".nbagent-panel button", has_text="Stop").click()
    page.wait_for_function("() => document.body.innerText.includes('Interrupted.')")
    cell = page.locator(".nbagent").first.inner_text()
    assert "denied" in cell, "nobody can answer a cell there"
    assert "Gentoo are heaviest." in cell


@pytest.mark.parametrize("has_state", [True, False])
def test_nbconvert_without_a_network(lab, has_state):
    cells = [nbformat.v4.new_code_cell(cell) for cell in (SETUP, "%%agent\nwipe it", "ChatPanel(agent)")]
    environment = {**os.environ, "IPYTHONDIR": str(lab.folder / "ipython")}
    made = NotebookClient(nbformat.v4.new_notebook(cells=cells), kernel_name="python3", store_widget_state=has_state)
    page_text, _ = HTMLExporter().from_notebook_node(made.execute(env=environment))
    (lab.folder / "page.html").write_text(page_text)
    page = lab.visit_file(lab.folder / "page.html")
    for shown in (page.locator(".nbagent").first, page.locator(".nbagent-saved")):
        assert "Gentoo are heaviest." in shown.inner_text()
        assert shown.is_visible()
    page.locator(".nbagent summary").first.click()
    assert "nobody is at this notebook" in page.locator(".nbagent details[open]").first.inner_text()
