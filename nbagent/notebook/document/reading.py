"""A cell as a model reads it: texts shortened, tables as text, plots as images, errors with their line; no secrets."""

from __future__ import annotations

import re
from typing import Any

from nbagent.core.messages import Content
from nbagent.core.tool_output import IMAGE_TYPES, WIDGET_TYPE
from nbagent.functions.formatting import truncate_result
from nbagent.notebook.document.cell import NotebookCell
from nbagent.notebook.kernel_tools.secret_values import without_secrets

#: Characters of a source, and of all text of one output.
SOURCE_CHARS, OUTPUT_CHARS = 10_000, 4_000
#: Lines of a traceback, from its end.
TRACEBACK_LINES = 12

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def read_cell(cell: NotebookCell, number: int, *, source: bool = True, outputs: bool = True) -> Content:
    """A cell's head, its source and its outputs. A text, or parts if it has images.

    >>> print(read_cell(NotebookCell("markdown", "# Orders", id="a1"), 1))
    Cell 1, id a1, markdown:
    # Orders
    """
    ran = f", ran as In [{cell.execution_count}]" if cell.execution_count is not None else ""
    head = f"Cell {number}, id {cell.id}, {cell.kind}{ran}:"
    parts = [_text(f"{head}\n{truncate_result(cell.source, SOURCE_CHARS)[0]}" if source else head)]
    for output in cell.outputs if outputs else ():
        parts += read_output(output)
    if all(part["type"] == "text" for part in parts):
        return without_secrets("\n".join(part["text"] for part in parts))
    return without_secrets(parts)


def read_output(output: dict[str, Any]) -> list[dict[str, Any]]:
    """One output of nbformat as content parts.

    >>> read_output({"output_type": "stream", "name": "stdout", "text": "12 rows"})
    [{'type': 'text', 'text': 'Printed:\\n12 rows'}]
    """
    match output["output_type"]:
        case "stream":
            where = "Printed" if output["name"] == "stdout" else "Printed to stderr"
            return [_text(f"{where}:\n{_short(output['text'])}")]
        case "error":
            lines = _ANSI.sub("", "\n".join(output["traceback"])).splitlines()
            raised = f"{output['ename']}: {output['evalue']}"
            shown = lines[-TRACEBACK_LINES:] if lines else [raised]
            return [_text("Raised:\n" + _short("\n".join(shown)))]
    data = output["data"]
    heading = "Returned" if output["output_type"] == "execute_result" else "Displayed"
    images = [_image(kind, data[kind]) for kind in IMAGE_TYPES if kind in data]
    text = data.get("text/plain", "" if images else f"({', '.join(data)})")
    if WIDGET_TYPE in data:
        text = f"{text} (a widget)"
    return [_text(f"{heading}:\n{_short(text)}"), *images]


def _short(text: str) -> str:
    return str(truncate_result(text.rstrip(), OUTPUT_CHARS)[0])


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(kind: str, data: str) -> dict[str, Any]:
    return {"type": "image", "media_type": kind, "data": data.replace("\n", "")}
