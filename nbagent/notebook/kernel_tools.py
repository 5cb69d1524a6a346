"""Tools that let a model look at the notebook's variables, and run code if you let it. They are off until switched on:

>>> %agent tools add kernel                                                 # doctest: +SKIP
>>> agent = Agent(tools=kernel_tools())                                     # doctest: +SKIP

Names that sound like secrets are listed without their values and never described.
"""

from __future__ import annotations

import ast
import fnmatch
import inspect
import io
import linecache
import re
import signal
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from IPython.core.getipython import get_ipython

from nbagent.errors import ToolError
from nbagent.functions.formatting import format_error, format_result, shorten
from nbagent.functions.registry import FunctionDefinition

#: Their names.
KERNEL_TOOLS = ("list_variables", "describe_variable", "peek_dataframe", "run_code")

_SECRET = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)
#: What IPython itself keeps in the namespace.
_OWN = {"In", "Out", "exit", "quit", "open", "get_ipython"}
_LISTED = 200
_PREVIEW = 80
_SOURCE = 6_000
_CODE_SECONDS = 60.0
_numbers = count(1)


def kernel_tools(namespace: dict[str, Any] | None = None) -> list[FunctionDefinition]:
    """The tools `list_variables`, `describe_variable`, `peek_dataframe` and `run_code`, for `Agent(tools=…)`.

    `namespace` is the notebook's unless given. `run_code` asks for approval before each call.
    """
    if namespace is None:
        shell = get_ipython()
        if shell is None:
            raise ToolError("there is no notebook here: pass the namespace to look at, such as globals()")
        namespace = shell.user_ns
    tools = KernelTools(namespace)
    plain = (tools.list_variables, tools.describe_variable, tools.peek_dataframe)
    definitions = [FunctionDefinition(tool.__name__, "", None, tool) for tool in plain]
    running = FunctionDefinition("run_code", "", None, tools.run_code, approve=True, main_thread=True, timeout=600)
    return [*definitions, running]


class KernelTools:
    """The tools of one namespace."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace

    def list_variables(self, pattern: str = "*") -> str:
        """List the variables of the notebook: name, type and size or value of each.

        Args:
            pattern: only names that match, such as "df_*"
        """
        names = [name for name in _names(self._namespace) if fnmatch.fnmatch(name, pattern)]
        if not names:
            return f"No variable matches {pattern!r}." if pattern != "*" else "There are no variables yet."
        lines = [f"{name}: {_brief(name, self._namespace[name])}" for name in names[:_LISTED]]
        more = [f"… and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
        return "\n".join(lines + more)

    def describe_variable(self, name: str) -> Any:
        """Describe one variable of the notebook: a value, a table, or a function or class with its source.

        Args:
            name: the variable's name
        """
        value = self._value(name)
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__} {getattr(value, '__version__', '')}".strip()
        if inspect.isroutine(value) or inspect.isclass(value):
            return _described(name, value)
        return value

    def peek_dataframe(self, name: str, rows: int = 5, columns: list[str] | None = None) -> str:
        """Show the first rows of a DataFrame of the notebook, its shape and its dtypes.

        Args:
            name: the variable's name
            rows: how many rows, 50 at most
            columns: only these columns
        """
        frame = self._value(name)
        if not hasattr(frame, "head") or not hasattr(frame, "columns"):
            raise ToolError(f"{name} is no DataFrame but of type {type(frame).__name__}: use describe_variable")
        if unknown := [column for column in columns or () if column not in frame.columns]:
            raise ToolError(f"{name} has no column {', '.join(unknown)}; it has {', '.join(map(str, frame.columns))}")
        shown = frame[columns] if columns else frame
        dtypes = ", ".join(f"{column}: {dtype}" for column, dtype in zip(shown.columns, shown.dtypes, strict=True))
        head = shown.head(max(1, min(rows, 50)))
        text = head.to_string(max_colwidth=_PREVIEW) if hasattr(head, "to_string") else str(head)
        return f"{frame.shape[0]} rows x {frame.shape[1]} columns\ndtypes: {dtypes}\n{text}"

    def run_code(self, code: str) -> str:
        """Run Python code in the notebook, with its variables. Give what it prints and the value of its last line.

        Args:
            code: the Python code
        """
        filename = f"<run_code {next(_numbers)}>"
        linecache.cache[filename] = (len(code), None, code.splitlines(keepends=True), filename)
        with _printed() as text, _within(_CODE_SECONDS):
            try:
                value = _execute(code, filename, self._namespace)
            except Exception as error:  # noqa: BLE001  any code may raise anything: the model reads it
                return f"{text.getvalue()}{format_error(error)}"
        result = [] if value is None else [str(shorten(_as_text(value), _SOURCE)[0])]
        return "\n".join([*([text.getvalue().rstrip()] if text.getvalue() else []), *result]) or "Done, without output."

    def _value(self, name: str) -> Any:
        if name not in self._namespace or name not in _names(self._namespace):
            near = [known for known in _names(self._namespace) if known.lower() == name.lower()]
            hint = f"did you mean {near[0]}?" if near else "list_variables tells which there are"
            raise ToolError(f"there is no variable {name!r}: {hint}")
        if _SECRET.search(name):
            raise ToolError(f"{name} sounds like a secret: its value is not shown")
        return self._namespace[name]


def _names(namespace: Mapping[str, Any]) -> list[str]:
    """The user's own names, in the order in which they were defined."""
    hidden = getattr(get_ipython(), "user_ns_hidden", {})
    return [
        name
        for name, value in list(namespace.items())
        if not name.startswith("_") and name not in _OWN and hidden.get(name, namespace) is not value
    ]


def _brief(name: str, value: Any) -> str:
    """A variable in one line."""
    kind = type(value).__name__
    if _SECRET.search(name):
        return f"{kind} (hidden)"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if inspect.isroutine(value) or inspect.isclass(value):
        return f"{kind} {_signature(value)}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"{kind} of shape {shape}"
    if isinstance(value, (str, bytes, list, tuple, set, frozenset, dict)) and len(value) > 3:
        return f"{kind} of length {len(value)}"
    return f"{kind} {_cut(_repr(value), _PREVIEW)}"


def _described(name: str, value: Any) -> str:
    try:
        source = inspect.getsource(value)
    except (OSError, TypeError):
        source = inspect.getdoc(value) or ""
    return f"{name}{_signature(value)}\n\n{_cut(source, _SOURCE)}".rstrip()


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(…)"


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001  a broken repr is the user's
        return f"<its repr raised {type(error).__name__}>"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _as_text(value: Any) -> str:
    content = format_result(value)
    return content if isinstance(content, str) else _repr(value)


# -- running code -----------------------------------------------------------------------------------------------------


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


class _Tee(io.StringIO):
    """Keeps what one thread writes; all is passed on, so that it appears in the cell, too."""

    def __init__(self, beyond: Any) -> None:
        super().__init__()
        self._beyond = beyond
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        """Keep it, if this thread wrote it, and pass it on."""
        if threading.get_ident() == self._thread:
            super().write(text)
        self._beyond.write(text)
        return len(text)

    def flush(self) -> None:
        """Pass it on."""
        self._beyond.flush()


@contextmanager
def _printed() -> Iterator[_Tee]:
    before = sys.stdout
    sys.stdout = tee = _Tee(before)
    try:
        yield tee
    finally:
        sys.stdout = before


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """On the main thread, code that takes longer raises TimeoutError; where there is no such signal, it runs on."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"the code did not end within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
