"""Tools to work in a notebook cell by cell, as a person does. These tools are off by default:

>>> %agent tools add notebook                                               # doctest: +SKIP
>>> agent = Agent(tools=notebook_tools())                                   # doctest: +SKIP

Cells are named by their ids, since their numbers change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from nbagent.checks import check_choice, check_number, check_type
from nbagent.core.current import current
from nbagent.core.history.history import estimate_tokens
from nbagent.core.messages import Content, LLMMessage
from nbagent.errors import ToolError
from nbagent.functions.preview import Preview, TextChange
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.secret_values import HIDDEN, without_secrets
from nbagent.notebook.display.code_diff import change_html
from nbagent.notebook.document.cell import Kind, NotebookCell
from nbagent.notebook.document.document import CELL_SECONDS, CellChangedError, NotebookDocument, Proposal
from nbagent.notebook.document.modes import MODES, Mode, runs_shell
from nbagent.notebook.document.reading import read_cell
from nbagent.notebook.kernel_tools.reading import SOURCE_CHARS, joined
from nbagent.text import shortened

#: The names of the notebook tools.
NOTEBOOK_TOOLS = ("list_cells", "read_cell", "add_cell", "edit_cell", "run_cells", "move_cell", "delete_cell")

#: Characters of a cell's first line in the list.
_LINE_CHARS = 80
_LANGUAGES: dict[Kind, str] = {"code": "python", "markdown": "", "raw": ""}


def notebook_tools(
    document: NotebookDocument | None = None, mode: Mode = "ask", seconds: float = CELL_SECONDS
) -> list[FunctionDefinition]:
    """Return the `NOTEBOOK_TOOLS`, for `Agent(tools=…)`.

    `document` is the notebook to work in. By default, it is the notebook of the prompt, as `live_notebook()` finds it.
    `mode` determines what needs approval: every change and run ("ask"), only runs and deletions ("auto-edit"), or only
    deletions and cells that start programs with `!`, `%pip` and the like ("auto"). A cell that runs longer than
    `seconds` is stopped.
    """
    check_type("document", document, NotebookDocument, optional=True)
    check_choice("mode", mode, MODES)
    check_number("seconds", seconds, above=0)
    return NotebookTools(document, mode, seconds).definitions()


def notebook_tools_of(registry: FunctionRegistry) -> NotebookTools | None:
    """The `NotebookTools` object that a registry's tools belong to; None if the registry has no notebook tools."""
    for name in NOTEBOOK_TOOLS:
        definition = registry.get_function(name)
        owner = getattr(definition.func, "__self__", None) if definition is not None else None
        if isinstance(owner, NotebookTools):
            return owner
    return None


class NotebookTools:
    """An agent's tools for a notebook.

    The tools record which sources the model has read or written. If the user has since changed a cell, it is not
    overwritten, and the model receives its current source.
    """

    def __init__(self, document: NotebookDocument | None, mode: Mode, seconds: float) -> None:
        self.mode: Mode = mode
        self._given = document
        self._seconds = seconds
        #: Each cell's source as the model knows it, by cell id.
        self._known: dict[str, str] = {}
        #: The run that last added a cell, and that cell's id.
        self._added: tuple[str | None, str] = (None, "")
        #: The id of the cell that was last added or edited.
        self._written = ""
        #: The latest call that would run cells, and the sources reviewed before it.
        self._to_run: tuple[str | None, dict[str, str]] = (None, {})

    def definitions(self) -> list[FunctionDefinition]:
        """The tools' definitions. Calls that change or run cells never run in parallel."""

        def asks() -> bool:
            return self.mode == "ask"

        def defined(tool: Callable[..., Any], **options: Any) -> FunctionDefinition:
            return FunctionDefinition(tool.__name__, "", None, tool, parallel=False, **options)

        return [
            FunctionDefinition("list_cells", "", None, self.list_cells),
            FunctionDefinition("read_cell", "", None, self.read_cell),
            defined(self.add_cell, approve=asks, preview=self._preview_of_addition),
            defined(self.edit_cell, approve=asks, preview=self._preview_of_edit),
            # each cell has its own time limit, and the call may wait for a busy kernel
            defined(self.run_cells, approve=self._run_asks, preview=self._preview_of_run, timeout=math.inf),
            defined(self.move_cell, approve=asks, preview=self._preview_of_move),
            defined(self.delete_cell, approve=True, preview=self._preview_of_deletion),
        ]

    async def list_cells(self) -> str:
        """List the cells: number, id, kind, state, tokens to read it, and first line."""
        cells = await (await self._document()).cells()
        lines = [self._line(number, cell) for number, cell in enumerate(cells, 1)]
        return str(without_secrets("\n".join(lines))) if lines else "The notebook has no cells."

    async def read_cell(self, cell: str) -> Content:
        """Read a cell and its outputs.

        Args:
            cell: the cell's id
        """
        _, found = await self._find(cell)
        return await self._read(found)

    async def add_cell(self, source: str, kind: Literal["code", "markdown"] = "code", below: str | None = None) -> str:
        """Add a cell. Code does not run yet: call run_cells.

        Args:
            source: the text of the cell
            kind: "code", or "markdown" for headings and text
            below: the id of the cell above it, or "" for the top; by default below the cell you added last, or at
                the end
        """
        added = await (await self._document()).insert(source, kind, await self._place(below))
        self._known[added.id], self._written = source, added.id
        self._added = (current.get().call.run_id, added.id)
        number, _ = await self._find(added.id)
        return f"Added {kind} cell {number}, id {added.id}."

    async def edit_cell(self, cell: str, source: str) -> str:
        """Replace all of a cell's source. Its outputs are removed: run it again.

        Args:
            cell: the cell's id
            source: the whole new source
        """
        number, before = await self._expected(cell)
        if HIDDEN in source and HIDDEN not in before.source:
            raise ToolError(f"{HIDDEN} marks a secret that you can't see. Leave its cell to the user.")
        await (await self._document()).edit(cell, source, before.source)
        self._known[cell], self._written = source, cell
        return f"Edited cell {number}, id {cell}."

    async def run_cells(self, cells: list[str] | None = None) -> Content:
        """Run code cells in this order, up to the first that fails. Returns their outputs.

        Args:
            cells: the cells' ids; by default the cell that you added or edited last
        """
        cells = self._ids(cells)
        report: list[Any] = []
        call_id, approved = self._to_run
        for cell in cells:
            number, found = await self._find(cell)
            if call_id == current.get().call.tool_call_id and approved.get(cell, found.source) != found.source:
                raise CellChangedError(f"cell {number} changed before it was run, so no cell was run. Read it again.")
        for place, cell in enumerate(cells):
            try:
                ran = await (await self._document()).run(cell, self._seconds)
                number, _ = await self._find(cell)
            except CellChangedError as error:
                return _joined([*report, f"Error: {error}", _not_run(cells[place + 1 :])])
            report.append(_ran(number, ran))
            if self._known.get(cell, ran.source) != ran.source:
                report.append("Its source has changed since you read it.")
            if ran.error:
                return _joined([*report, _not_run(cells[place + 1 :])])
        return _joined(report)

    async def move_cell(self, cell: str, below: str) -> str:
        """Move a cell.

        Args:
            cell: the cell's id
            below: the id of the cell to move it below, or "" for the top
        """
        for each in filter(None, (cell, below)):
            await self._find(each)
        await (await self._document()).move(cell, below)
        number, _ = await self._find(cell)
        return f"Moved: it is cell {number} now, id {cell}."

    async def delete_cell(self, cell: str) -> str:
        """Delete a cell.

        Args:
            cell: the cell's id
        """
        number, before = await self._expected(cell)
        await (await self._document()).delete(cell, before.source)
        return f"Deleted cell {number}, id {cell}. The cells below it have new numbers."

    def _ids(self, cells: list[str] | None) -> list[str]:
        """The cells that a call would run."""
        if not cells and not self._written:
            raise ToolError("give the ids of the cells to run: you have not added or edited a cell yet")
        return cells or [self._written]

    async def _run_asks(self, cells: list[str] | None = None) -> bool:
        try:
            found = await self._sources(cells)
        except ToolError:  # the preview reports it to the model
            return True
        return self.mode != "auto" or any(runs_shell(cell.source) for _, cell in found)

    async def _sources(self, cells: list[str] | None) -> list[tuple[int, NotebookCell]]:
        """The cells that a call would run. An approval is for these sources only."""
        found = [await self._find(cell) for cell in self._ids(cells)]
        self._to_run = current.get().call.tool_call_id, {cell.id: cell.source for _, cell in found}
        return found

    async def _preview_of_run(self, cells: list[str] | None = None) -> Preview:
        found = [(number, cell) for number, cell in await self._sources(cells) if cell.kind == "code"]
        does = f"run {_named(*found[0])}" if len(found) == 1 else f"run {len(found)} cells"
        titles = ["" if len(found) == 1 else _named(number, cell).capitalize() for number, cell in found]
        changes = [_change(cell, cell.source, title) for title, (_, cell) in zip(titles, found, strict=True)]
        return Preview(does, tuple(changes))

    async def _preview_of_addition(self, source: str, kind: Kind = "code", below: str | None = None) -> Preview:
        place = await self._place(below)
        where = "at the end" if place is None else "at the top"
        if place:
            where = f"below {_named(*await self._find(place))}"
        change = TextChange("", None, source, _LANGUAGES[kind])
        in_place = await self._in_place(Proposal(change_html(change), place, True, source))
        return Preview(f"add a {kind} cell {where}", (change,), edits="source", in_place=in_place)

    async def _preview_of_edit(self, cell: str, source: str) -> Preview:
        number, before = await self._expected(cell)
        change = _change(before, source)
        in_place = await self._in_place(Proposal(change_html(change), cell, source=source))
        return Preview(f"edit {_named(number, before)}", (change,), edits="source", in_place=in_place)

    async def _preview_of_move(self, cell: str, below: str) -> Preview:
        number, moved = await self._find(cell)
        where = f"below {_named(*await self._find(below))}" if below else "to the top"
        return Preview(f"move {_named(number, moved)} {where}", (_change(moved, moved.source),))

    async def _preview_of_deletion(self, cell: str) -> Preview:
        number, deleted = await self._expected(cell)
        change = _change(deleted, None)
        in_place = await self._in_place(Proposal(change_html(change), cell))
        return Preview(f"delete {_named(number, deleted)}", (change,), in_place=in_place)

    async def _in_place(self, proposal: Proposal) -> Callable[[Callable[[bool | str], None]], Callable[[], None]]:
        return partial((await self._document()).show_proposal, proposal)

    async def _document(self) -> NotebookDocument:
        if self._given is not None:
            return self._given
        from nbagent.notebook.document.live import live_notebook  # loads widgets

        return await live_notebook()

    async def _find(self, cell_id: str) -> tuple[int, NotebookCell]:
        """A cell and its number, from 1. Raises `ToolError` with the id if the model named it by its number."""
        cells = await (await self._document()).cells()
        for number, cell in enumerate(cells, 1):
            if cell.id == cell_id:
                return number, cell
        if cell_id.isdecimal() and 0 < int(cell_id) <= len(cells):
            cell = cells[int(cell_id) - 1]
            raise ToolError(
                f"cells are named by their ids, since numbers change: cell {cell_id} has the id {cell.id!r}"
            )
        raise ToolError(f"there is no cell {cell_id!r}. Call list_cells to see the ids.")

    async def _expected(self, cell_id: str) -> tuple[int, NotebookCell]:
        """A cell and its number, if the model knows its source.

        Otherwise raises `ToolError` with the current cell, which the model then knows.
        """
        number, cell = await self._find(cell_id)
        known = self._known.get(cell_id)
        if known == cell.source:
            return number, cell
        if len(cell.source) > SOURCE_CHARS:
            raise ToolError(
                f"cell {number} is too long for you to read all of it. Leave it to the user, or add another cell."
            )
        problem = "you have not read it yet" if known is None else "it changed since you read it"
        content = await self._read(cell)
        text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
        raise CellChangedError(f"cell {number} was not changed: {problem}. It now reads:\n{text}")

    async def _read(self, cell: NotebookCell) -> Content:
        if len(cell.source) <= SOURCE_CHARS:
            self._known[cell.id] = cell.source
        return await (await self._document()).read(cell.id)

    async def _place(self, below: str | None) -> str | None:
        """The id of the cell that a new one goes below: "" for the top, None for the end.

        By default, it is the cell that the run added last, or else the prompt's own.
        """
        if below is not None:
            if below:
                await self._find(below)
            return below
        call, (run_id, last) = current.get().call, self._added
        ids = [cell.id for cell in await (await self._document()).cells()]
        return next((each for each in (last if run_id == call.run_id else "", call.cell_id) if each in ids), None)

    def _line(self, number: int, cell: NotebookCell) -> str:
        """A cell in the list. If its whole source is listed, the model knows it from then on."""
        first = next((line for line in cell.source.splitlines() if line.strip()), "")
        shown = shortened(first, _LINE_CHARS)
        if shown == cell.source:
            self._known[cell.id] = cell.source
        tokens = estimate_tokens(LLMMessage("tool", read_cell(cell, number)))
        facts = [cell.kind, *_state(cell), f"{tokens} tokens"]
        if self._known.get(cell.id, cell.source) != cell.source:
            facts.append("changed since you read it")
        return f"{number}. {cell.id} ({', '.join(facts)}){': ' if shown else ''}{shown}"


def _named(number: int, cell: NotebookCell) -> str:
    """A cell's name for people and models."""
    return f"cell {number} ({cell.id})"


def _change(cell: NotebookCell, after: str | None, title: str = "") -> TextChange:
    return TextChange(title, cell.source, after, _LANGUAGES[cell.kind])


def _state(cell: NotebookCell) -> list[str]:
    """A code cell's outcome, in words."""
    if cell.kind != "code":
        return []
    if cell.execution_count is None:
        return ["not run"]
    return [f"{'failed' if cell.error else 'ran'} as In [{cell.execution_count}]"]


def _ran(number: int, cell: NotebookCell) -> Content:
    """The result of running a cell."""
    if cell.kind != "code":
        return f"Cell {number}, id {cell.id}, is {cell.kind}: there is nothing to run."
    content = read_cell(cell, number, source=False)
    return content if cell.outputs else f"{content}\nNo output."


def _not_run(cells: list[str]) -> str:
    return f"Not run, because of that: {', '.join(cells)}." if cells else ""


def _joined(report: list[Content]) -> Content:
    """Texts and parts as one content."""
    parts: list[Any] = []
    for content in filter(None, report):
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return joined(parts)
