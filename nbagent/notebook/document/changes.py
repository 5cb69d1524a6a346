"""Keeps agents' changes to a notebook in its metadata, so they can be shown and undone even after a reload.

The journal is a list under `metadata.nbagent.changes`, oldest first. Each entry has the data needed to undo the change.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from nbagent.core.current import current
from nbagent.core.events import CellChanged
from nbagent.core.render.diff import diff_lines, without_far_lines
from nbagent.notebook.document.cell import NotebookCell

ChangeKind = Literal["add", "edit", "move", "delete", "run"]

#: The journal keeps the changes of this many runs; older changes can't be undone.
KEPT_RUNS = 10


@dataclass(frozen=True, slots=True)
class Change:
    """One change to one cell by a run.

    - `before`: the earlier source if the cell was edited; the whole cell in nbformat's form if it was deleted
    - `after`: the digest of the source after the change. If the digest of the current source differs, somebody has
      changed the cell since then, and undo skips it
    - `shown`: the earlier outputs and execution count in nbformat's form, if the cell was edited or run
    - `below`: for a move or a deletion, the id of the cell that was above it; "" if it was the first cell
    """

    run_id: str
    cell_id: str
    kind: ChangeKind
    before: Any = None
    after: str = ""
    below: str = ""
    shown: Any = None

    @property
    def source(self) -> str | None:
        """The source before the change; None if the cell was added."""
        source: str | None = self.before["source"] if self.kind == "delete" else self.before
        return source

    def to_json(self) -> dict[str, Any]:
        """The change as an entry of the journal, without fields that are None."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class CellDiff:
    """A changed cell: its source before and after the change. A source is None if the cell did not exist then.

    `number` is the cell's current position, counted from 1. For a deleted cell, it is the position before the deletion,
    or 0 if that is unknown.
    """

    number: int
    cell_id: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """The difference between the sources, line by line."""
        what = " added" if self.before is None else " deleted" if self.after is None else ""
        lines = map("".join, without_far_lines(diff_lines(self.before or "", self.after or "")))
        return "\n".join([f"@@ cell {self.number} ({self.cell_id}){what} @@", *lines])


def note_change(change: Change, cell: NotebookCell | None) -> None:
    """Notify the observers of the run whose tool changed this cell. `cell` is None if the cell was deleted."""
    here = current.get()
    if here.run is None:
        return
    event = CellChanged(
        f"{change.kind} {change.cell_id}",
        here.call.tool_name,
        cell=change.cell_id,
        kind=change.kind,
        before=cell.source if cell is not None and change.kind in ("move", "run") else change.source,
        after=cell.source if cell is not None else None,
        outputs_hash=cell.outputs_hash if cell is not None and cell.outputs else None,
    )
    here.run.emit(event, {name: getattr(here.call, name) for name in ("run_id", "call_id", "tool_call_id")})
