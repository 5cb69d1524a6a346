"""`MemoryNotebook`: a notebook in memory, for tests of what stands on `NotebookDocument`."""

import asyncio
import io
import traceback
from contextlib import redirect_stdout
from dataclasses import replace

from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.document.document import CellChangedError, NotebookDocument


class MemoryNotebook(NotebookDocument):
    """Holds its cells in a list. `type_into` is the person, who changes a cell without any journal.

    Code runs in `namespace`: what it prints is a stream, the value of an expression a result, what it raises an error.
    """

    def __init__(self, *cells):
        super().__init__()
        self.list = [cell if isinstance(cell, NotebookCell) else NotebookCell("code", cell) for cell in cells]
        self.namespace, self.count, self.note = {}, 0, {}

    def type_into(self, cell_id, source):
        self.list = [replace(cell, source=source) if cell.id == cell_id else cell for cell in self.list]

    @property
    def sources(self):
        return [cell.source for cell in self.list]

    async def cells(self):
        return list(self.list)

    def _place(self, cell_id, expected=None):
        place = [cell.id for cell in self.list].index(cell_id)
        if expected is not None and self.list[place].source != expected:
            raise CellChangedError(f"cell {cell_id} changed")
        return place

    async def _insert(self, place, cell):
        self.list.insert(place, cell)

    async def _replace(self, cell, expected):
        self.list[self._place(cell.id, expected)] = cell

    async def _move(self, cell_id, place):
        self.list.insert(place, self.list.pop(self._place(cell_id)))

    async def _delete(self, cell_id, expected):
        del self.list[self._place(cell_id, expected)]

    async def _execute(self, cell, seconds):
        self.count += 1
        count, printed, outputs = self.count, io.StringIO(), []
        try:
            async with asyncio.timeout(seconds):
                await asyncio.sleep(self.namespace.pop("sleeps", 0))
            with redirect_stdout(printed):
                try:
                    code = compile(cell.source, "<cell>", "eval")
                except SyntaxError:
                    code = compile(cell.source, "<cell>", "exec")
                value = eval(code, self.namespace)
            if value is not None:
                outputs = [{"output_type": "execute_result", "data": {"text/plain": repr(value)}, "metadata": {}}]
        except Exception as error:
            lines = traceback.format_exc().splitlines()
            raised = {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": lines}
            outputs = [raised]
        if text := printed.getvalue():
            outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": text})
        for output in outputs:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count
        self.list[self._place(cell.id)] = replace(cell, outputs=outputs, execution_count=count)

    async def _note(self):
        return self.note

    async def _set_note(self, note):
        self.note = note
