"""When each step of a trace happened and how long it took, as spans on lanes, and the picture of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nbagent.core.render.markdown import format_duration
from nbagent.trace.views.plots import COLOURS, name_colours, new_axes, say_nothing, shortened, tidy

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_SAID = {
    "waiting": "until the first token",
    "thinking": "thinking",
    "model": "model",
    "tool": "tool",
    "approval": "waiting for approval",
    "error": "failed",
}
#: More steps than these share lanes.
MOST_STEPS = 40


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in seconds since the beginning: `kind` is one of `plots.COLOURS`."""

    lane: int
    kind: str
    start: float
    seconds: float
    label: str


def spans(calls: pd.DataFrame, tools: pd.DataFrame) -> list[Span]:
    """What happened, by time: each model call and each tool call on a lane of its own.

    From the request to the first token is `waiting`, the pauses before it was sent again included; then the model may
    be `thinking`, where that is known. The time between two runs, in which nothing happened, is left out, and so is
    what has no end. A replayed call takes its time of the recording, and what really followed at once comes after it.
    """
    ended = [table[table["started"].notna() & table["duration_s"].notna()] for table in (calls, tools)]
    steps: list[Any] = [row for table in ended for row in table.to_dict("records")]
    steps.sort(key=lambda row: row["started"].timestamp())
    found: list[Span] = []
    shift, busy, seen = 0.0, 0.0, set[str]()
    after: dict[str, float] = {}  # by run: where its last replayed call ends
    for lane, row in enumerate(steps):
        run, seconds, start = row["run_id"], float(row["duration_s"]), row["started"].timestamp() + shift
        least = after.get(run, 0.0)
        if run not in seen:
            seen.add(run)
            least = busy if after else 0.0
            start -= (pause := max(0.0, start - busy))
            shift -= pause
        shift += max(0.0, least - start)
        start = max(least, start)
        if _is(row.get("replayed")):
            after[run] = start + seconds
        busy = max(busy, start + seconds)
        found += _of(row, lane, start, seconds)
    return found


def _of(row: dict[str, Any], lane: int, start: float, seconds: float) -> list[Span]:
    """The spans of a step, one after the other."""
    if "ttft_s" not in row:
        return _of_tool(row, lane, start, seconds)
    kind = "error" if isinstance(row["error_type"], str) else "model"
    spans, left = [], seconds
    for part, columns in (("waiting", ("retry_wait_s", "ttft_s")), ("thinking", ("thinking_s",))):
        known = [float(row[column]) for column in columns if _is(row[column])]
        if took := min(left, max(0.0, sum(known))):
            spans.append(Span(lane, part, start + seconds - left, took, str(row["model"])))
            left -= took
    return [*spans, Span(lane, kind, start + seconds - left, left, str(row["model"]))]


def _of_tool(row: dict[str, Any], lane: int, start: float, seconds: float) -> list[Span]:
    """A tool's time begins when the person who was asked has answered; a call that was denied is nothing but that."""
    label = f"  {row['name']}()"
    if row["approval"] == "denied":
        return [Span(lane, "approval", start, seconds, label)]
    span = Span(lane, "error" if _is(row["is_error"]) else "tool", start, seconds, label)
    asked = (row["started"] - row["ts"]).total_seconds() if row["approval"] in ("approved", "edited") else 0.0
    return [Span(lane, "approval", start - asked, asked, label), span] if asked > 0 else [span]


def _is(value: Any) -> bool:
    """Whether a value is there, and is not false or zero."""
    import pandas as pd

    return not pd.isna(value) and bool(value)


def packed(found: Sequence[Span]) -> list[Span]:
    """The same spans on few lanes: one for each model and tool, and more of them where they ran side by side."""
    steps: dict[int, list[Span]] = {}
    for span in found:
        steps.setdefault(span.lane, []).append(span)
    kept: dict[str, list[list[Span]]] = {}  # by label: what stands on each of its lanes
    for step in steps.values():
        lanes = kept.setdefault(step[0].label, [])
        lane = next((lane for lane in lanes if lane[-1].start + lane[-1].seconds <= step[0].start), None)
        if lane is None:
            lane = []
            lanes.append(lane)
        lane += step
    every = [lane for lanes in kept.values() for lane in lanes]
    return [replace(span, lane=number) for number, lane in enumerate(every) for span in lane]


def laid_out(calls: pd.DataFrame, tools: pd.DataFrame) -> tuple[list[Span], bool]:
    """The spans, and whether each step still has a lane of its own: many share few."""
    found = spans(calls, tools)
    apart = len({span.lane for span in found}) <= MOST_STEPS
    return (found if apart else packed(found)), apart


def taken(found: Sequence[Span]) -> dict[int, tuple[float, float]]:
    """Where each lane begins and ends, by its number."""
    starts = {span.lane: span.start for span in reversed(found)}
    return {span.lane: (starts[span.lane], span.start + span.seconds) for span in found}


def draw(calls: pd.DataFrame, tools: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """See `Trace.timeline`."""
    found, apart = laid_out(calls, tools)
    labels = {span.lane: span.label for span in found}
    end = max((span.start + span.seconds for span in found), default=1.0) or 1.0
    given, ax = ax is not None, ax or new_axes(9.0, 1.2 + 0.28 * max(len(labels), 1))
    for kind, colour in COLOURS.items():
        if own := [span for span in found if span.kind == kind]:
            left, width = [span.start for span in own], [span.seconds for span in own]
            lanes = [span.lane for span in own]
            # the edge is there for what is shorter than a pixel
            ax.barh(
                lanes, width, left=left, height=0.68, color=colour, edgecolor=colour, linewidth=0.7, label=_SAID[kind]
            )
    ax.set_xlim(0, end * 1.1 if apart else end)
    ax.set_ylim(max(len(labels), 1) - 0.4, -0.6)
    ax.set_xlabel("seconds (pauses between questions left out)" if calls["run_id"].nunique() > 1 else "seconds")
    ax.set_yticks(list(labels), list(map(shortened, labels.values())), parse_math=False)
    for lane, (start, until) in taken(found).items() if apart else ():
        ax.text(until + 0.006 * end, lane, format_duration(until - start), va="center", fontsize=8.5)
    tidy(ax, "left")
    if found:
        name_colours(ax, 6, inside=given)
    else:
        say_nothing(ax)
    return ax
