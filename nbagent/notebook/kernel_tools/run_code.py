"""What the tool `run_code` does: run code in the notebook's namespace, show and keep what it prints, end in time."""

from __future__ import annotations

import ast
import io
import linecache
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from IPython.display import display

from nbagent.functions.formatting import format_error, format_result, truncate_result

#: Characters that are kept of what code prints, and of its value.
_PRINTED, _VALUE = 20_000, 6_000
_numbers = count(1)


def run_and_tell(code: str, namespace: dict[str, Any], seconds: float) -> str:
    """Run code, show what it prints and the value of its last line, and give both as a text; or the error.

    On the main thread, code that takes longer than `seconds` is stopped. Raises only KeyboardInterrupt and SystemExit.
    """
    filename = f"<run_code {next(_numbers)}>"
    linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
    said: list[str] = []
    with _printed() as text:
        try:
            with _within(seconds):
                value = _execute(code, filename, namespace)
                if value is not None:
                    display(value)
                    said.append(_as_text(value))
        except _OverdueError:
            said = [f"Error: TimeoutError: the code did not end within {seconds:g} s and was stopped."]
        except Exception as error:  # noqa: BLE001  any code may raise anything: the model reads it
            said = [format_error(error)]
    printed = text.getvalue().rstrip()
    return "\n".join([*([printed] if printed else []), *said]) or "Done, without output."


def _execute(code: str, filename: str, namespace: dict[str, Any]) -> Any:
    """Run it; the value is that of the last line, where that is an expression."""
    tree = ast.parse(code, filename)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, filename, "exec"), namespace)  # noqa: S102  what this tool is for; it asks before
        return None
    del tree.body[-1]
    exec(compile(tree, filename, "exec"), namespace)  # noqa: S102  as above
    return eval(compile(ast.Expression(last.value), filename, "eval"), namespace)  # noqa: S307


def _as_text(value: Any) -> str:
    content = format_result(value)
    return str(truncate_result(content, _VALUE)[0]) if isinstance(content, str) else f"<{type(value).__name__}, shown>"


class _Tee(io.TextIOBase):
    """Passes on all that is written, so that it appears in the cell; keeps the beginning of what one thread writes."""

    def __init__(self, beyond: Any, kept: io.StringIO) -> None:
        self._beyond = beyond
        self._kept = kept
        self._thread: int | None = threading.get_ident()

    def write(self, text: str) -> int:
        """Pass it on; keep it, if the code's own thread wrote it and there is room."""
        if threading.get_ident() == self._thread:
            self._kept.write(text[: max(_PRINTED - self._kept.tell(), 0)])
        self._beyond.write(text)
        return len(text)

    def flush(self) -> None:
        """Pass it on."""
        self._beyond.flush()

    def end(self) -> None:
        """Keep nothing more: the code may have given the stream to a logger, say, that outlives it."""
        self._thread = None


@contextmanager
def _printed() -> Iterator[io.StringIO]:
    """What this thread prints meanwhile, to both of its streams."""
    kept = io.StringIO()
    before = sys.stdout, sys.stderr
    tees = sys.stdout, sys.stderr = _Tee(sys.stdout, kept), _Tee(sys.stderr, kept)
    try:
        yield kept
    finally:
        sys.stdout, sys.stderr = before
        for tee in tees:
            tee.end()


class _OverdueError(BaseException):
    """The time is over. Not an Exception, so that `except Exception` in the code does not catch it."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """On the main thread, what takes longer is stopped; where there is no such signal, it runs on."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise _OverdueError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
