"""Tutorial notebooks in real JupyterLab: they run from top to bottom.

`make test` runs all of them in kernels. Here are those with a panel, and with calls that wait for approval.
"""

import shutil
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

FOLDER = Path(__file__).parents[2] / "notebooks"
#: Runs all cells to the end. What needs approval waits for the reader, who denies it: so does the saved notebook.
RUN = """async () => {
    const deny = () => [...document.querySelectorAll('.jp-OutputArea button:enabled')].forEach(button => {
        if (button.innerText == 'Deny' && !button.dataset.denied) { button.dataset.denied = true; button.click(); }
    });
    const observer = new MutationObserver(deny);
    observer.observe(document.body, {childList: true, subtree: true, attributes: true});
    await window.jupyterapp.commands.execute('notebook:run-all-cells');
    observer.disconnect();
}"""
CODE = "window.jupyterapp.shell.currentWidget.context.model.toJSON().cells.filter(cell => cell.cell_type == 'code')"


@pytest.fixture(scope="module")
def folder(lab):
    """A copy of the notebooks, their data and their pictures in JupyterLab's folder."""
    return Path(shutil.copytree(FOLDER, lab.folder / "notebooks", ignore=shutil.ignore_patterns("__pycache__")))


def results_of(cells):
    """The results of the cells as text, by their code, without those that may differ."""
    found = {}
    for cell in cells:
        results = [output["data"] for output in cell.get("outputs", []) if output["output_type"] == "execute_result"]
        if results and "nbval-ignore-output" not in cell["metadata"].get("tags", []):
            found["".join(cell["source"])] = "".join(results[0]["text/plain"])
    return found


@pytest.mark.parametrize("name", ["04_panel.ipynb", "08_safety.ipynb"])
def test_all_cells_run(lab, folder, name):
    page = lab.show(f"notebooks/{name}")
    page.evaluate(RUN)
    cells = page.evaluate(CODE)
    errors = {
        "".join(cell["source"]): output["evalue"]
        for cell in cells
        for output in cell["outputs"]
        if output["output_type"] == "error" and "raises-exception" not in cell["metadata"].get("tags", [])
    }
    assert not errors
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert results_of(cells) == results_of(nbformat.read(FOLDER / name, as_version=4).cells)
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)
