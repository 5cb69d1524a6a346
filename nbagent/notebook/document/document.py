"""`NotebookDocument`: reads, changes and runs the cells of a notebook in an open page or a file, and undoes changes.

A back end implements a few atomic operations. `LiveNotebook` works through the page that shows the notebook, and
`FileNotebook` on a file, with its own kernel.
"""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from nbagent.core.current import current
from nbagent.core.messages import Content
from nbagent.errors import ToolError
from nbagent.notebook.document.cell import Kind, NotebookCell, digest
from nbagent.notebook.document.changes import KEPT_RUNS, CellDiff, Change, note_change
from nbagent.notebook.document.reading import read_cell

#: Seconds that one cell may run.
CELL_SECONDS = 60.0
#: Characters of one cell's outputs that the journal keeps in the notebook's file.
KEPT_CHARS = 100_000
#: Replaces longer outputs once the process that knew them has ended.
TOO_LONG = {
    "output_type": "stream",
    "name": "stderr",
    "text": "This cell's outputs were too long to be kept for an undo after a restart. Run the cell again.\n",
}
_NOTHING: dict[str, Any] = {"outputs": [], "execution_count": None}


class CellChangedError(ToolError):
    """The cell is not in the state that the caller expects: somebody has changed it, is typing in it, or has deleted
    it.
    """


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that waits for approval: its safe HTML, and the new source if the user may edit it.

    The proposal appears in the cell with the id `cell_id`, or below that cell if it adds a cell. For a new cell, None
    means the end of the notebook, and "" the top.
    """

    html: str
    cell_id: str | None
    adds: bool = False
    source: str | None = None


class NotebookDocument(ABC):
    """A notebook whose cells are addressed by their ids. Changes are marked with their run and can be undone.

    A method with an `expected` argument changes the cell only if its source equals that text. Otherwise, the method
    raises `CellChangedError`. In a page, it also raises this error if the user is typing in the cell.

    >>> document = FileNotebook("report.ipynb")                                 # doctest: +SKIP
    >>> cell = await document.insert("orders.describe()")                       # doctest: +SKIP
    >>> await document.run(cell.id); print(await document.read(cell.id))        # doctest: +SKIP
    >>> await document.undo()                                                   # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: A cell's outputs before a run changed it, by run and cell. The journal also has them, unless they are long.
        self._shown: dict[tuple[str, str], dict[str, Any]] = {}

    @abstractmethod
    async def cells(self) -> list[NotebookCell]:
        """All cells, from top to bottom."""

    @abstractmethod
    async def _insert(self, place: int, cell: NotebookCell) -> None:
        """Insert a cell with its outputs before the cell at `place`, from 0."""

    @abstractmethod
    async def _replace(self, cell: NotebookCell, expected: str) -> None:
        """Replace the source, metadata, outputs and count of the cell with this id."""

    @abstractmethod
    async def _move(self, cell_id: str, place: int) -> None:
        """Move a whole cell to `place`."""

    @abstractmethod
    async def _delete(self, cell_id: str, expected: str) -> None:
        """Remove a cell."""

    @abstractmethod
    async def _execute(self, cell: NotebookCell, seconds: float) -> None:
        """Run a code cell. Its outputs and count appear in the notebook; an error is one of them."""

    @abstractmethod
    async def _note(self) -> dict[str, Any]:
        """The notebook's `metadata.nbagent`; empty if there is none."""

    @abstractmethod
    async def _set_note(self, note: dict[str, Any]) -> None:
        """Replace `metadata.nbagent`. An empty note is removed."""

    async def cell(self, cell_id: str) -> NotebookCell:
        """The cell with this id. Raises `CellChangedError` if there is none."""
        cells, place = await self._placed(cell_id)
        return cells[place]

    async def read(self, cell_id: str, outputs: bool = True) -> Content:
        """Return a cell as a model reads it: its source and its outputs as text, tables and images, without secrets."""
        cells, place = await self._placed(cell_id)
        return read_cell(cells[place], place + 1, outputs=outputs)

    async def _placed(self, cell_id: str) -> tuple[list[NotebookCell], int]:
        """All cells, and the place of the cell with this id."""
        cells = await self.cells()
        for place, cell in enumerate(cells):
            if cell.id == cell_id:
                return cells, place
        raise _no_cell(cell_id)

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """Allow one change at a time: the journal is read, extended and written. Works on any event loop."""
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110  an asyncio.Lock belongs to one loop
            await asyncio.sleep(0.02)
        try:
            yield
        finally:
            self._lock.release()

    async def insert(self, source: str, kind: Kind = "code", below: str | None = None) -> NotebookCell:
        """Add a cell below the cell with the id `below`, and return it. By default, add the cell at the end; with "",
        add it at the top.
        """
        async with self._changing():
            run_id = _run_id()
            place = _place_below([each.id for each in await self.cells()], below)
            cell = NotebookCell(kind, source).marked(run_id)
            await self._insert(place, cell)
            await self._keep(Change(run_id, cell.id, "add", after=digest(source)), cell)
            return cell

    async def edit(self, cell_id: str, source: str, expected: str | None = None) -> NotebookCell:
        """Replace a cell's source, and remove its outputs. Returns the cell."""
        async with self._changing():
            run_id, before = _run_id(), await self.cell(cell_id)
            shown = self._shown_before(run_id, before)
            cell = replace(before, source=source, outputs=[], execution_count=None).marked(run_id)
            await self._replace(cell, before.source if expected is None else expected)
            await self._keep(Change(run_id, cell_id, "edit", before.source, digest(source), shown=shown), cell)
            return cell

    async def move(self, cell_id: str, below: str | None = None) -> None:
        """Move a cell below the cell with the id `below`. By default, move it to the end; with "", to the top."""
        async with self._changing():
            cells, place = await self._placed(cell_id)
            if below == cell_id:
                return
            cell, above = cells[place], _id_above(cells, place)
            await self._move(cell_id, _place_below([each.id for each in cells if each is not cell], below))
            await self._keep(Change(_run_id(), cell_id, "move", after=digest(cell.source), below=above), cell)

    async def delete(self, cell_id: str, expected: str | None = None) -> None:
        """Remove a cell. The journal keeps the cell, so `undo` can restore it with its outputs."""
        async with self._changing():
            cells, place = await self._placed(cell_id)
            cell, above = cells[place], _id_above(cells, place)
            await self._delete(cell_id, cell.source if expected is None else expected)
            await self._keep(Change(_run_id(), cell_id, "delete", cell.to_nbformat(), below=above), None)

    async def run(self, cell_id: str, seconds: float = CELL_SECONDS) -> NotebookCell:
        """Run a code cell and wait until it ends. Returns the cell with its outputs, including any error.

        The code is stopped after `seconds`. A cell that is not a code cell is returned unchanged.
        """
        cell = await self.cell(cell_id)
        if cell.kind != "code":
            return cell
        run_id = _run_id()
        shown = self._shown_before(run_id, cell)
        await self._execute(cell, seconds)
        async with self._changing():
            after = await self.cell(cell_id)
            await self._keep(Change(run_id, cell_id, "run", after=digest(after.source), shown=shown), after)
            return after

    def _shown_before(self, run_id: str, cell: NotebookCell) -> dict[str, Any] | None:
        """Keep a cell's outputs before a run first changes it. Returns the part that the journal keeps."""
        if (run_id, cell.id) in self._shown or cell.run_id == run_id:
            return None
        shown = {"outputs": cell.outputs, "execution_count": cell.execution_count}
        self._shown[run_id, cell.id] = shown
        if len(json.dumps(shown)) > KEPT_CHARS:
            shown = {**shown, "outputs": [TOO_LONG]}
        return shown if cell.outputs else None

    def show_proposal(self, proposal: Proposal, answer: Callable[[bool | str], None]) -> Callable[[], None]:
        """Show a proposed change in its place in the notebook until the user decides, if the back end can do so.
        Returns a function that removes the proposal. A decision in the notebook is passed to `answer`.
        """
        return lambda: None

    async def changes(self) -> list[Change]:
        """The changes of recent runs, oldest first."""
        return [Change(**entry) for entry in (await self._note()).get("changes", ())]

    async def diff(self, run_id: str | None = None) -> list[CellDiff]:
        """A run's overall change to each cell, in the order of the changes. The default is the last run."""
        _, changes = _of_run(await self.changes(), run_id)
        now = {cell.id: (number, cell.source) for number, cell in enumerate(await self.cells(), 1)}
        before: dict[str, str | None] = {}
        for change in changes:
            if change.kind in ("add", "edit", "delete"):
                before.setdefault(change.cell_id, change.source)
        found = [(*now.get(cell_id, (0, None)), cell_id, source) for cell_id, source in before.items()]
        return [CellDiff(number, cell_id, was, is_) for number, is_, cell_id, was in found if was != is_]

    async def undo(self, run_id: str | None = None) -> list[str]:
        """Undo the changes made by a run, by default the last one.

        A cell that somebody has changed since then is skipped and stays in the journal. Returns the ids of the skipped
        cells.
        """
        async with self._changing():
            kept: dict[str, None] = {}
            journal = await self.changes()
            run_id, changes = _of_run(journal, run_id)
            first = {change.cell_id: change.shown for change in reversed(changes) if change.shown}
            shown = {**first, **{cell_id: each for (run, cell_id), each in self._shown.items() if run == run_id}}
            runs = {each.run_id for each in journal}
            for change in reversed(changes):
                if change.cell_id not in kept and not await self._undo_one(change, shown, runs):
                    kept[change.cell_id] = None
            await self._forget(journal, run_id, kept)
            return [*reversed(kept)]

    async def accept(self, run_id: str | None = None) -> None:
        """Accept the changes made by a run (by default the last), and remove its marks and its part of the journal."""
        async with self._changing():
            journal = await self.changes()
            await self._forget(journal, _of_run(journal, run_id)[0], {})

    async def _keep(self, change: Change, cell: NotebookCell | None) -> None:
        await self._append(change.to_json())
        note_change(change, cell)

    async def _append(self, entry: dict[str, Any]) -> None:
        """Add an entry to the journal, which covers recent runs only."""
        entries = [*(await self._note()).get("changes", ()), entry]
        runs = list(dict.fromkeys(each["run_id"] for each in reversed(entries)))[:KEPT_RUNS]
        await self._set_note({"changes": [each for each in entries if each["run_id"] in runs]})

    async def _forget(self, journal: list[Change], run_id: str | None, kept: dict[str, None]) -> None:
        """Remove a run's changes from the journal, and its marks from the cells, except for cells in `kept`."""
        rest = [each for each in journal if each.run_id != run_id or each.cell_id in kept]
        marks = {each.cell_id: each.run_id for each in rest}
        for cell in await self.cells():
            if cell.run_id is not None and cell.run_id == run_id and marks.get(cell.id) != run_id:
                await self._replace(cell.marked(marks.get(cell.id)), cell.source)
        await self._set_note({"changes": [each.to_json() for each in rest]} if rest else {})
        for run, cell_id in list(self._shown):
            if run == run_id and cell_id not in kept:
                del self._shown[run, cell_id]

    async def _undo_one(self, change: Change, shown: dict[str, dict[str, Any]], runs: set[str]) -> bool:
        """Undo one change. Returns whether that was possible.

        `shown` has the cells' outputs before the run, by cell id. `runs` are the runs in the journal.
        """
        cells = await self.cells()
        cell = next((each for each in cells if each.id == change.cell_id), None)
        others = [each.id for each in cells if each.id != change.cell_id]
        place = others.index(change.below) + 1 if change.below in others else len(others) if change.below else 0
        if change.kind == "delete" and cell is None:
            deleted = NotebookCell.from_nbformat(change.before)  # another run may have been accepted since
            await self._insert(place, deleted if deleted.run_id in runs else deleted.marked(None))
            return True
        if cell is None or digest(cell.source) != change.after:
            return False
        try:
            if change.kind == "add":
                await self._delete(cell.id, cell.source)
            elif change.kind == "move":
                await self._move(cell.id, place)
            else:
                source = change.before if change.kind == "edit" else cell.source
                await self._replace(replace(cell, source=source, **shown.get(cell.id, _NOTHING)), cell.source)
        except CellChangedError:
            return False
        return True


def _run_id() -> str:
    """The agent's run that this code belongs to; "" if there is none."""
    return current.get().call.run_id or ""


def _of_run(journal: list[Change], run_id: str | None) -> tuple[str | None, list[Change]]:
    """A run and its changes, by default the last one."""
    run_id = journal[-1].run_id if run_id is None and journal else run_id
    return run_id, [change for change in journal if change.run_id == run_id]


def _id_above(cells: list[NotebookCell], place: int) -> str:
    """The id of the cell above a place; "" for the first one."""
    return cells[place - 1].id if place else ""


def _place_below(ids: list[str], below: str | None) -> int:
    """The place below a cell among these cells. Raises `CellChangedError` if there is none."""
    if not below:
        return len(ids) if below is None else 0
    if below not in ids:
        raise _no_cell(below)
    return ids.index(below) + 1


def _no_cell(cell_id: str) -> CellChangedError:
    return CellChangedError(f"there is no cell {cell_id!r}: it was deleted, or the id is wrong. List the cells.")
