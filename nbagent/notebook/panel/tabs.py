"""The panel's other tabs: Trace (what happened) and Setup (tools, system prompt). Text from the trace is escaped."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from nbagent.agent.agent import Agent
from nbagent.chat.greeting import about_tool
from nbagent.chat.patch import State
from nbagent.core.render import markdown as render
from nbagent.errors import NbagentError
from nbagent.functions.provider_tools import provider_tool
from nbagent.notebook.document.modes import MODES
from nbagent.notebook.document.tools import notebook_tools_of
from nbagent.text import shortened
from nbagent.trace.views import timeline

TABLES = {"runs": "one row per run", "calls": "one row per model request", "tool_calls": "one row per tool call"}
#: Steps in the timeline, and characters of a name there.
MAX_STEPS, MAX_NAME = 100, 120
NOTHING = '<p class="nbagent-quiet">Nothing yet.</p>'
NO_TOOLS = "None yet: decorate a function with @tool, or %agent tools add NAME."
TOOLS_OF_TEAM = "Its members bring their own tools."


def trace_html(trace: Any, turns: Mapping[str, str], saved: str = "") -> str:
    """The trace's timeline and tables as safe HTML, including the runs of forks and subagents.

    `turns` maps the runs of the panel's turns to the turns' keys. The steps of these runs are buttons that jump to the
    turn. `saved` is the name of the notebook in which the turns were last saved; "" if there is none.
    """
    trace = trace.with_children()
    parts = [_saving_html(saved)] if turns else []
    parts += [_heading("timeline()", "how long each step took"), timeline_html(trace, turns)]
    for name, what in TABLES.items():
        frame = getattr(trace, name)
        table = NOTHING
        if len(frame):
            shown = frame.shown()
            filled = shown.astype(object).where(shown.notna(), "–")
            table = render.printable(filled.to_html(max_rows=20, escape=True, border=0))
        parts.append(f'{_heading(name, what)}<div class="nbagent-table">{table}</div>')
    return f'<div class="nbagent">{"".join(parts)}</div>'


def _saving_html(saved: str) -> str:
    title = "Prompts, answers and the code of tool calls as a notebook that runs without the agent"
    saves = f'<button type="button" title="{title}" data-notebook>Save as notebook</button>'
    where = f"<span>Saved as {render.escape(saved)}</span>" if saved else ""
    return f'<div class="nbagent-saving">{saves}{where}</div>'


def save_notebook(trace: Any, run_ids: Container[str]) -> str:
    """Save these runs as a notebook in the kernel's folder, under a new name. Returns this name."""
    names = (f"conversation{f'-{number}' if number > 1 else ''}.ipynb" for number in count(1))
    name = next(name for name in names if not Path(name).exists())
    trace.to_notebook([row["run_id"] for row in trace.rows("runs") if row["run_id"] in run_ids], name)
    return name


def _heading(name: str, what: str) -> str:
    return f"<h4><code>agent.trace.{name}</code> <small>{what}</small></h4>"


def timeline_html(trace: Any, turns: Mapping[str, str]) -> str:
    """The last steps of `trace.timeline()` as HTML. Each model request and each tool call is a row below its prompt."""
    tables = trace.rows_with_children()
    spans = timeline.folded_spans(tables)
    if not spans:
        return NOTHING
    steps = [list(step) for _, step in groupby(sorted(spans, key=attrgetter("lane")), attrgetter("lane"))]
    shown = steps[-MAX_STEPS:]
    found = [span for step in shown for span in step]
    start, end = min(span.start for span in found), max(span.end for span in found)
    bars = partial(_bars_html, start=start, seconds=(end - start) or 1.0)
    runs = {run["run_id"]: run for run in tables["runs"]}
    rows = ""
    for run, group in groupby(shown, lambda step: step[0].run):
        own, row = list(group), partial(_row_html, turn=turns.get(run))
        question = runs[run]["prompt"] or own[0][0].label
        if len(own) == 1:
            rows += row("question", question, bars(own[0]), _seconds(own[0]))
            continue
        rows += row("question", question, "", runs[run]["duration_s"])
        for step in own:
            first = step[0]
            name = first.label if first.title == question else first.title
            rows += row("step", "› " * first.depth + name, bars(step), _seconds(step))
    kinds = [kind for kind in timeline.LEGEND if any(span.kind == kind for span in found)]
    legend = "".join(f'<span><b class="nbagent-span-{kind}"></b>{timeline.LEGEND[kind]}</span>' for kind in kinds)
    left_out = f"; the last {MAX_STEPS} of {len(steps)} steps" * (len(steps) > MAX_STEPS)
    note = f"<span>{timeline.unit(found)}{left_out}</span>"
    return f'<div class="nbagent-timeline">{rows}</div><div class="nbagent-legend">{legend}{note}</div>'


def _seconds(step: Iterable[timeline.Span]) -> float:
    return sum(span.seconds for span in step)


def _bars_html(step: Iterable[timeline.Span], start: float, seconds: float) -> str:
    bars = ""
    for span in step:
        left, width = (100 * length / seconds for length in (span.start - start, span.end - span.start))
        title = f"{timeline.LEGEND[span.kind]}: {render.format_duration(span.seconds)}"
        bars += f'<b class="nbagent-span-{span.kind}" title="{title}" style="left:{left:.2f}%;width:{width:.2f}%"></b>'
    return f"<i>{bars}</i>"


def _row_html(kind: str, name: str, bars: str, seconds: float | None, turn: str | None) -> str:
    tag, to = ("button", f' type="button" title="Show this turn" data-turn="{turn}"') if turn else ("div", "")
    took = "" if seconds is None else render.format_duration(seconds)  # it has not ended
    name = render.escape(shortened(" ".join(name.split()), MAX_NAME))
    return f'<{tag} class="nbagent-trace-{kind}"{to}><span>{name}</span>{bars}<small>{took}</small></{tag}>'


def setup_state(agent: Agent) -> State:
    """The system prompt and the tools. Each tool has its name and description, and shows whether it is offered and
    needs approval.
    """
    on = set(agent.offered_tools())
    tools = [{"name": name, "on": name in on, **about_tool(agent, name)} for name in _names(agent)]
    note = TOOLS_OF_TEAM if _is_team(agent) else NO_TOOLS
    return {"prompt": agent.system_prompt or "", "tools": tools, **({} if tools else {"note": note})}


def tool_count(agent: Agent) -> str:
    """`"3 tools"`, or `"2 of 3 tools"` if some are switched off."""
    names = agent.offered_tools()
    known, offered = len({*agent.function_registry.names(), *names}), len(names)
    return f"{f'{offered} of {known}' if offered < known else known} tool{'s' * (known != 1)}"


def mode_state(agent: Agent) -> State | None:
    """The mode of the agent's notebook tools, and what each mode means; None if the agent has no notebook tools."""
    tools = notebook_tools_of(agent.function_registry)
    return None if tools is None else {"now": tools.mode, "all": dict(MODES)}


def offer(agent: Agent, name: str, on: bool) -> None:
    """Offer a tool to the model, or withdraw it."""
    if on and name not in agent.function_registry and (tool := provider_tool(name)):
        agent.function_registry.add(tool)
    (agent.tools_off.discard if on else agent.tools_off.add)(name)


def _is_team(agent: Agent) -> bool:
    return hasattr(agent, "members")  # a `Team`, which this layer does not know


def _names(agent: Agent) -> tuple[str, ...]:
    """The names of the agent's tools, then of the provider's own."""
    own = agent.function_registry.names()
    try:
        others = [] if _is_team(agent) else agent.provider.provider_tools()
    except (NbagentError, ImportError):  # the agent has no model yet
        others = []
    return (*own, *(name for name in others if name not in own and provider_tool(name)))
