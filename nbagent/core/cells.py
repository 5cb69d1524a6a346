"""Finds the notebook cell to which the running code belongs, even in tasks, tools and threads that the cell started.

IPython reports when a cell starts and ends. This module does not import IPython. Without IPython, there are no cells.
"""

from __future__ import annotations

import sys
from typing import Any

from nbagent.core.current import NO_CELL, Cell, current, set_current

#: Threads that the user starts have no cell of their own. They count as part of the newest cell.
_newest = [NO_CELL]


def current_cell() -> Cell:
    """Return the cell that this code belongs to, or `NO_CELL` outside notebooks and in a widget's callback."""
    return current.get().cell or _newest[0]


def watch_cells() -> None:
    """Track each cell from now on, if IPython is running. Idempotent."""
    shell = running_shell()
    if shell is None or _begun in shell.events.callbacks["pre_run_cell"]:
        return
    shell.events.register("pre_run_cell", _begun)
    shell.events.register("post_run_cell", _ended)
    _newest[0] = _cell_of(shell, len(shell.history_manager.input_hist_parsed) - 1)
    if request_of(shell).get("msg_type", "execute_request") == "execute_request":  # otherwise a widget's callback
        set_current(cell=_newest[0])


def request_of(shell: Any) -> dict[str, Any]:
    """The kernel request, for a cell or a click, to which the running code belongs. It is empty outside a kernel."""
    kernel = getattr(shell, "kernel", None)
    parent = kernel.get_parent() if kernel is not None else None
    return dict(parent or {})


def is_watched(shell: Any) -> bool:
    """Whether a person may be present. Front ends accept input for a running cell, but nbclient and nbval don't."""
    return bool(request_of(shell).get("content", {}).get("allow_stdin", True))


def cell_id_of(shell: Any) -> str | None:
    """The id of the running cell, or None if the front end sends none."""
    cell_id: str | None = request_of(shell).get("metadata", {}).get("cellId")
    return cell_id


def running_shell() -> Any:
    """The running IPython, or None."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython() if get_ipython else None


def _begun(info: Any) -> None:
    """A cell starts. It has the next input's number: `execution_count` may already have increased."""
    shell = running_shell()
    if info.store_history:
        _newest[0] = _cell_of(shell, len(shell.history_manager.input_hist_parsed))
    elif cell_id_of(shell) in (None, current_cell().cell_id):  # code run by a cell's magic, such as `%%capture`
        return
    else:
        _newest[0] = _cell_of(shell, None)
    set_current(cell=_newest[0])


def _ended(result: Any) -> None:
    if result is None or result.info.store_history:  # None for an interrupted cell
        set_current(cell=NO_CELL)


def _cell_of(shell: Any, count: int | None) -> Cell:
    return Cell(cell_id_of(shell) or (f"In[{count}]" if count else None), count or None)
