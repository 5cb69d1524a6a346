"""The panel's other tabs: Trace (what happened) and Setup (tools, system prompt). Values from the trace are escaped."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import Any

from nbagent.agent.agent import Agent
from nbagent.chat.patch import State
from nbagent.core.render import markdown as render
from nbagent.errors import NbagentError
from nbagent.functions.vendor_tools import vendor_tool
from nbagent.trace.views import timeline

TABLES = {"runs": "one row per question", "calls": "one row per model request", "tool_calls": "one row per tool call"}
NOTHING = '<p class="nbagent-quiet">Nothing yet.</p>'
NO_TOOLS = "None yet: decorate a function with @tool, or %agent tools add NAME."
TOOLS_OF_TEAM = "Its members bring their own tools."


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


def setup_state(agent: Agent) -> State:
    """The system prompt, and the tools: name, first line of the description, whether it is offered, whether it asks."""
    on = set(agent.offered_tools())
    tools = [{"name": name, "on": name in on, **_about(agent, name)} for name in _names(agent)]
    note = TOOLS_OF_TEAM if _is_team(agent) else NO_TOOLS
    return {"prompt": agent.system_prompt or "", "tools": tools, **({} if tools else {"note": note})}


def tool_count(agent: Agent) -> str:
    """`"3 tools"`, or `"2 of 3 tools"` if some are switched off."""
    names = agent.offered_tools()
    known, offered = len({*agent.function_registry.names(), *names}), len(names)
    return f"{f'{offered} of {known}' if offered < known else known} tool{'s' * (known != 1)}"


def offer(agent: Agent, name: str, on: bool) -> None:
    """Offer a tool, or offer it no more."""
    if on and name not in agent.function_registry and (tool := vendor_tool(name)):
        agent.function_registry.add(tool)
    (agent.tools_off.discard if on else agent.tools_off.add)(name)


def _is_team(agent: Agent) -> bool:
    return hasattr(agent, "members")  # a `Team`, which this layer does not know


def _names(agent: Agent) -> tuple[str, ...]:
    """The agent's tools, then those that the provider of its model runs itself."""
    own = agent.function_registry.names()
    try:
        others = [] if _is_team(agent) else agent.provider.vendor_tools()
    except (NbagentError, ImportError):  # the agent has no model yet
        others = []
    return (*own, *(name for name in others if name not in own and vendor_tool(name)))


def _about(agent: Agent, name: str) -> dict[str, Any]:
    tool = agent.function_registry.get_function(name) or vendor_tool(name)
    line = tool.description.strip().partition("\n")[0] if tool else ""
    return {"about": render.printable(line), "asks": bool(tool and tool.approve)}
