"""Runs code for the tool `run_code`: in the notebook's namespace, with a time limit, and with visible output."""

from __future__ import annotations

import ast
import io
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from itertools import count
from typing import Any

from IPython.display import display

from nbagent.core.current import current
from nbagent.core.messages import Content
from nbagent.core.tool_output import as_on_terminal
from nbagent.functions.formatting import MODELS_CODE, format_result, truncate_result
from nbagent.notebook.display.figures import showing_new_figures
from nbagent.notebook.kernel_tools.alarm import CellTimeoutError, alarm

#: Characters that are kept of the code's printed text, and of its value.
_PRINTED_CHARS, _VALUE_CHARS = 20_000, 6_000
_numbers = count(1)


def run_code(code: str, namespace: dict[str, Any], seconds: float) -> Content:
    """Run code and show its printed text, its plots, and the value of its last line. Returns the same outputs for the
    model.

    If the code raises an error, it is re-raised with a note of the text printed so far. On the main thread, code that
    runs longer than `seconds` is stopped, and a `TimeoutError` is raised.
    """
    filename = f"{MODELS_CODE} {next(_numbers)}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    value: Any = None
    with _printed() as text:
        try:
            with alarm(seconds, _stop), showing_new_figures():
                value = _execute(code, filename, namespace)
                if value is not None:
                    display(value)
        except CellTimeoutError:
            stopped = TimeoutError(f"the code did not end within {seconds:g} s and was stopped.")
            _note_printed(stopped, text.getvalue())
            raise stopped from None
        except Exception as error:
            _note_printed(error, text.getvalue())
            raise
    report = [as_on_terminal(text.getvalue()).rstrip(), "" if value is None else _value_text(value)]
    images = output.images() if (output := current.get().call.output) is not None else []
    text_report = "\n".join(filter(None, report))
    if images:
        return [*([{"type": "text", "text": text_report}] if text_report else []), *images]
    return text_report or "Done, without output."


def _note_printed(error: Exception, printed: str) -> None:
    if printed := as_on_terminal(printed).rstrip():
        error.add_note(f"Printed before:\n{printed}")


def _execute(code: str, filename: str, namespace: dict[str, Any]) -> Any:
    """Run the code and return the value of its last line, if that is an expression."""
    tree = ast.parse(code, filename)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, filename, "exec", dont_inherit=True), namespace)  # noqa: S102  this tool runs code that the user has approved
    if not isinstance(last, ast.Expr):
        return None
    # the last line of the same approved code, as a cell shows the value of its last line
    line = compile(ast.Expression(last.value), filename, "eval", dont_inherit=True)
    return eval(line, namespace)  # noqa: S307  its last line, approved with it


def _value_text(value: Any) -> str:
    content = format_result(value)
    return (
        str(truncate_result(content, _VALUE_CHARS)[0])
        if isinstance(content, str)
        else f"<{type(value).__name__}, shown>"
    )


class _Tee(io.TextIOBase):
    """Writes to `stream`, so the output appears in the cell, and keeps the start of the text."""

    def __init__(self, stream: Any, kept: io.StringIO) -> None:
        self._stream = stream
        self._kept = kept

    def write(self, text: str) -> int:
        self._kept.write(text[: max(_PRINTED_CHARS - self._kept.tell(), 0)])
        self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def _printed() -> Iterator[io.StringIO]:
    """Collect what the block prints to stdout and stderr."""
    kept = io.StringIO()
    with redirect_stdout(_Tee(sys.stdout, kept)), redirect_stderr(_Tee(sys.stderr, kept)):
        yield kept


def _stop() -> None:
    raise CellTimeoutError
