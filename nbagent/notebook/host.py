"""Records which cell defines a function."""

from __future__ import annotations

from typing import Any

from nbagent.core.cells import cell_id_of, request_of
from nbagent.functions.source import record_cell


def note_cell(shell: Any, code: str | None = None) -> None:
    """Record that the functions in `code` (by default, the current request's code) are defined in the running cell."""
    code = code or request_of(shell).get("content", {}).get("code")
    if code and (cell_id := cell_id_of(shell)):
        record_cell(cell_id, shell.compile.get_code_name(code, code, shell.execution_count))
