"""Formats a cell for a model, with its source and outputs and without secrets."""

from __future__ import annotations

from nbagent.core.messages import Content
from nbagent.functions.secret_values import without_secrets
from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.kernel_tools.reading import joined, read_output, source_part


def read_cell(cell: NotebookCell, number: int, *, source: bool = True, outputs: bool = True) -> Content:
    """A cell's header line, source and outputs: a string or, if the cell has images, content parts.

    >>> print(read_cell(NotebookCell("markdown", "# Orders", id="a1"), 1))
    Cell 1, id a1, markdown:
    # Orders
    """
    ran = f", ran as In [{cell.execution_count}]" if cell.execution_count is not None else ""
    head = f"Cell {number}, id {cell.id}, {cell.kind}{ran}:"
    parts = [source_part(head, cell.source) if source else {"type": "text", "text": head}]
    for output in cell.outputs if outputs else ():
        parts += read_output(output)
    return without_secrets(joined(parts))
