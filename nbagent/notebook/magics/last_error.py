"""The last error of a cell, as text for a model: what `%agent fix` explains."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Any

from IPython.core.error import UsageError

#: Characters of the traceback, whose end says most, and of the cell.
TRACEBACK, CELL = 6_000, 4_000


class LastError:
    """Notes how cells end. A `%agent` line that was not understood, or an agent that failed, is no error of the user's.

    Before the extension is loaded, the interpreter's own last error stands in.
    """

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._cell = ""

    def note(self, result: Any) -> None:
        """Take notice of a cell's end; `result` is IPython's."""
        error = result.error_before_exec or result.error_in_exec
        if error is not None and not is_ours(error):
            self._error, self._cell = error, getattr(result.info, "raw_cell", None) or ""

    def text(self) -> str | None:
        """The failed cell and its traceback, or None where nothing has failed."""
        error = self._error or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is None or is_ours(error):
            return None
        cell = f"The cell:\n{self._cell.strip()[:CELL]}\n\n" if self._cell.strip() else ""
        return f"{cell}The error:\n{_formatted(error)[-TRACEBACK:]}"


def is_ours(error: BaseException) -> bool:
    """Whether an error is about how a magic was used, or one that an agent's cell showed as one readable block."""
    return isinstance(error, UsageError) or "_render_traceback_" in error.__dict__


def _formatted(error: BaseException) -> str:
    """Python's own traceback, without IPython's frames above those of the user."""
    lines = traceback.TracebackException(type(error), error, _users(error.__traceback__))
    return "".join(lines.format())


def _users(frames: TracebackType | None) -> TracebackType | None:
    """From the first frame of a cell on; nothing where no cell's code ran, as with a SyntaxError."""
    while frames is not None and frames.tb_frame.f_globals.get("__name__") != "__main__":
        frames = frames.tb_next
    return frames


#: The last error of this notebook.
last_error = LastError()
