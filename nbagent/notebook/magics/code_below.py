"""Puts an answer's code into a cell below the prompt's cell (`--as code`)."""

from __future__ import annotations

from typing import Any

from nbagent.core.background import background_loop
from nbagent.core.cells import cell_id_of, is_watched


class CodeBelow:
    """Keeps track of the code that each cell has added below itself, so that a front end can replace it. A kernel alone
    can add cells but not change them.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._put: dict[str, str] = {}  # by cell

    def put(self, code: str, again: bool) -> None:
        """Put code into a cell below the running cell, and the cursor into that cell.

        If the running cell is run again, the code that it added before is replaced, unless `again` is set. A front end
        that can't change cells adds a cell with the new code.
        """
        cell_id = cell_id_of(self._shell)
        before = self._put.get(cell_id) if cell_id and not again else None
        if cell_id is None or not is_watched(self._shell):
            self._shell.set_next_input(code, replace=False)
            return
        self._put[cell_id] = code
        from nbagent.notebook.display.answer_buttons import answer_buttons  # loads widgets

        on_loop = background_loop().call_soon_threadsafe
        if answer_buttons().can_change_cells:
            on_loop(answer_buttons().put_code, code, cell_id, before)
        elif before == code:
            print("The code is the same as before, so no cell was added. --keep adds one.")
        else:
            self._shell.set_next_input(code, replace=False)
            on_loop(answer_buttons().enter_code, code, cell_id)
            if before is not None:
                print("The new code is in the cell below. The cell with the earlier code is still there.")
