"""The views of a trace as plain text, for terminals, logs and mails: `Trace.to_text`. They need no matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from nbagent.checks import check_choice
from nbagent.core.render.key_values import key_values_text
from nbagent.core.render.markdown import format_duration
from nbagent.trace import columns
from nbagent.trace.table import Row
from nbagent.trace.tally import tally_of
from nbagent.trace.views import timeline
from nbagent.trace.views.plots import NOTHING, label, usage_by_run
from nbagent.trace.views.summary import summary_lines
from nbagent.trace.views.tool_stats import seconds_by_tool, tool_stats
from nbagent.trace.views.transcript import TraceTranscript
from nbagent.trace.views.tree import TraceTree

if TYPE_CHECKING:
    import pandas as pd

#: Characters of a timeline's bars.
WIDTH = 60
_SIGNS = {"waiting": "·", "thinking": "░", "model": "█", "tool": "█", "approval": "?", "error": "×"}

#: Views that also show what the tools of a run started.
NESTED = ("timeline", "tree")

Rows = Mapping[str, list[Row]]


def text_view(view: str, rows: Rows) -> str:
    """See `Trace.to_text`. Takes the rows of the tables."""
    check_choice("view", view, _VIEWS)
    return _VIEWS[view](rows)


def _timeline(rows: Rows) -> str:
    found, separate = timeline.lay_out(*timeline.tables(rows))
    if not found:
        return NOTHING
    times = timeline.lane_times(found)
    end = max(until for _, until in times.values()) or 1.0
    bars = {lane: [" "] * WIDTH for lane in times}
    for span in found:
        begin = min(int(span.start / end * WIDTH), WIDTH - 1)
        cells = max(1, round(span.end / end * WIDTH) - begin)
        bars[span.lane][begin : begin + cells] = _SIGNS[span.kind] * cells
    labels = {span.lane: span.label for span in found}
    names = {lane: text[: -len(text.lstrip())] + label(text) for lane, text in labels.items()}
    width = max(map(len, names.values()))
    took = {lane: f" {format_duration(until - start)}" if separate else "" for lane, (start, until) in times.items()}
    lines = [f"{names[lane]:<{width}}  {''.join(bars[lane])[:WIDTH]}{took[lane]}" for lane in sorted(times)]
    legend = f"0 to {format_duration(end)}; · until the first token, ░ thinking, ? waiting for approval, × failed"
    return "\n".join([line.rstrip() for line in lines] + [f"{'':<{width}}  {legend}"])


def _usage(rows: Rows) -> str:
    sums = usage_by_run(columns.usage_frame(columns.build("calls", rows["calls"])))
    paid, played = (
        ["-" if cost != cost else f"${cost:.4f}" if cost else "$0" for cost in sums[name].astype(float)]
        for name in ("cost_usd", "replayed_cost_usd")
    )
    return _aligned(
        {
            "run": map(str, range(1, len(sums) + 1)),
            "input": _counts(sums["input_tokens"]),
            "from the cache": _counts(sums["cache_read_tokens"]),
            "output": _counts(sums["output_tokens"]),
            "cost": paid,
            **({"replayed, not paid": played} if set(played) - {"$0"} else {}),
        }
    )


def _tools(rows: Rows) -> str:
    from statistics import median

    calls = columns.build("tool_calls", rows["tool_calls"])
    stats = tool_stats(calls).sort_values("calls", ascending=False, kind="stable")
    seconds = seconds_by_tool(calls)
    ran = [seconds.get(name, []) for name in stats.index]
    return _aligned(
        {
            "tool": map(label, stats.index),
            **{name: _counts(stats[name]) for name in ("calls", "succeeded", "failed", "invalid", "denied")},
            "median": (format_duration(median(values)) if values else "-" for values in ran),
            "longest": (format_duration(max(values)) if values else "-" for values in ran),
        }
    )


def _counts(numbers: pd.Series[int]) -> Iterable[str]:
    return (f"{number:,.0f}" for number in numbers)


def _aligned(table: Mapping[str, Iterable[str]]) -> str:
    """Columns of text under their names, the first aligned to the left and the others to the right."""
    filled = [[name, *values] for name, values in table.items()]
    if len(filled[0]) == 1:
        return NOTHING
    widths = [max(map(len, column)) for column in filled]
    lines = []
    for first, *others in zip(*filled, strict=True):
        cells = [f"{text:>{width}}" for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:<{widths[0]}}", *cells]))
    return "\n".join(lines)


_VIEWS: dict[str, Callable[[Rows], str]] = {
    "summary": lambda rows: key_values_text(summary_lines(tally_of(rows))),
    "timeline": _timeline,
    "usage": _usage,
    "tools": _tools,
    "tree": lambda rows: str(TraceTree(rows)),
    "transcript": lambda rows: str(TraceTranscript(rows)),
}
