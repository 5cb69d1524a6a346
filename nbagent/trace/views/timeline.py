"""Shows when each step of a trace ran and how long it took, as spans on lanes and as a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from nbagent.core.render.markdown import format_call, format_duration
from nbagent.trace.rows import Row
from nbagent.trace.views.plots import COLOURS, add_legend, name_rows, show_empty, subplots, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The rows of `runs`, `calls` and `tool_calls`, by table.
Rows = Mapping[str, Sequence[Row]]

#: The meaning of the colours.
LEGEND = {
    "waiting": "until the first token",
    "thinking": "thinking",
    "model": "model",
    "tool": "tool",
    "approval": "waiting for approval",
    "error": "failed",
}
#: Beyond this many steps, each model and tool has one lane.
MAX_LANES = 40
#: The longest wait for a person that is drawn in full, as a share of the time in which something runs.
WAIT_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Span:
    """A bar of the timeline. `start` is given in seconds from the start of the timeline, and `kind` is a key of
    `plots.COLOURS`.

    `label` is the model or tool, and `title` the prompt or call. `run` is the id of the outermost run, and `depth` the
    number of runs that are waiting for the span's own run. If `width` is set, it replaces `seconds` as the drawn
    length.
    """

    lane: int
    kind: str
    start: float
    seconds: float
    label: str
    title: str = ""
    run: str = ""
    depth: int = 0
    width: float | None = None

    @property
    def end(self) -> float:
        """The end of the bar, in seconds from the start of the timeline."""
        return self.start + (self.seconds if self.width is None else self.width)


def spans(rows: Rows) -> list[Span]:
    """The spans of the model calls and tool calls that have ended, in chronological order, with a lane for each call.

    The first span of a model call is `waiting`: the time from the request to the first token, including retries.
    `thinking` follows if it was measured. Pauses between runs are omitted. A replayed call takes as long as it did when
    it was recorded, and later steps are shifted accordingly. The first step of a run has the prompt as its title. If a
    tool call started a run, the run's lanes follow the call's lane.
    """
    prompts = {run["run_id"]: run["prompt"] for run in rows["runs"]}
    steps = [
        row
        for table in ("calls", "tool_calls")
        for row in rows[table]
        if row["started"] is not None and row["duration_s"] is not None
    ]
    steps.sort(key=itemgetter("started"))
    found: list[Span] = []
    shift, busy, seen = 0.0, 0.0, set[str]()
    replayed_until: dict[str, float] = {}  # by run: where its last replayed call ends
    for lane, row in enumerate(steps):
        run, seconds, start = row["run_id"], row["duration_s"], row["started"] + shift
        earliest = replayed_until.get(run, 0.0)
        title = ""
        if run not in seen:
            seen.add(run)
            title = prompts.get(run) or ""
            earliest = busy if replayed_until else 0.0
            start -= (pause := max(0.0, start - busy))
            shift -= pause
        shift += max(0.0, earliest - start)
        start = max(earliest, start)
        if row.get("replayed"):
            replayed_until[run] = start + seconds
        busy = max(busy, start + seconds)
        title = title or (str(row["model"]) if "ttft_s" in row else _call_title(row))
        step = (_call_spans if "ttft_s" in row else _tool_spans)(row, lane, start, seconds)
        found += [replace(span, title=title) for span in step]
    places = _nested(steps, {run["run_id"]: run["parent_tool_call_id"] for run in rows["runs"]})
    return [
        replace(span, lane=lane, depth=depth, run=steps[top]["run_id"])
        for span in found
        for lane, depth, top in [places[span.lane]]
    ]


def _nested(steps: Sequence[Mapping[str, Any]], parents: Mapping[str, Any]) -> dict[int, tuple[int, int, int]]:
    """For each step number, the step's lane, its depth, and the number of the outermost step above it.

    The lanes of a run are below the tool call that started the run. `parents` has that tool call for each run.
    """
    called = {step["tool_call_id"] for step in steps if "ttft_s" not in step}
    of_run: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        of_run.setdefault(step["run_id"], []).append(number)
    below: dict[Any, list[str]] = {}
    for run in of_run:
        if (call := parents.get(run)) in called:
            below.setdefault(call, []).append(run)
    nested = {run for runs in below.values() for run in runs}
    places: dict[int, tuple[int, int, int]] = {}
    waiting = [(n, 0, n) for n, step in enumerate(steps) if step["run_id"] not in nested][::-1]
    while waiting:
        number, depth, top = waiting.pop()
        places[number] = len(places), depth, top
        runs = below.get(steps[number].get("tool_call_id"), ())
        waiting += [(inner, depth + 1, top) for run in runs for inner in of_run[run]][::-1]
    return places


def _call_title(row: Row) -> str:
    """A tool call as you would type it."""
    return f"  {format_call(str(row['name']), json.loads(row['args'] or '{}'))}"


def _call_spans(row: Row, lane: int, start: float, seconds: float) -> list[Span]:
    """The successive spans of a model call."""
    name, end, found = str(row["model"]), start + seconds, []
    for kind, columns in (("waiting", ("retry_wait_s", "ttft_s")), ("thinking", ("thinking_s",))):
        known = sum(row[column] or 0.0 for column in columns)
        if took := min(end - start, max(0.0, known)):
            found.append(Span(lane, kind, start, took, name))
            start += took
    kind = "error" if row["error_type"] else "model"
    return [*found, Span(lane, kind, start, end - start, name)]


def _tool_spans(row: Row, lane: int, start: float, seconds: float) -> list[Span]:
    """A tool starts once it is approved; for a denied call, there is only the wait."""
    name = f"  {row['name']}()"
    if row["approval"] == "denied":
        return [Span(lane, "approval", start, seconds, name)]
    span = Span(lane, "error" if row["is_error"] else "tool", start, seconds, name)
    waited = row["started"] - row["ts"] if row["approval"] in ("approved", "edited") else 0.0
    return [replace(span, kind="approval", start=start - waited, seconds=waited), span] if waited > 0 else [span]


def packed(found: Sequence[Span]) -> list[Span]:
    """The same spans on fewer lanes: one for each model and tool, or several if its calls overlap."""
    steps: dict[int, list[Span]] = {}
    for span in found:
        steps.setdefault(span.lane, []).append(span)
    by_label: dict[str, list[list[Span]]] = {}  # the lanes of each label
    for step in steps.values():
        lanes = by_label.setdefault(step[0].label, [])
        lane = next((lane for lane in lanes if lane[-1].end <= step[0].start), None)
        if lane is None:
            lane = []
            lanes.append(lane)
        lane += step
    every = [lane for lanes in by_label.values() for lane in lanes]
    return [replace(span, lane=number) for number, lane in enumerate(every) for span in lane]


def folded_spans(rows: Rows) -> list[Span]:
    """The spans to draw. Long waits for a person are shortened if nothing else runs during them."""
    found = spans(rows)
    ran = sorted((span.start, span.end) for span in found if span.kind != "approval")
    most = WAIT_SHARE * sum(end - start for start, end in ran)
    waits: list[tuple[float, float]] = []
    until = 0.0
    for start, end in ran if most else ():
        if start - until > most:
            waits.append((until, start))
        until = max(until, end)

    def place(time: float) -> float:
        cut = 0.0
        for start, end in waits:
            cut += (min(time, end) - start) * (1 - most / (end - start)) if time > start else 0.0
        return time - cut

    return [replace(span, start=place(span.start), width=place(span.end) - place(span.start)) for span in found]


def lane_times(found: Sequence[Span]) -> dict[int, tuple[float, float]]:
    """For each lane number, the end of the lane and the total seconds of its spans."""
    took: dict[int, float] = {}
    for span in found:
        took[span.lane] = took.get(span.lane, 0.0) + span.seconds
    return {span.lane: (span.end, took[span.lane]) for span in found}


def unit(found: Sequence[Span]) -> str:
    """The label of the time axis: the unit, and a note about omitted time."""
    is_cut = any(span.seconds - (span.end - span.start) > 0.01 * span.seconds for span in found)
    left_out = [
        *(["pauses between prompts"] if len({span.run for span in found}) > 1 else []),
        *(["long waits for approval"] if is_cut else []),
    ]
    return f"seconds ({' and '.join(left_out)} left out)" if left_out else "seconds"


def draw(rows: Rows, ax: Axes | None = None) -> Axes:
    """See `Trace.timeline`."""
    found = folded_spans(rows)
    if separate := len({span.lane for span in found}) <= MAX_LANES:
        names = {span.lane: "› " * span.depth + span.title.strip() for span in found}
    else:
        found = packed(found)
        names = {span.lane: span.label for span in found}
    end = max((span.end for span in found), default=1.0) or 1.0
    given, ax = ax is not None, ax or subplots(1, figsize=(9.0, 1.2 + 0.28 * max(len(names), 1)))[0]
    for kind, colour in COLOURS.items():
        if own := [span for span in found if span.kind == kind]:
            lanes, starts = [span.lane for span in own], [span.start for span in own]
            # the edge keeps spans shorter than a pixel visible
            look: dict[str, Any] = {"height": 0.68, "color": colour, "edgecolor": colour, "linewidth": 0.7}
            ax.barh(lanes, [span.end - span.start for span in own], left=starts, label=LEGEND[kind], **look)
    ax.set_xlim(0, end * 1.1 if separate else end)
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)
    ax.set_xlabel(unit(found))
    name_rows(ax, names, names.values())
    for lane, (until, took) in lane_times(found).items() if separate else ():
        ax.text(until + 0.006 * end, lane, format_duration(took), va="center", fontsize=8.5)
    for before, span in pairwise(found) if separate else ():
        if span.run != before.run:
            ax.axhline(span.lane - 0.5, color="0.5", alpha=0.4, linewidth=0.8, zorder=0)
    tidy(ax, "left")
    if found:
        add_legend(ax, 6, inside=given)
    else:
        show_empty(ax)
    return ax
