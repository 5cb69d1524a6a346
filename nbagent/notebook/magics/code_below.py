"""Puts the code of an answer into a cell below the prompt's cell (`--as code`)."""

from __future__ import annotations

from typing import Any

from nbagent.core.background import background_loop
from nbagent.core.cells import cell_id_of, is_watched


class CodeBelow:
    """Knows the code that each cell has put below itself. A kernel alone can add cells, but not change them."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._put: dict[str, str] = {}  # by cell

    def put(self, code: str, again: bool) -> None:
        """Put code below the running cell, and the cursor into it.

        If the cell runs again, its earlier code is replaced, but not with `again`. Only some front ends can change a
        cell. Others add a cell with the new code.
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
            print("The code is the same as before: no cell was added. --keep adds one.")
        else:
            self._shell.set_next_input(code, replace=False)
            on_loop(answer_buttons().enter_code, code, cell_id)
            if before is not None:
                print("The new code is in the cell below. The cell with the code from before is still there.")
