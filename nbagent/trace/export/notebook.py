"""Past turns as a notebook: prompts and answers become text, and the code of tool calls becomes cells.

See `Trace.to_notebook`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from nbagent.text import shortened
from nbagent.trace.rows import Row

#: Tools that only read, keep the model's notes, or change a cell that is already exported because of `add_cell`.
_OMITTED = {
    *("list_variables", "describe_variable", "read_cell_outputs", "update_plan"),
    *("list_cells", "read_cell", "edit_cell", "run_cells", "move_cell", "delete_cell"),
}
#: The `source` of runs that are not turns of a conversation.
_NOT_TURNS = {"map", "extract", "summary", "agent"}
#: The characters of a heading, and of a result shown as text.
_HEADING_CHARS, _RESULT_CHARS = 80, 2_000


def notebook_of(tables: Mapping[str, Sequence[Row]], run_ids: Collection[str] | None = None) -> dict[str, Any]:
    """Return the given runs, or all turns, as a notebook in format 4.5 (JSON data)."""
    cells: list[dict[str, Any]] = [
        {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source}
        | ({"execution_count": None, "outputs": []} if kind == "code" else {})
        for number, (kind, source) in enumerate(_cells(tables, run_ids), 1)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cells(tables: Mapping[str, Sequence[Row]], run_ids: Collection[str] | None) -> Iterator[tuple[str, str]]:
    """The kind and source of each cell."""
    added = {row["tool_call_id"]: row["cell"] for row in tables["cells"] if row["kind"] == "add"}
    sources = {row["cell"]: row["after"] for row in tables["cells"]}  # the final source
    messages, tool_calls = _grouped(tables["messages"], "run_id"), _grouped(tables["tool_calls"], "call_id")
    for run in tables["runs"]:
        if run["source"] in _NOT_TURNS if run_ids is None else run["run_id"] not in run_ids:
            continue
        yield "markdown", _question((run["prompt"] or "").strip())
        for message in messages[run["run_id"]]:
            if message["role"] != "assistant" or message["call_id"] is None:
                continue
            if text := (message["text"] or "").strip():
                yield "markdown", text
            for row in tool_calls[message["call_id"]]:
                if row["tool_call_id"] in added:
                    if (source := sources[added[row["tool_call_id"]]]) is not None:  # not deleted
                        yield _arguments(row).get("kind", "code"), source
                elif not row["is_error"] and row["name"] not in _OMITTED:
                    yield _cell_of(row)


def _grouped(rows: Iterable[Row], column: str) -> defaultdict[Any, list[Row]]:
    groups: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups


def _question(text: str) -> str:
    heading = shortened(" ".join(text.partition("\n")[0].split()), _HEADING_CHARS)
    quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
    return f"## {heading}" if heading == text else f"## {heading}\n\n{quoted}"


def _cell_of(row: Row) -> tuple[str, str]:
    """The cell of a tool call: its code or equivalent code, else the call and its result as text."""
    arguments = _arguments(row)
    if not row["source"] and (code := row.get("python") or _code_of(row["name"], arguments)):
        return "code", code
    call = f"{row['name']}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    result = shortened(row["result_text"] or "", _RESULT_CHARS)
    return "markdown", f"{_fenced('python', call)}\n\nThe agent read:\n\n{_fenced('text', result)}"


def _code_of(name: str, arguments: Mapping[str, Any]) -> str:
    """The code that a built-in tool ran; empty for others."""
    match name, arguments:
        case "run_code", {"code": str(code)}:
            return code
        case "peek_dataframe", {"name": str(frame)}:
            columns = f"[{arguments['columns']!r}]" if arguments.get("columns") else ""
            return f"{frame}{columns}.head({arguments.get('rows', '')})"
    return ""


def _arguments(row: Row) -> dict[str, Any]:
    found = row["args_repaired"] or row["args"] or {}
    arguments: dict[str, Any] = json.loads(found) if isinstance(found, str) else found
    return arguments


def _fenced(language: str, text: str) -> str:
    """A Markdown code block with this text."""
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
