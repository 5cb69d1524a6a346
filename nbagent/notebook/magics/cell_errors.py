"""How errors look in cells, and the last error of a cell as text for a model: what `%agent fix` explains."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Any, TypeVar

from IPython.core.error import UsageError

from nbagent.core.render.control_chars import show_control_chars

E = TypeVar("E", bound=BaseException)

#: Characters of the traceback, of which the end matters most, and of the cell.
TRACEBACK_CHARS, CELL_CHARS = 6_000, 4_000


def readable(error: E) -> E:
    """The same error, which the cell then shows as one readable block instead of a traceback through our code."""
    text = f": {show_control_chars(str(error))}" if str(error) else ""
    lines = [f"\x1b[31m{type(error).__name__}\x1b[0m{text}"]
    error.__dict__["_render_traceback_"] = lambda: lines
    return error


class LastError:
    """The last error of a cell. Wrong `%agent` lines and failed `%%agent` cells don't count: they are not user code.

    Until a cell fails, the interpreter's own last error is used.
    """

    def __init__(self) -> None:
        self._error: BaseException | None = None
        #: The code of the failed cell, and the cell's id.
        self.cell = ""
        self.cell_id: str | None = None
        #: Whether failed cells name `%agent fix`.
        self.offers_fix = True

    def note(self, result: Any, cell_id: str | None) -> bool:
        """Note how a cell ended; `result` is IPython's `ExecutionResult`. Returns whether there is an error to fix."""
        error = result.error_before_exec or result.error_in_exec
        if error is None or _is_ours(error):
            return False
        self._error, self.cell = error, getattr(result.info, "raw_cell", None) or ""
        self.cell_id = cell_id
        return not isinstance(error, KeyboardInterrupt)

    def text(self) -> str | None:
        """The failed cell and its traceback, or None if nothing has failed."""
        error = self._error or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is None or _is_ours(error):
            return None
        cell = f"The cell:\n{self.cell.strip()[:CELL_CHARS]}\n\n" if self.cell.strip() else ""
        lines = traceback.TracebackException(type(error), error, _user_frames(error.__traceback__)).format()
        return f"{cell}The error:\n{''.join(lines)[-TRACEBACK_CHARS:]}"


def _is_ours(error: BaseException) -> bool:
    """Whether the error is about how a magic was used, or comes from an agent's cell and was made `readable`."""
    return isinstance(error, UsageError) or "_render_traceback_" in error.__dict__


def _user_frames(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame of a cell on, or None if no cell's code ran, as with a SyntaxError."""
    while frames is not None and frames.tb_frame.f_globals.get("__name__") != "__main__":
        frames = frames.tb_next
    return frames


#: The last error of this notebook.
last_error = LastError()
