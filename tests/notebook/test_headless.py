"""Hosts without a user: nbclient, nbconvert. Each answer is saved once, and calls are not approved."""

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from support.kernels import TIMEOUT, write_spec

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),  # the hosts' own
]

SETUP = """%load_ext nbagent
from nbagent import Agent, ChatPanel, FunctionCall, ScriptedProvider, live, tool
ran = []
@tool
def mean_by(group: str) -> dict:
    return {"Gentoo": 5076.0}
@tool(approve=True)
def wipe() -> None:
    ran.append(1)
turns = [FunctionCall("mean_by", {"group": "species"}, "a"), "**Gentoo** are heaviest. " * 50]
turns += [FunctionCall("wipe", {}, "b"), "It was denied."]
agent = Agent(ScriptedProvider(turns, delay=0.001), tools=live)"""
CHECK = "assert not ran\nassert agent.trace.runs['cell_id'].tolist() == ['In[2]', 'In[3]']"
CELLS = [SETUP, "%%agent\nWhich is heaviest?", "%%agent\nwipe it", CHECK, "ChatPanel(agent)"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_spec(tmp_path)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def notebook(*cells):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata["kernelspec"] = {"name": "tested", "display_name": "tested", "language": "python"}
    return made


def test_nbclient_saves_each_answer_once_and_nbconvert_shows_it_without_a_network(folder):
    executed = NotebookClient(notebook(*CELLS), kernel_name="tested", timeout=TIMEOUT).execute()
    answer, denied, _, panel = (cell.outputs for cell in executed.cells[1:])
    assert [[output.output_type for output in outputs] for outputs in (answer, denied)] == [["display_data"]] * 2
    assert set(answer[0].data) == {"text/html", "text/plain"}
    assert "▸ mean_by" in answer[0].data["text/plain"]
    assert "denied" in denied[0].data["text/html"]
    assert "nobody is at this notebook" in denied[0].data["text/plain"]
    assert "It was denied." in panel[-1].data["text/plain"]
    executed.metadata.pop("widgets", None)  # what store_widget_state=False leaves out
    page, _ = HTMLExporter().from_notebook_node(executed)
    assert page.count("<strong>Gentoo</strong> are heaviest.") == 2 * 50, "in the cell, and in the panel's output"
    assert "It was denied." in page
