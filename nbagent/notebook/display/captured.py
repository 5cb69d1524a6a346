"""Routes the output of tools to their calls, for the trace and for panels, which have no cell to print in.

Streams and displays look up the tool call that the current code belongs to. If a cell started the run, the output also
appears in the cell, as usual.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from nbagent.core.current import changed, current


def outside_of_call() -> AbstractContextManager[None]:
    """Within this block, output such as approval forms doesn't count as the tool's output."""
    return changed(call=replace(current.get().call, output=None))


def watch_output(shell: Any) -> None:
    """From now on, route the output of tools in this kernel to their calls. Idempotent."""
    if getattr(shell, "kernel", None) is None or "publish" in vars(shell.display_pub):
        return
    for name in ("stdout", "stderr"):
        setattr(sys, name, _Stream(getattr(sys, name), name))
    shell.display_pub.publish = _publishing(shell.display_pub.publish)
    shell.display_pub.clear_output = _clearing(shell.display_pub.clear_output)


class _Stream:
    """Replaces a stream of the kernel. IPython replaces the method `write` during each cell."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream, self._name = stream, name

    def write(self, text: str) -> int:
        """Write the text, or pass it only to its call."""
        output = current.get().call.output
        if output is not None and isinstance(text, str):
            output.write(text, self._name)
            if current.get().has_no_cell_output:
                return len(text)
        self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _publishing(publish: Callable[..., Any]) -> Callable[..., Any]:
    def captured(data: dict[str, Any], metadata: Any = None, **options: Any) -> Any:
        output = current.get().call.output
        if output is not None:
            encoded = {
                kind: b64encode(item).decode() if isinstance(item, bytes) else item for kind, item in data.items()
            }
            display_id = (options.get("transient") or {}).get("display_id")
            output.display(encoded, display_id, update=bool(options.get("update")))
            if current.get().has_no_cell_output:
                return None
        return publish(data, metadata, **options)

    return captured


def _clearing(clear: Callable[..., Any]) -> Callable[..., Any]:
    def captured(wait: bool = False) -> Any:
        output = current.get().call.output
        if output is not None:
            output.clear()
            if current.get().has_no_cell_output:
                return None
        return clear(wait)

    return captured
