"""Tools to inspect the notebook, and to run code if the user approves. These tools are off by default:

>>> %agent tools add kernel                                                 # doctest: +SKIP
>>> agent = Agent(tools=kernel_tools())                                     # doctest: +SKIP

Values that look like keys are masked: see `secret_values`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import Any

from IPython.core.getipython import get_ipython

from nbagent.checks import check_number, check_type
from nbagent.core.messages import Content
from nbagent.errors import ToolError
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.secret_values import without_secrets
from nbagent.notebook.kernel_tools.cell_outputs import outputs_of
from nbagent.notebook.kernel_tools.described import described, frame_text, is_frame
from nbagent.notebook.kernel_tools.run_code import run_code
from nbagent.notebook.kernel_tools.variables import brief, user_names

#: The names of the kernel tools.
KERNEL_TOOLS = ("list_variables", "describe_variable", "peek_dataframe", "read_cell_outputs", "run_code")

_MAX_LISTED = 200
_ROWS, _MAX_ROWS = 5, 50
_CODE_SECONDS = 60.0


def kernel_tools(namespace: dict[str, Any] | None = None, seconds: float = _CODE_SECONDS) -> list[FunctionDefinition]:
    """Return the `KERNEL_TOOLS`, for `Agent(tools=…)`.

    The tools work on `namespace`, by default the notebook's namespace. Each call to `run_code` needs approval, and code
    that runs longer than `seconds` is stopped. Outside IPython, there is no `read_cell_outputs`.
    """
    check_type("namespace", namespace, dict, optional=True)
    check_number("seconds", seconds, above=0)
    shell = get_ipython()
    if namespace is None:
        if shell is None:
            raise ToolError("there is no notebook here: pass a namespace, such as globals()")
        namespace = shell.user_ns
    tools = KernelTools(namespace, shell, seconds)
    plain: list[Callable[..., Any]] = [tools.list_variables, tools.describe_variable, tools.peek_dataframe]
    if shell is not None:
        plain.append(tools.read_cell_outputs)
    definitions = [FunctionDefinition(tool.__name__, "", None, tool) for tool in plain]
    # longer than the code's limit: approval takes time, and so does the report on stopped code
    limit = seconds + 60
    running = FunctionDefinition("run_code", "", None, tools.run_code, approve=True, main_thread=True, timeout=limit)
    return [*definitions, running]


class KernelTools:
    """The tools for one namespace. `shell` is the namespace's IPython shell, if there is one."""

    def __init__(self, namespace: dict[str, Any], shell: Any = None, seconds: float = _CODE_SECONDS) -> None:
        self._namespace = namespace
        self._shell = shell
        self._seconds = seconds

    def list_variables(self, pattern: str = "*") -> str:
        """List the variables of the notebook: name, type and size or value of each.

        Args:
            pattern: only names that match, such as "df_*"
        """
        names = [name for name in self._names() if fnmatch.fnmatch(name, pattern)]
        if not names:
            return f"No variable matches {pattern!r}." if pattern != "*" else "There are no variables yet."
        lines = [f"{name}: {brief(self._namespace.get(name))}" for name in names[:_MAX_LISTED]]
        more = [f"… and {len(names) - _MAX_LISTED} more"] if len(names) > _MAX_LISTED else []
        return str(without_secrets("\n".join(lines + more)))

    def describe_variable(self, name: str) -> Any:
        """Describe one variable of the notebook: a value, a table, or a function or class with its source.

        Args:
            name: the variable's name
        """
        return described(name, self._value(name), rows=_ROWS)

    def peek_dataframe(self, name: str, rows: int = _ROWS, columns: list[str] | None = None) -> str:
        """Show the shape, the dtypes and the first rows of a DataFrame in the notebook.

        Args:
            name: the variable's name
            rows: how many rows, 50 at most
            columns: only these columns
        """
        frame = self._value(name)
        if not is_frame(frame):
            raise ToolError(f"{name}: expected a DataFrame, got {type(frame).__name__}; use describe_variable")
        if unknown := [column for column in columns or () if column not in frame.columns]:
            raise ToolError(f"{name} has no column {', '.join(unknown)}; it has {', '.join(map(str, frame.columns))}")
        return frame_text(frame, max(1, min(rows, _MAX_ROWS)), columns)

    def read_cell_outputs(self, number: int | None = None) -> Content:
        """Read a cell of the notebook and its outputs: printed text, displays and value, or its error.

        Args:
            number: the cell's number, as in In [7]; by default the last cell with an output
        """
        return without_secrets(outputs_of(self._shell).read(number))

    def run_code(self, code: str) -> Content:
        """Run Python code in the notebook, with its variables. Returns what it prints, its plots, and its last value.

        Args:
            code: the Python code
        """
        return run_code(code, self._namespace, self._seconds)

    def _names(self) -> list[str]:
        return user_names(self._namespace, getattr(self._shell, "user_ns_hidden", {}))

    def _value(self, name: str) -> Any:
        names = self._names()
        if name not in names:
            near = [known for known in names if known.lower() == name.lower()]
            hint = f"did you mean {near[0]}?" if near else "call list_variables to see them all"
            raise ToolError(f"there is no variable {name!r}: {hint}")
        return self._namespace[name]
