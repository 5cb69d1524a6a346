"""The panel's Trace tab: the timeline and the tables of the agent's trace, every value escaped."""

from __future__ import annotations

import asyncio
import logging
from itertools import groupby
from operator import attrgetter
from typing import Any

import ipywidgets as widgets

from nbagent.core.render import markdown as render
from nbagent.trace.views import timeline

log = logging.getLogger("nbagent")
TABLES = {
    "runs": "one row for each question",
    "calls": "for each request to the model",
    "tool_calls": "for each tool call",
}
NOTHING = '<p class="nbagent-quiet">Nothing yet.</p>'


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
            self._html.value = await asyncio.to_thread(trace_html, self._conversation.agent.trace)
        except Exception as error:  # nobody awaits this task: what went wrong is told in the panel and in the log
            log.warning("the trace can't be shown", exc_info=True)
            self._conversation.tell(f"the trace can't be shown: {type(error).__name__}: {error}")


def trace_html(trace: Any) -> str:
    """Timeline and tables as safe HTML."""
    parts = [_head("timeline()", "what took how long"), timeline_html(trace)]
    for name, what in TABLES.items():
        parts.append(f'{_head(name, what)}<div class="nbagent-table">{_rows(getattr(trace, name))}</div>')
    return f'<div class="nbagent">{"".join(parts)}</div>'


def _head(name: str, what: str) -> str:
    return f"<h4><code>agent.trace.{name}</code> <small>{what}</small></h4>"


def timeline_html(trace: Any) -> str:
    """The picture that `trace.timeline()` draws, as bars of HTML: a row for each model call and each tool call."""
    found, _ = timeline.lay_out(trace.calls, trace.tool_calls)
    if not found:
        return NOTHING
    end = max(span.end for span in found) or 1.0
    rows = [_lane(list(spans), end) for _, spans in groupby(sorted(found, key=attrgetter("lane")), attrgetter("lane"))]
    return f'<div class="nbagent-timeline">{"".join(rows)}</div>'


def _lane(spans: list[timeline.Span], end: float) -> str:
    """The name of a step, its bars, and how long it took."""
    bars = "".join(
        f'<b class="nbagent-span-{span.kind}" title="{span.kind}: {render.format_duration(span.seconds)}" '
        f'style="left:{100 * span.start / end:.2f}%;width:{100 * span.seconds / end:.2f}%"></b>'
        for span in spans
    )
    took = render.format_duration(sum(span.seconds for span in spans))
    return f"<span>{render.escape(spans[0].label.strip())}</span><div>{bars}</div><small>{took}</small>"


def _rows(frame: Any) -> str:
    if not len(frame):
        return NOTHING
    shown = frame.shown()
    known = shown.astype(object).where(shown.notna(), "–")
    return render.printable(known.to_html(max_rows=20, escape=True, border=0))
