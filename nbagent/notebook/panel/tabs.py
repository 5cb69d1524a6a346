"""The panel's other tabs: Trace (what happened) and Setup (tools, system prompt).

Both are refreshed and changed on the background loop. Every value from the trace is escaped.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from itertools import groupby
from operator import attrgetter
from typing import Any

import ipywidgets as widgets

from nbagent.core.render import markdown as render
from nbagent.errors import NbagentError
from nbagent.functions.vendor_tools import vendor_tool
from nbagent.notebook.panel.conversation import PanelConversation
from nbagent.trace.views import timeline

log = logging.getLogger("nbagent")
TABLES = {"runs": "one row per question", "calls": "one row per model request", "tool_calls": "one row per tool call"}
NOTHING = '<p class="nbagent-quiet">Nothing yet.</p>'
NO_TOOLS = "None yet: decorate a function with @tool, or %agent tools add NAME."
TOOLS_OF_TEAM = "Its members bring their own tools."


class TraceTab:
    """`box` shows the timeline and the tables of the agent's trace as of the last `refresh()`."""

    def __init__(self, conversation: PanelConversation) -> None:
        self._conversation = conversation
        self._html = widgets.HTML()
        self.box = widgets.VBox([self._html]).add_class("nbagent-trace")
        self._task: asyncio.Task[None] | None = None

    def refresh(self) -> None:
        """Read the trace, in a thread: this may load pandas."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            self._html.value = await asyncio.to_thread(trace_html, self._conversation.agent.trace)
        except Exception as error:  # nobody awaits this task, so the panel and the log report the error
            log.warning("the trace can't be shown", exc_info=True)
            self._conversation.show_notice(f"The trace can't be shown: {type(error).__name__}: {error}")


def trace_html(trace: Any) -> str:
    """Timeline and tables as safe HTML, with the runs of forks and of other agents that tools asked."""
    trace = trace.with_children()
    parts = [_heading("timeline()", "how long each step took"), timeline_html(trace)]
    for name, what in TABLES.items():
        frame = getattr(trace, name)
        table = NOTHING
        if len(frame):
            shown = frame.shown()
            filled = shown.astype(object).where(shown.notna(), "–")
            table = render.printable(filled.to_html(max_rows=20, escape=True, border=0))
        parts.append(f'{_heading(name, what)}<div class="nbagent-table">{table}</div>')
    return f'<div class="nbagent">{"".join(parts)}</div>'


def _heading(name: str, what: str) -> str:
    return f"<h4><code>agent.trace.{name}</code> <small>{what}</small></h4>"


def timeline_html(trace: Any) -> str:
    """The picture that `trace.timeline()` draws, as bars of HTML: one row per model request and tool call."""
    spans, _ = timeline.lay_out(*timeline.tables(trace.rows_with_children()))
    if not spans:
        return NOTHING
    end = max(span.end for span in spans) or 1.0
    lanes = groupby(sorted(spans, key=attrgetter("lane")), attrgetter("lane"))
    rows = "".join(_lane_html(list(lane), end) for _, lane in lanes)
    return f'<div class="nbagent-timeline">{rows}</div>'


def _lane_html(spans: list[timeline.Span], end: float) -> str:
    """The name of a step, its bars, and how long it took."""
    bars = "".join(
        f'<b class="nbagent-span-{span.kind}" title="{span.kind}: {render.format_duration(span.seconds)}" '
        f'style="left:{100 * span.start / end:.2f}%;width:{100 * (span.end - span.start) / end:.2f}%"></b>'
        for span in spans
    )
    took = render.format_duration(sum(span.seconds for span in spans))
    return f"<span>{render.escape(timeline.name_of(spans[0]))}</span><div>{bars}</div><small>{took}</small>"


class SetupTab:
    """`box` holds the choices of tools and system prompt."""

    def __init__(self, conversation: PanelConversation) -> None:
        self._conversation = conversation
        self._agent = conversation.agent
        self._is_team = hasattr(self._agent, "members")  # a `Team`, which this layer does not know
        self._tool_names: tuple[str, ...] = ()
        #: The thread that is updating the widgets: changes that it causes are not the user's.
        self._updating: int | None = None
        layout = widgets.Layout(width="auto")
        self._prompt = widgets.Textarea(description="System prompt", continuous_update=False, rows=3, layout=layout)
        self._prompt.placeholder = "Who the agent is and what it should know"
        self._tools = widgets.VBox()
        sections = {"Tools": self._tools, "System prompt": self._prompt}
        heads = {name: widgets.HTML(f'<div class="nbagent-head">{name}</div>') for name in sections}
        self.box = widgets.VBox([each for name, part in sections.items() for each in (heads[name], part)])
        self.box.add_class("nbagent-setup")

    @property
    def tool_count(self) -> str:
        """`"3 tools"`, or `"2 of 3 tools"` if some are switched off."""
        names = self._agent.offered_tools()
        known, offered = len({*self._agent.function_registry.names(), *names}), len(names)
        return f"{f'{offered} of {known}' if offered < known else known} tool{'s' * (known != 1)}"

    def listen(self) -> None:
        """Begin to apply the user's changes."""
        self._prompt.observe(lambda change: self._apply(self._set_prompt, change["new"]), "value")

    def _apply(self, action: Any, value: Any) -> None:
        if self._updating != threading.get_ident():  # a user's click may come during an update, on another thread
            self._conversation.run_on_loop(action, value)

    def update(self, is_locked: bool) -> None:
        """Show the agent's settings. The prompt can't be changed while `is_locked`."""
        self._updating = threading.get_ident()
        try:
            self._update_tools()
            prompt = self._agent.system_prompt or ""
            if self._prompt.value != prompt:
                self._prompt.value = prompt
        finally:
            self._updating = None
        self._prompt.disabled = is_locked

    def _update_tools(self) -> None:
        names, on = self._names(), set(self._agent.offered_tools())
        if names != self._tool_names or not self._tools.children:
            self._tool_names = names
            text = TOOLS_OF_TEAM if self._is_team else NO_TOOLS
            note = widgets.HTML(f'<div class="nbagent-status">{text}</div>')
            old, self._tools.children = self._tools.children, tuple(map(self._checkbox, names)) or (note,)
            for widget in old:
                widget.close()
        for name, box in zip(names, self._tools.children, strict=False):
            if box.value != (name in on):
                box.value = name in on

    def _names(self) -> tuple[str, ...]:
        """The agent's tools, then those that the vendor of its model runs itself."""
        own = self._agent.function_registry.names()
        try:
            others = [] if self._is_team else self._agent.provider.vendor_tools()
        except (NbagentError, ImportError):  # the agent has no model yet
            others = []
        return (*own, *(name for name in others if name not in own and vendor_tool(name)))

    def _checkbox(self, name: str) -> Any:
        tool = self._agent.function_registry.get_function(name) or vendor_tool(name)
        about = tool.description.strip().partition("\n")[0] if tool else ""
        is_on = name in self._agent.offered_tools()
        box = widgets.Checkbox(is_on, description=name, indent=False, tooltip=about)
        box.observe(lambda change: self._apply(lambda on: self._offer(name, on), change["new"]), "value")
        return box

    def _offer(self, name: str, on: bool) -> None:
        if on and name not in self._agent.function_registry and (tool := vendor_tool(name)):
            self._agent.function_registry.add(tool)
        (self._agent.tools_off.discard if on else self._agent.tools_off.add)(name)
        self._conversation.show_notice(self._conversation.notice)

    def _set_prompt(self, text: str) -> None:
        self._agent.system_prompt = text or None
        self._conversation.show_notice("")
