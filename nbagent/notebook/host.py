"""What the kernel knows about the request that it is serving: a cell or a click."""

from __future__ import annotations

from typing import Any

from nbagent.functions.source import record_cell


def request_of(shell: Any) -> dict[str, Any]:
    """The request that the running code came with; empty outside a kernel."""
    kernel = getattr(shell, "kernel", None)
    parent = kernel.get_parent() if kernel is not None else None
    return dict(parent or {})


def cell_id_of(shell: Any) -> str | None:
    """The id of the running cell, or None if the front end sends none."""
    cell_id: str | None = request_of(shell).get("metadata", {}).get("cellId")
    return cell_id


def note_cell(shell: Any, code: str | None = None) -> None:
    """Note that definitions in this code, by default the current request's, come from the running cell."""
    code = code or request_of(shell).get("content", {}).get("code")
    if code and (cell_id := cell_id_of(shell)):
        record_cell(cell_id, shell.compile.get_code_name(code, code, shell.execution_count))


def is_watched(shell: Any) -> bool:
    """Whether a person may be there: front ends can answer questions, nbclient and nbval cannot."""
    return bool(request_of(shell).get("content", {}).get("allow_stdin", True))
