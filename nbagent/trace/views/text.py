"""The views of a trace as plain text, for terminals, logs and mails: `Trace.to_text`. They need no matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from nbagent.core.render.key_values import key_values_text
from nbagent.core.render.markdown import format_duration
from nbagent.errors import ConfigurationError
from nbagent.trace.rows import Row
from nbagent.trace.views import timeline
from nbagent.trace.views.plots import NOTHING, by_run, shortened
from nbagent.trace.views.summary import overview
from nbagent.trace.views.tool_stats import seconds_of, tool_stats
from nbagent.trace.views.transcript import TraceTranscript

if TYPE_CHECKING:
    import pandas as pd

#: Characters for the time of a timeline.
WIDTH = 60
_SIGNS = {"waiting": "·", "thinking": "░", "model": "█", "tool": "█", "approval": "?", "error": "×"}

Rows = Mapping[str, list[Row]]


def to_text(view: str, rows: Rows) -> str:
    """See `Trace.to_text`; takes the rows of the tables."""
    if view not in _VIEWS:
        raise ConfigurationError(f"there is no view {view!r}: name one of {', '.join(_VIEWS)}")
    return _VIEWS[view](rows)


def _summary(rows: Rows) -> str:
    return key_values_text(overview(rows))


def _timeline(rows: Rows) -> str:
    from nbagent.trace import columns as frames

    found, apart = timeline.laid_out(*(frames.build(name, rows[name]) for name in ("calls", "tool_calls")))
    if not found:
        return NOTHING
    lanes = timeline.taken(found)
    end = max(until for _, until in lanes.values()) or 1.0
    bars = {lane: [" "] * WIDTH for lane in lanes}
    labels = {span.lane: span.label for span in found}
    for span in found:
        begin = min(int(span.start / end * WIDTH), WIDTH - 1)
        cells = max(1, round((span.start + span.seconds) / end * WIDTH) - begin)
        bars[span.lane][begin : begin + cells] = _SIGNS[span.kind] * cells
    names = {lane: "  " * label.startswith(" ") + shortened(label) for lane, label in labels.items()}
    width = max(map(len, names.values()))
    took = {lane: f" {format_duration(until - start)}" if apart else "" for lane, (start, until) in lanes.items()}
    lines = [f"{names[lane]:<{width}}  {''.join(bars[lane])[:WIDTH]}{took[lane]}" for lane in sorted(lanes)]
    legend = f"0 to {format_duration(end)}; · until the first token, ░ thinking, ? waiting for approval, × failed"
    return "\n".join([line.rstrip() for line in lines] + [f"{'':<{width}}  {legend}"])


def _usage(rows: Rows) -> str:
    from nbagent.trace import columns as frames

    sums = by_run(frames.usage(frames.build("calls", rows["calls"])))
    columns = {
        "run": map(str, range(1, len(sums) + 1)),
        "input": _counts(sums["input_tokens"]),
        "from the cache": _counts(sums["cache_read_tokens"]),
        "output": _counts(sums["output_tokens"]),
        "cost": ("-" if cost != cost else f"${cost:.4f}" if cost else "$0" for cost in sums["cost_usd"].astype(float)),
    }
    return _aligned(columns)


def _tools(rows: Rows) -> str:
    from statistics import median

    from nbagent.trace import columns as frames

    calls = frames.build("tool_calls", rows["tool_calls"])
    stats = tool_stats(calls).sort_values("calls", ascending=False, kind="stable")
    seconds = seconds_of(calls)
    known = [seconds.get(name, []) for name in stats.index]
    columns = {
        "tool": map(shortened, stats.index),
        **{name: _counts(stats[name]) for name in ("calls", "succeeded", "failed", "invalid", "denied")},
        "median": (format_duration(median(values)) if values else "-" for values in known),
        "longest": (format_duration(max(values)) if values else "-" for values in known),
    }
    return _aligned(columns)


def _transcript(rows: Rows) -> str:
    return str(TraceTranscript(rows))


def _counts(numbers: pd.Series[int]) -> Iterable[str]:
    return (f"{number:,.0f}" for number in numbers)


def _aligned(columns: Mapping[str, Iterable[str]]) -> str:
    """Columns of texts under their names: the first to the left, all others to the right."""
    filled = [[name, *values] for name, values in columns.items()]
    if len(filled[0]) == 1:
        return NOTHING
    widths = [max(map(len, column)) for column in filled]
    lines = []
    for first, *others in zip(*filled, strict=True):
        cells = [f"{text:>{width}}" for text, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([f"{first:<{widths[0]}}", *cells]))
    return "\n".join(lines)


_VIEWS: dict[str, Callable[[Rows], str]] = {
    "summary": _summary,
    "timeline": _timeline,
    "usage": _usage,
    "tools": _tools,
    "transcript": _transcript,
}
