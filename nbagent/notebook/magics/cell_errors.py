"""Shows errors in cells, and formats a cell's error for the model, for `%agent fix`."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from IPython.core.error import UsageError

from nbagent.core.messages import new_id
from nbagent.core.render.control_chars import show_control_chars

E = TypeVar("E", bound=BaseException)

#: Characters from the end of the traceback, and of the cell.
TRACEBACK_CHARS, CELL_CHARS = 6_000, 4_000


def readable(error: E) -> E:
    """Return the same error, changed so the cell shows one line instead of a traceback through nbagent's code."""
    text = f": {show_control_chars(str(error))}" if str(error) else ""
    lines = [f"\x1b[31m{type(error).__name__}\x1b[0m{text}"]
    error.__dict__["_render_traceback_"] = lambda: lines
    return error


@dataclass(frozen=True, slots=True)
class Failure:
    """A cell's failure. `text` has the cell's code and the traceback, for a model. `code` is the code as it ran."""

    text: str
    code: str = ""
    cell_id: str | None = None
    id: str = field(default_factory=partial(new_id, "error"))


class LastError:
    """The errors of the notebook's cells. Wrong `%agent` lines and failed `%%agent` cells don't count, because they are
    not the user's code.

    Until a cell fails, the interpreter's own last error is used.
    """

    def __init__(self) -> None:
        self._newest: Failure | None = None
        #: The last failure of each cell that has an id.
        self.of_cells: dict[str, Failure] = {}
        #: Whether failed cells name `%agent fix`.
        self.offers_fix = True

    def note(self, result: Any, cell_id: str | None) -> bool:
        """Record how a cell ended. `result` is IPython's `ExecutionResult`.

        Returns whether there is an error to fix.
        """
        error = result.error_before_exec or result.error_in_exec
        if error is None or _is_ours(error):
            return False
        code = getattr(result.info, "raw_cell", None) or ""
        self._newest = Failure(_text(error, code), code, cell_id)
        if cell_id:
            self.of_cells[cell_id] = self._newest
        return not isinstance(error, KeyboardInterrupt)

    def failure(self, cell_id: str | None = None) -> Failure | None:
        """The failure of this cell or, if it has not failed, of the last cell that failed; None if no cell failed."""
        if (noted := self.of_cells.get(cell_id or "", self._newest)) is not None:
            return noted
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        return None if error is None or _is_ours(error) else Failure(_text(error, ""))

    def hint(self) -> dict[str, str]:
        """The hint below the newest traceback, as a mimebundle. If `answer_buttons.js` is running, it turns the hint
        into a button.
        """
        place = f' data-nbagent-failed="{self._newest.id}"' if self._newest and self._newest.cell_id else ""
        words = f'<small style="opacity: .65"{place}><code>%agent fix</code> explains this error</small>'
        return {"text/html": words, "text/plain": "%agent fix explains this error"}


def _text(error: BaseException, code: str) -> str:
    cell = f"The cell:\n{code.strip()[:CELL_CHARS]}\n\n" if code.strip() else ""
    lines = traceback.TracebackException(type(error), error, _user_frames(error.__traceback__)).format()
    return f"{cell}The error:\n{''.join(lines)[-TRACEBACK_CHARS:]}"


def _is_ours(error: BaseException) -> bool:
    """Whether the error is about how a magic was used, or comes from an agent's cell and was made `readable`."""
    return isinstance(error, UsageError) or "_render_traceback_" in error.__dict__


def _user_frames(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame in a cell, or None if no cell's code ran, as with a SyntaxError."""
    while frames is not None and frames.tb_frame.f_globals.get("__name__") != "__main__":
        frames = frames.tb_next
    return frames


#: The errors of this notebook.
last_error = LastError()
