"""The panel's Trace tab: the tables of the agent's trace, as pandas shows them, every value escaped."""

from __future__ import annotations

import asyncio
from typing import Any

import ipywidgets as widgets

from nbagent.core import render

TABLES = {
    "runs": "one row for each question",
    "calls": "for each request to the model",
    "tool_calls": "for each tool call",
}


class TraceTab:
    """`box` shows the tables as they were when `refresh()` was called last, on the background loop."""

    def __init__(self, conversation: Any) -> None:
        self._conversation = conversation
        self._html = widgets.HTML()
        self.box = widgets.VBox([self._html]).add_class("nbagent-trace")
        self._task: asyncio.Task[None] | None = None

    def refresh(self) -> None:
        """Make the tables anew, in a thread: pandas may have to be loaded first."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            self._html.value = await asyncio.to_thread(tables_html, self._conversation.agent.trace)
        except Exception as error:  # noqa: BLE001  shown in the panel
            self._conversation.tell(f"the trace can't be shown: {type(error).__name__}: {error}")


def tables_html(trace: Any) -> str:
    """The tables as safe HTML."""
    parts = []
    for name, what in TABLES.items():
        head = f"<h4><code>agent.trace.{name}</code> <small>{what}</small></h4>"
        parts.append(f'{head}<div class="nbagent-table">{_rows(getattr(trace, name))}</div>')
    return f'<div class="nbagent">{"".join(parts)}</div>'


def _rows(frame: Any) -> str:
    if not len(frame):
        return '<p class="nbagent-quiet">Nothing yet.</p>'
    shown = frame.shown()
    known = shown.astype(object).where(shown.notna(), "–")
    return render.legible(known.to_html(max_rows=20, escape=True, border=0))
