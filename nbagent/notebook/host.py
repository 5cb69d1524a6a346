"""What the kernel knows about the cell or the click that it works for."""

from __future__ import annotations

from typing import Any


def request_of(shell: Any) -> dict[str, Any]:
    """The request that the running code came with; empty outside a kernel."""
    kernel = getattr(shell, "kernel", None)
    parent = kernel.get_parent() if kernel is not None else None
    return dict(parent or {})


def is_watched(shell: Any) -> bool:
    """Whether a person may be there: nbclient and nbval can't answer questions, front ends can."""
    return bool(request_of(shell).get("content", {}).get("allow_stdin", True))
