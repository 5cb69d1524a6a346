"""Random changes by a person and agents in turn: the back ends agree, and undo keeps all of the person's changes."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch
from uuid import UUID

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_notebook import MemoryNotebook

from nbagent.core.current import changed
from nbagent.core.run_context import RunContext
from nbagent.notebook.document import cell as cell_module
from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.document.file import FileNotebook

pytestmark = pytest.mark.fuzz

PERSON = "the person"


def ran(source):
    """A cell's output in these tests."""
    return [{"name": "stdout", "output_type": "stream", "text": f"ran {source}\n"}]


OLD = [
    NotebookCell("markdown", "# Orders", "head", metadata={"z": 1, "a": [2]}),
    NotebookCell("code", "orders = 3", "load", ran("orders = 3"), 4, {"tags": ["keep"]}),
    NotebookCell("code", "orders", "show"),
]
whole = st.integers(0, 5)
#: Who, what, at which of the cells, and below which.
steps = st.tuples(
    st.sampled_from([PERSON, "run 1", "run 2"]), st.sampled_from(["add", "edit", "move", "delete", "run"]), whole, whole
)


class Kernel:
    """Replaces an `OwnKernel`."""

    is_running = False  # no widgets are asked for
    count = 0

    async def run(self, source, seconds):
        self.count += 1
        return ran(source), self.count


class Notebook(MemoryNotebook):
    async def _execute(self, cell, seconds):
        self.count += 1
        self.list[self._place(cell.id)] = replace(cell, outputs=ran(cell.source), execution_count=self.count)


async def do(document, number, step):
    """One step. Returns the id of the cell that it changed, if there is one."""
    who, what, at, below = step
    cells = await document.cells()
    if not cells and what != "add":
        return None
    cell = cells[at % len(cells)] if cells else None
    if who == PERSON:
        return await person(document, what, f"text {number}", cell, below % (len(cells) or 1))
    places = ["", *(each.id for each in cells if what == "add" or each is not cell)]
    with changed(call=RunContext(run_id=who)):
        return await agent(document, what, f"text {number}", cell, places[below % len(places)])


async def person(document, what, text, cell, place):
    """A person's changes: in a page, the document does not make them, it only sees them."""
    if what == "add":
        cell = NotebookCell("code", text)
        await document._insert(place, cell)
    elif what == "edit":
        await document._replace(replace(cell, source=text), cell.source)
    elif what == "move":
        await document._move(cell.id, place)
    elif what == "delete":
        await document._delete(cell.id, cell.source)
    elif cell.kind == "code":
        await document._execute(cell, 1)
    return cell.id


async def agent(document, what, text, cell, below):
    if what == "add":
        cell = await document.insert(text, below=below)
    elif what == "edit":
        await document.edit(cell.id, text)
    elif what == "move":
        await document.move(cell.id, below=below)
    elif what == "delete":
        await document.delete(cell.id)
    else:
        await document.run(cell.id)
    return cell.id


def documents(folder):
    """The same notebook in a file and in memory."""
    cells = [nbformat.from_dict(cell.to_nbformat()) for cell in OLD]
    path = Path(folder, "orders.ipynb")
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"theirs": {"b": 1, "a": 2}}), path)
    file = FileNotebook(path)
    file.kernel = Kernel()
    return file, Notebook(*OLD)


async def all_done(file, memory, done):
    for number, step in enumerate(done):
        with patch.object(cell_module, "uuid4", lambda number=number: UUID(int=number + 1 << 96)):
            assert await do(file, number, step) == await do(memory, number, step)
        assert await file.cells() == await memory.cells()
        assert await file.changes() == await memory.changes()


@given(st.lists(steps, max_size=12))
def test_both_back_ends_agree_and_undo_keeps_the_person_s_text(done):
    async def check():
        with TemporaryDirectory() as folder:
            file, memory = documents(folder)
            await all_done(file, memory, done)
            nbformat.validate(json.loads(file.path.read_text()))
            again = FileNotebook(file.path)
            assert (await again.cells(), await again.changes()) == (await file.cells(), await file.changes())
            theirs = {}  # the cells whose text is the person's
            for number, (who, what, *_) in enumerate(done):
                for cell in await memory.cells():
                    if who == PERSON and what in ("add", "edit") and cell.source == f"text {number}":
                        theirs[cell.id] = cell.source
            for run_id in ("run 2", "run 1"):
                with changed(call=RunContext(run_id="undo")):
                    assert await file.undo(run_id) == await memory.undo(run_id)
                assert await file.cells() == await memory.cells()
            now = {cell.id: cell.source for cell in await memory.cells()}
            assert {cell_id: now.get(cell_id) for cell_id in theirs} == theirs

    asyncio.run(check())


@given(st.lists(steps.filter(lambda step: step[0] != PERSON), max_size=12))
def test_undoing_all_runs_restores_the_notebook(done):
    async def check():
        with TemporaryDirectory() as folder:
            file, memory = documents(folder)
            old = file.path.read_bytes()
            await all_done(file, memory, sorted(done, key=lambda step: step[0]))  # one run after the other
            for document in (file, memory):
                assert await document.undo("run 2") == []
                assert await document.undo("run 1") == []
            assert file.path.read_bytes() == old
            assert memory.list == OLD
            assert memory.note == {}

    asyncio.run(check())
