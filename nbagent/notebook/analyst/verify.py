"""Checks whether a notebook still runs from top to bottom in a new, separate kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from symtable import symtable
from typing import Any, Literal

from nbagent.checks import check_type
from nbagent.core.background import blocking
from nbagent.errors import ConfigurationError
from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.document.document import CELL_SECONDS, NotebookDocument
from nbagent.notebook.document.file import FileNotebook
from nbagent.notebook.document.own_kernel import OwnKernel
from nbagent.text import shortened

#: A cell with this tag may raise, as in nbclient and nbconvert.
RAISES = "raises-exception"
#: The outputs of a cell with such a comment or tag are not compared, as in nbval.
_IGNORED = re.compile(r"^\s*#\s*NBVAL_(IGNORE_OUTPUT|SKIP)\b", re.MULTILINE)
_IGNORED_TAGS = {"nbval-ignore-output", "nbval-skip"}
#: Object addresses differ in each process.
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_SHOWN_CHARS = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a cell. `number` is the cell's position, counted from 1.

    - "failed": the cell raises an error, or was stopped
    - "hidden": the cell needs a name that no cell above it defines
    - "differs": the cell's outputs differ from the saved outputs
    """

    number: int
    cell_id: str
    kind: Literal["failed", "hidden", "differs"]
    text: str

    def __str__(self) -> str:
        return f"cell {self.number} ({self.cell_id}) {self.text}"


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of a check: the number of code cells that ran, and their problems.

    >>> print(Verification(2, (Problem(3, "b2", "failed", "raises KeyError: 'price'"),)))
    Of 2 code cells, 1 has a problem:
    - cell 3 (b2) raises KeyError: 'price'
    """

    cells: int
    problems: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all cells ran and produced the saved outputs."""
        return not self.problems

    def __str__(self) -> str:
        cells = f"{self.cells} code cell{'s' * (self.cells != 1)}"
        if self.ok:
            return f"{cells} ran in a fresh kernel, and the outputs match the saved ones."
        have = "1 has a problem" if len(self.problems) == 1 else f"{len(self.problems)} have problems"
        return "\n- ".join([f"Of {cells}, {have}:", *map(str, self.problems)])


async def verify_notebook(
    notebook: str | Path | NotebookDocument,
    *,
    kernel: str | None = None,
    seconds: float = CELL_SECONDS,
    on_cell: Callable[[int, int], None] | None = None,
) -> Verification:
    """Run all code cells from top to bottom in a fresh kernel, and compare their outputs with the saved ones.

    The notebook and its own kernel stay unchanged, but code that changes files or calls servers does so again. Texts
    are compared line by line. For plots and other displays, only the output types are compared. Outputs are not
    compared if the cell never ran, or if it has the tag `nbval-ignore-output` or the comment `# NBVAL_IGNORE_OUTPUT`. A
    cell with the tag `raises-exception` may raise an error.

    `kernel` is the name of an installed kernel, by default the notebook's. Each cell may run for up to `seconds`.
    `on_cell` is called before each code cell with its position among the code cells, counted from 1, and the number of
    code cells. Raises ConfigurationError if there is no such file or kernel.

    >>> print(await verify_notebook("report.ipynb"))                                # doctest: +SKIP
    12 code cells ran in a fresh kernel, and the outputs match the saved ones.
    """
    if not isinstance(notebook, NotebookDocument):
        check_type("notebook", notebook, str, Path)
        notebook = FileNotebook(notebook, kernel)
        if notebook.is_new:
            raise ConfigurationError(f"there is no notebook {str(notebook.path)!r}.")
    cells = await notebook.cells()
    fresh = OwnKernel(Path.cwd(), kernel or "python3")
    if isinstance(notebook, FileNotebook):
        fresh = OwnKernel(notebook.kernel.folder, kernel or notebook.kernel.name)
    code = [cell for cell in cells if cell.kind == "code"]
    shown: dict[str, list[dict[str, Any]]] = {}
    try:
        for place, cell in enumerate(code, 1):
            if on_cell is not None:
                on_cell(place, len(code))
            shown[cell.id], _ = await fresh.run(cell.source, seconds)
            if not fresh.is_running:
                break
    finally:
        await fresh.stop()
    ran = [replace(cell, outputs=shown.get(cell.id, [])) for cell in cells]
    problems = {problem.cell_id: problem for problem in [*_differences(cells, shown), *failures(ran)]}
    return Verification(len(shown), tuple(sorted(problems.values(), key=lambda problem: problem.number)))


verify_notebook_sync = blocking(verify_notebook)


def failures(cells: Sequence[NotebookCell]) -> list[Problem]:
    """The problems of cells that raised an error. If a name is missing, the problem says which cell defines it."""
    found: list[Problem] = []
    for number, cell in enumerate(cells, 1):
        error = cell.error
        if error is None or RAISES in cell.metadata.get("tags", ()):
            continue
        raised = f"{error['ename']}: {error['evalue']}" if error["evalue"] else error["ename"]
        name = re.match(r"name '(\w+)' is not defined", error["evalue"]) if error["ename"] == "NameError" else None
        hidden = _hidden(name[1], number, cells, {each.number for each in found}) if name else ""
        kind: Literal["failed", "hidden"] = "hidden" if hidden else "failed"
        found.append(Problem(number, cell.id, kind, hidden or f"raises {shortened(raised, 4 * _SHOWN_CHARS)}"))
    return found


def _hidden(name: str, number: int, cells: Sequence[NotebookCell], failed: set[int]) -> str:
    """Why a name is missing in the cell of this number; "" if a cell above it should have defined it."""
    defining = [place for place, cell in enumerate(cells, 1) if cell.kind == "code" and name in _defined(cell.source)]
    above = [place for place in defining if place < number]
    if above:
        return f"needs {name!r} of cell {above[-1]}, which failed" if above[-1] in failed else ""
    below = [place for place in defining if place > number]
    if below:
        return f"needs {name!r}, which only cell {below[0]} below it defines"
    if defining:
        return f"uses {name!r} before it defines it"
    return f"needs {name!r}, which no cell defines"


def _defined(source: str) -> set[str]:
    """The names that a cell defines at its top level, apart from its magics."""
    plain = re.sub(r"^([ \t]*)[%!].*$", r"\1pass", source, flags=re.MULTILINE)
    try:
        table = symtable(plain, "cell", "exec")
    except (SyntaxError, ValueError):
        return set()
    return {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}


def _differences(cells: Sequence[NotebookCell], shown: dict[str, list[dict[str, Any]]]) -> list[Problem]:
    """The cells whose outputs differ from the saved ones."""
    found: list[Problem] = []
    for number, cell in enumerate(cells, 1):
        is_ignored = _IGNORED.search(cell.source) or _IGNORED_TAGS.intersection(cell.metadata.get("tags", ()))
        if cell.id not in shown or cell.execution_count is None or is_ignored:
            continue
        saved, now = _compared(cell.outputs), _compared(shown[cell.id])
        if saved != now:
            pairs = zip([*saved, *[""] * len(now)], [*now, *[""] * len(saved)], strict=False)
            before, after = next(pair for pair in pairs if pair[0] != pair[1])
            text = f"shows {_quoted(after)} now, where {_quoted(before)} is saved"
            found.append(Problem(number, cell.id, "differs", text))
    return found


def _compared(outputs: list[dict[str, Any]]) -> list[str]:
    """The comparable part of outputs: lines of text, and the types of other displays, without warnings or logs."""
    printed = "".join(each["text"] for each in outputs if each.get("name") == "stdout")
    lines = printed.splitlines()
    for output in outputs:
        if output["output_type"] == "error":
            lines.append(output["ename"])
        elif output["output_type"] != "stream":
            data = output["data"]
            is_text = "text/plain" in data and not any(kind.startswith("image/") for kind in data)
            lines += data["text/plain"].splitlines() if is_text else [", ".join(sorted(data))]
    return [_ADDRESS.sub("0x…", line) for line in lines]


def _quoted(line: str) -> str:
    return repr(shortened(line, _SHOWN_CHARS)) if line else "nothing"
