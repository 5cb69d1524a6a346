"""The tutorial notebooks: checks besides nbval's comparison of their cells with the saved outputs."""

import re
import sys
import tempfile
from pathlib import Path

import html5lib
import nbformat
import papermill
import pytest
from nbconvert import HTMLExporter
from nbval.plugin import comment_markers, metadata_tags
from traitlets.config import Config

from nbagent.text import without_keys

FOLDER = Path(__file__).parents[1] / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))
#: For each notebook with a cell of parameters: other values than those in the cell.
PARAMETERS = {"09_reproducible": {"species": "Adelie"}}
#: What tells nbval to be less strict, or a runner to leave a cell out.
LENIENT = (metadata_tags.keys() | comment_markers.keys() | {"skip-execution"}) - {
    "nbval-check-output", "NBVAL_CHECK_OUTPUT",
}  # fmt: skip
WHY = re.compile(r"^# nbval: \w+.* \w+", re.MULTILINE)
MACHINE = re.compile(
    r"(?<![\w.:/])/(?:home|Users|root|tmp|private|var|usr|opt|mnt|work)/\S+|\b[A-Z]:\\\w+|/ipykernel_\d+"
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # from the hosts
each = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def is_lenient(cell):
    comments = {line.lstrip("# ") for line in cell.source.splitlines() if line.startswith("#")}
    return bool(LENIENT & ({*cell.metadata.get("tags", [])} | comments))


def without_reason(notebook):
    """Return the code cells that are not compared, or fail, without a reason."""
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [cell.source for cell in code if is_lenient(cell) and not WHY.search(cell.source)]


def loaded_by(page):
    """Return the addresses that a page loads, and the code of its scripts."""
    tree = html5lib.parse(page, namespaceHTMLElements=False)
    nodes = list(tree.iter())
    styles = " ".join((node.text or "") if node.tag == "style" else node.get("style") or "" for node in nodes)
    addresses = {node.get("src") or (node.get("href") if node.tag == "link" else None) for node in nodes}
    addresses |= set(re.findall(r"(?:url\(|@import\s)['\"]?([^)'\"\s]+)", styles))
    addresses = {address for address in addresses if address and not address.startswith("data:")}
    return addresses, {node.text for node in nodes if node.tag == "script"}


def as_page(notebook):
    return HTMLExporter().from_notebook_node(notebook)[0]


@each
def test_each_cell_without_comparison_gives_a_reason(path):
    assert not without_reason(read(path))


@each
def test_the_file_has_the_form_that_make_notebook_saves(path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    from save import tidy

    tidied = read(path)
    tidy(tidied, path.stem)
    assert nbformat.writes(tidied) == path.read_text("utf-8").rstrip("\n"), (
        f"make notebook NOTEBOOKS=notebooks/{path.name}"
    )
    assert tidied.metadata.kernelspec.name == "python3"
    code = [cell for cell in tidied.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)]


@each
def test_it_starts_with_a_title_and_ends_with_an_exercise(path):
    cells = read(path).cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert re.findall("^## .*", text, re.MULTILINE)[-1] == "## Exercise"


@each
def test_it_contains_no_local_path_and_no_key(path):
    text = path.read_text("utf-8")
    assert not MACHINE.findall(text)
    assert sys.prefix not in text
    assert without_keys(text) == text


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def test_each_notebook_with_a_parameters_cell_has_test_parameters():
    with_parameters = [path.stem for path in PATHS if "parameters" in str([c.metadata for c in code_cells(path)])]
    assert with_parameters == list(PARAMETERS)


@pytest.mark.full
@pytest.mark.kernel
@pytest.mark.local_model
@pytest.mark.parametrize("name", PARAMETERS)
def test_a_notebook_with_parameters_runs_under_papermill(name, tmp_path):
    with tempfile.TemporaryDirectory(prefix="kernel") as sockets:  # because another kernel could take a port first
        papermill.execute_notebook(
            FOLDER / f"{name}.ipynb",
            tmp_path / "ran.ipynb",
            PARAMETERS[name],
            cwd=FOLDER,
            progress_bar=False,
            config=Config(KernelManager={"transport": "ipc", "ip": f"{sockets}/socket"}),
        )
    ran = code_cells(tmp_path / "ran.ipynb")
    for variable, value in PARAMETERS[name].items():
        assert any(f"{variable} = {value!r}" in cell.source.replace('"', "'") for cell in ran)
        assert value in str([cell.outputs for cell in ran])


@pytest.fixture(scope="module")
def frame():
    """Return what nbconvert's page loads for any notebook: its own MathJax and require.js."""
    return loaded_by(as_page(nbformat.v4.new_notebook(metadata=read(PATHS[0]).metadata)))


@each
def test_its_html_needs_no_network_and_no_script(path, frame):
    notebook = read(path)
    addresses, scripts = loaded_by(as_page(notebook))
    assert addresses >= frame[0], "the page is readable without them"
    assert all((FOLDER / address).is_file() for address in addresses - frame[0])
    assert scripts == frame[1]
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shown = output.get("data", {"text/plain": output.get("text", "")})
            assert {"text/html", "image/png", "text/plain", "text/markdown"} & shown.keys()
            if shown.keys() == {"text/plain"}:
                assert not re.search(r"<.+ object at |VBox\(|HBox\(|^<Axes", shown["text/plain"]), shown
