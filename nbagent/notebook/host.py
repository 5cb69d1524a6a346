"""Records which cell defines a function."""

from __future__ import annotations

from typing import Any

from nbagent.core.cells import cell_id_of, request_of
from nbagent.functions.source import record_cell


def note_cell(shell: Any, code: str | None = None) -> None:
    """Record that the running cell defines the functions in `code`, which by default is the current request's code."""
    code = code or request_of(shell).get("content", {}).get("code")
    if code and (cell_id := cell_id_of(shell)):
        record_cell(cell_id, shell.compile.get_code_name(code, code, shell.execution_count))
