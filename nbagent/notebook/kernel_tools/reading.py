"""Formats a cell's outputs for a model: texts are shortened, plots become images, and errors keep only the end of their
traceback.
"""

from __future__ import annotations

import re
from typing import Any

from nbagent.core.messages import Content
from nbagent.core.tool_output import IMAGE_TYPES, WIDGET_TYPE
from nbagent.functions.formatting import truncate_result

#: Characters of a source, and of all text of one output.
SOURCE_CHARS, OUTPUT_CHARS = 10_000, 6_000
#: Lines of a traceback, from its end.
TRACEBACK_LINES = 12

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def source_part(head: str, source: str) -> dict[str, Any]:
    """A content part with the header and the source of a cell, shortened if it is long."""
    return _text(f"{head}\n{truncate_result(source, SOURCE_CHARS)[0]}")


def joined(parts: list[dict[str, Any]]) -> Content:
    """The content parts joined into one string, or unchanged if any of them is an image."""
    is_text = all(part["type"] == "text" for part in parts)
    return "\n".join(part["text"] for part in parts) if is_text else parts


def read_output(output: dict[str, Any]) -> list[dict[str, Any]]:
    """One nbformat output as content parts.

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
    images = [
        {"type": "image", "media_type": kind, "data": data[kind].replace("\n", "")}
        for kind in IMAGE_TYPES
        if kind in data
    ]
    text = data.get("text/plain", "" if images else f"({', '.join(data)})")
    if WIDGET_TYPE in data:
        text = f"{text} (a widget)"
    return [_text(f"{heading}:\n{_short(text)}"), *images]


def _short(text: str) -> str:
    return str(truncate_result(text.rstrip(), OUTPUT_CHARS)[0])


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
