"""`FileNotebook`: a notebook file with its own kernel, which needs neither a browser nor a server."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from nbagent.core.atomic_files import write_text
from nbagent.errors import ConfigurationError
from nbagent.notebook.document.cell import OURS, NotebookCell
from nbagent.notebook.document.document import CELL_SECONDS, CellChangedError, NotebookDocument
from nbagent.notebook.document.own_kernel import WIDGET_STATES, OwnKernel

#: The metadata of a new notebook.
NEW = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


class FileNotebook(NotebookDocument):
    """A notebook file of nbformat 3 or 4. Each change is saved immediately. If there is no file yet, the first change
    creates it.

    Unchanged parts stay identical byte for byte, and the file keeps its indentation, line endings and key order. Only
    the cell ids that nbformat 4.5 requires are added to older files. If another program saves the file, the new version
    is read.

    Cells run in the notebook's own kernel, in the file's folder. The first run starts the kernel, and the end of the
    `async with` block stops it. `kernel` is the name of an installed kernel, by default the notebook's.

    >>> async with FileNotebook("report.ipynb") as document:                        # doctest: +SKIP
    ...     cell = await document.insert("1 + 1")
    ...     print(await document.read((await document.run(cell.id)).id))

    Raises ConfigurationError if the file is not a notebook or can't be written.
    """

    def __init__(self, path: str | Path, kernel: str | None = None) -> None:
        super().__init__()
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise ConfigurationError(f"there is no folder {str(self.path.parent)!r}: create it first.")
        #: The file's time and size when last read or written, to detect changes.
        self._seen: tuple[int, int] | None = None
        self._waits = self._is_unsaved = False
        self._data: dict[str, Any] = {"cells": [], "metadata": {"kernelspec": NEW}, "nbformat": 4, "nbformat_minor": 5}
        self._style: dict[str, Any] = {"indent": 1, "separators": (",", ": "), "ensure_ascii": False}
        self._end, self._newline = "\n", "\n"
        self._cells: list[NotebookCell] = []
        self._load()
        name = kernel or self._data["metadata"].get("kernelspec", {}).get("name", NEW["name"])
        self.kernel = OwnKernel(self.path.absolute().parent, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.kernel.stop()

    @property
    def is_new(self) -> bool:
        """Whether the file does not exist yet."""
        return self._seen is None

    @property
    def seen(self) -> Sequence[NotebookCell]:
        """The cells as last read or written."""
        return tuple(self._cells)

    async def run_all(
        self, seconds: float = CELL_SECONDS, on_cell: Callable[[int, int], None] | None = None
    ) -> list[NotebookCell]:
        """Restart the kernel and run all code cells from top to bottom. The new outputs do not count as an agent's
        change.

        The remaining cells run even if a cell fails, unless the kernel dies. `on_cell` is called before each code cell
        with its position among the code cells, counted from 1, and the number of code cells. Returns all cells.
        """
        await self.kernel.stop()
        self._data["metadata"].get("widgets", {}).pop(WIDGET_STATES, None)
        code = [cell for cell in await self.cells() if cell.kind == "code"]
        for place, cell in enumerate(code, 1):
            if on_cell is not None:
                on_cell(place, len(code))
            await self._execute(cell, seconds)
            if not self.kernel.is_running:
                break
        return await self.cells()

    async def cells(self) -> list[NotebookCell]:
        """All cells, from top to bottom."""
        self._load()
        return list(self._cells)

    async def _insert(self, place: int, cell: NotebookCell) -> None:
        self._load()
        self._cells.insert(place, cell)
        self._data["cells"].insert(place, _written(cell))
        self._save()

    async def _replace(self, cell: NotebookCell, expected: str) -> None:
        self._put(self._place(cell.id, expected), cell)

    async def _move(self, cell_id: str, place: int) -> None:
        before = self._place(cell_id)
        self._cells.insert(place, self._cells.pop(before))
        self._data["cells"].insert(place, self._data["cells"].pop(before))
        self._save()

    async def _delete(self, cell_id: str, expected: str) -> None:
        place = self._place(cell_id, expected)
        del self._cells[place], self._data["cells"][place]
        self._save()

    async def _execute(self, cell: NotebookCell, seconds: float) -> None:
        outputs, count = await self.kernel.run(cell.source, seconds)
        place = self._place(cell.id)
        if self.kernel.is_running and (states := self.kernel.widgets()):
            saved = self._data["metadata"].setdefault("widgets", {}).setdefault(WIDGET_STATES, {"state": {}})
            saved.update(state={**saved["state"], **states}, version_major=2, version_minor=0)
        self._put(place, replace(self._cells[place], outputs=outputs, execution_count=count))

    async def _note(self) -> dict[str, Any]:
        self._load()
        note: dict[str, Any] = self._data["metadata"].get(OURS, {})
        return note

    async def _set_note(self, note: dict[str, Any]) -> None:
        self._load()
        if note:
            self._data["metadata"][OURS] = note
        else:
            self._data["metadata"].pop(OURS, None)
        self._save()

    def _place(self, cell_id: str, expected: str | None = None) -> int:
        """A cell's place. Raises `CellChangedError` if there is none, or its source is not the expected one."""
        self._load()
        for place, cell in enumerate(self._cells):
            if cell.id == cell_id:
                if expected not in (None, cell.source):
                    raise CellChangedError(f"cell {place + 1} ({cell_id}) changed since you read it: read it again")
                return place
        raise CellChangedError(f"the cell {cell_id!r} no longer exists")

    def _put(self, place: int, cell: NotebookCell) -> None:
        """Write a cell at its place."""
        unchanged, self._cells[place] = _written(self._cells[place]), cell
        self._data["cells"][place] = _merged(self._data["cells"][place], unchanged, _written(cell))
        self._save()

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """See `NotebookDocument`. A change is written once, together with its part of the journal."""
        async with super()._changing():
            self._waits = True
            try:
                yield
            finally:
                self._waits = False
                if self._is_unsaved:
                    self._save()

    def _load(self) -> None:
        """Read the file if it has changed since it was last read or written."""
        try:
            about = os.stat(self.path)
            if self._seen == (about.st_mtime_ns, about.st_size):
                return
            text = self.path.read_bytes().decode()
        except FileNotFoundError:
            if self._seen is None:
                return
            raise ConfigurationError(f"{str(self.path)!r} no longer exists: it was deleted or moved.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{str(self.path)!r} can't be read: {error}.") from None
        self._newline = "\r\n" if "\r\n" in text else "\n"
        text = text.replace(self._newline, "\n")
        self._data, self._cells = _read(text, self.path)
        self._end = text[len(text.rstrip()) :]
        begin = re.match(r'\s*\{(\s*)(?:"[^"]*":(\s?))?', text)
        assert begin is not None  # it was read as a JSON object
        indent, space = begin.groups()
        self._style = {
            "indent": len(indent) - 1 if "\n" in indent else None,
            "separators": ("," if "\n" in indent or not space else ", ", f":{space or ''}"),
            "ensure_ascii": text.isascii() and "\\u" in text,
        }
        self._seen = about.st_mtime_ns, about.st_size

    def _save(self) -> None:
        self._is_unsaved = self._waits
        if self._waits:
            return
        # a number that `_float` kept is written as text between unique marks, which are then removed with its quotes
        text = json.dumps(self._data, default=lambda number: f"\0{number.decode()}\0", **self._style)
        if "\\u0000" in text:
            text = re.sub(r'"\\u0000([^"]+)\\u0000"', r"\1", text)
        write_text(self.path, (text + self._end).replace("\n", self._newline))
        about = os.stat(self.path)
        self._seen = about.st_mtime_ns, about.st_size


def _read(text: str, path: Path) -> tuple[dict[str, Any], list[NotebookCell]]:
    """A notebook's JSON in nbformat 4.5, and its cells, each text as one string."""
    import nbformat
    from nbformat.v4.rwbase import rejoin_lines

    try:
        data = json.loads(text, parse_float=_float)
        if data["nbformat"] != 4:
            data = nbformat.reads(text, as_version=4)
        known: set[str] = set()
        for place, cell in enumerate(data["cells"]):
            cell_id = cell.get("id", "")
            if cell_id in {"", *known}:
                cell_id = NotebookCell("raw", "").id
                data["cells"][place] = dict(sorted({**cell, "id": cell_id}.items()))
            known.add(cell_id)
        data["nbformat_minor"] = max(5, data["nbformat_minor"])
        plain = _plain(data)
        nbformat.validate(plain)
    except (ValueError, KeyError, TypeError, AttributeError, nbformat.ValidationError) as error:
        what = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        raise ConfigurationError(f"{str(path)!r} is not a notebook of nbformat 3 or 4: {what}.") from None
    joined = rejoin_lines(nbformat.from_dict({"cells": plain["cells"]}))
    return data, [NotebookCell.from_nbformat(cell) for cell in joined.cells]


def _merged(before: Any, unchanged: Any, after: Any) -> Any:
    """`after`, with unchanged parts as in the file, and keys in the file's order."""
    if after == unchanged:
        return before
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    keys = dict.fromkeys([*before, *after])
    return {key: _merged(before.get(key), unchanged.get(key), after[key]) for key in keys if key in after}


def _float(text: str) -> float | bytes:
    """A number, or the file's bytes if Python would write it differently, such as 1e5."""
    number = float(text)
    return number if repr(number) == text else text.encode()


def _plain(value: Any) -> Any:
    """A copy of JSON data, with numbers instead of the bytes from `_float`."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, bytes) else value


def _written(cell: NotebookCell) -> dict[str, Any]:
    """A cell as nbformat writes it: with sorted keys, and texts as lists of lines."""
    import nbformat
    from nbformat.v4.rwbase import split_lines

    (split,) = split_lines(nbformat.from_dict({"cells": [cell.to_nbformat()]})).cells
    if "outputs" in split:
        split["outputs"] = json.loads(json.dumps(split["outputs"], sort_keys=True))
    return dict(sorted(split.items()))
