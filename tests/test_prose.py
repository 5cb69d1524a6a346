"""Pages, notebooks, error messages and public docstrings avoid patterns that read as translated: `support.prose`."""

from pathlib import Path

import nbformat
import pytest
from support.prose import docstrings, faults, messages, pages, sentences

import nbagent

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MODULES = sorted((ROOT / "nbagent").rglob("*.py"))


@pytest.mark.parametrize("page", [str(each.relative_to(ROOT)) for each in pages(ROOT)])
def test_pages_read_well(page):
    found = [(advice, each) for each in sentences((ROOT / page).read_text("utf-8")) for advice in faults(each)]
    assert found == [], "see the terms in CONTRIBUTING.md"


@pytest.mark.parametrize("name", [path.name for path in NOTEBOOKS])
def test_notebooks_read_well(name):
    cells = nbformat.read(ROOT / "notebooks" / name, as_version=4).cells
    texts = (each for cell in cells if cell.cell_type == "markdown" for each in sentences(cell.source))
    assert [(advice, each) for each in texts for advice in faults(each)] == []


def test_error_messages_read_well():
    texts = ((path.relative_to(ROOT), each) for path in MODULES for each in messages(path.read_text("utf-8")))
    assert [(str(path), advice, each) for path, each in texts for advice in faults(each)] == []


@pytest.mark.parametrize("name", nbagent.__all__)
def test_docstrings_of_public_names_read_well(name):
    found = [(advice, each) for each in docstrings(getattr(nbagent, name)) for advice in faults(each)]
    assert [each for each in found if each[0] != "one fact a sentence"] == [], (
        "they may separate values with semicolons"
    )
