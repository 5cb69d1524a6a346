"""When each step of a trace happened and how long it took: spans on lanes, and a picture of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nbagent.core.render.markdown import format_call, format_duration
from nbagent.trace.rows import Row
from nbagent.trace.views.plots import COLOURS, add_legend, name_rows, show_empty, subplots, tidy

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: What the colours mean.
LEGEND = {
    "waiting": "until the first token",
    "thinking": "thinking",
    "model": "model",
    "tool": "tool",
    "approval": "waiting for approval",
    "error": "failed",
}
#: More steps than these share lanes, those of each model and tool.
MAX_LANES = 40
#: A wait for a person is drawn no longer than this part of the time in which something runs.
WAIT_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in seconds since the beginning; `kind` is one of `plots.COLOURS`.

    `width` is how long it is drawn, if that is not how long it took.
    `label` is the model or the tool, `title` what was asked or called, `run` the id of the run that someone asked for,
    `depth` the number of agents that wait for it.
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
        """Where its bar ends, in seconds since the beginning."""
        return self.start + (self.seconds if self.width is None else self.width)


def tables(rows: Mapping[str, Sequence[Row]]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """What `draw` and `lay_out` take, of the rows of these tables."""
    from nbagent.trace import columns

    calls, tools, runs = (columns.build(name, list(rows[name])) for name in ("calls", "tool_calls", "runs"))
    return calls, tools, runs


def spans(
    calls: pd.DataFrame,
    tools: pd.DataFrame,
    prompts: Mapping[str, str] | None = None,
    parents: Mapping[str, Any] | None = None,
) -> list[Span]:
    """What happened, by time: each model call and each tool call on a lane of its own.

    A model call begins with `waiting`, from the request to the first token, retries included; then comes `thinking`,
    where it is known. The pauses between runs are left out, and so are steps that did not end. A replayed call takes
    the time that was recorded, and what followed it at once is drawn after that. `prompts` are the questions by run:
    the first step of a run is titled with its question. `parents` are, by run, the tool calls that started it: its
    steps are below that call.
    """
    ended = [table[table["started"].notna() & table["duration_s"].notna()] for table in (calls, tools)]
    steps: list[Any] = [row for table in ended for row in table.to_dict("records")]
    steps.sort(key=lambda row: row["started"].timestamp())
    found: list[Span] = []
    shift, busy, seen = 0.0, 0.0, set[str]()
    replayed_until: dict[str, float] = {}  # by run: where its last replayed call ends
    for lane, row in enumerate(steps):
        run, seconds, start = row["run_id"], float(row["duration_s"]), row["started"].timestamp() + shift
        earliest = replayed_until.get(run, 0.0)
        title = ""
        if run not in seen:
            seen.add(run)
            title = (prompts or {}).get(run) or ""
            earliest = busy if replayed_until else 0.0
            start -= (pause := max(0.0, start - busy))
            shift -= pause
        shift += max(0.0, earliest - start)
        start = max(earliest, start)
        if _is_true(row.get("replayed")):
            replayed_until[run] = start + seconds
        busy = max(busy, start + seconds)
        title = title or (str(row["model"]) if "ttft_s" in row else _call_title(row))
        step = (_call_spans if "ttft_s" in row else _tool_spans)(row, lane, start, seconds)
        found += [replace(span, title=title) for span in step]
    places = _nested(steps, parents or {})
    return [
        replace(span, lane=lane, depth=depth, run=steps[top]["run_id"])
        for span in found
        for lane, depth, top in [places[span.lane]]
    ]


def _nested(steps: Sequence[Mapping[str, Any]], parents: Mapping[str, Any]) -> dict[int, tuple[int, int, int]]:
    """By the number of a step: its lane if runs stand below the call that started them, how deep it is, and the number
    of the step that it is below, at the top.
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


def _call_title(row: dict[str, Any]) -> str:
    """A tool call as one would type it."""
    arguments = row.get("args")
    if isinstance(arguments, str):  # as in files
        arguments = json.loads(arguments)
    return f"  {format_call(str(row['name']), arguments if isinstance(arguments, dict) else None)}"


def _call_spans(row: dict[str, Any], lane: int, start: float, seconds: float) -> list[Span]:
    """The spans of a model call, one after the other."""
    name, end, found = str(row["model"]), start + seconds, []
    for kind, columns in (("waiting", ("retry_wait_s", "ttft_s")), ("thinking", ("thinking_s",))):
        known = sum(float(row[column]) for column in columns if _is_true(row[column]))
        if took := min(end - start, max(0.0, known)):
            found.append(Span(lane, kind, start, took, name))
            start += took
    kind = "error" if isinstance(row["error_type"], str) else "model"
    return [*found, Span(lane, kind, start, end - start, name)]


def _tool_spans(row: dict[str, Any], lane: int, start: float, seconds: float) -> list[Span]:
    """A tool starts once its approval is given; a denied call has nothing but the wait for it."""
    name = f"  {row['name']}()"
    if row["approval"] == "denied":
        return [Span(lane, "approval", start, seconds, name)]
    span = Span(lane, "error" if _is_true(row["is_error"]) else "tool", start, seconds, name)
    waited = (row["started"] - row["ts"]).total_seconds() if row["approval"] in ("approved", "edited") else 0.0
    return [replace(span, kind="approval", start=start - waited, seconds=waited), span] if waited > 0 else [span]


def _is_true(value: Any) -> bool:
    """Whether a value is known, and neither false nor zero."""
    import pandas as pd

    return not pd.isna(value) and bool(value)


def packed(found: Sequence[Span]) -> list[Span]:
    """The same spans on few lanes: one for each model and tool, and more where they ran in parallel."""
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


def folded_spans(calls: pd.DataFrame, tools: pd.DataFrame, runs: pd.DataFrame) -> list[Span]:
    """The spans of all runs, with questions and without long waits for a person, as they are drawn."""
    asked = {run: prompt for run, prompt in zip(runs["run_id"], runs["prompt"], strict=True) if isinstance(prompt, str)}
    called = dict(zip(runs["run_id"], runs["parent_tool_call_id"], strict=True))
    return _folded(spans(calls, tools, asked, called))


def _folded(found: Sequence[Span]) -> list[Span]:
    """The same spans, with the times cut short in which all there is waits for a person: two minutes of it would make
    slivers of the rest.
    """
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
    """Where each lane ends, and how many seconds it took, by its number."""
    took: dict[int, float] = {}
    for span in found:
        took[span.lane] = took.get(span.lane, 0.0) + span.seconds
    return {span.lane: (span.end, took[span.lane]) for span in found}


def unit(found: Sequence[Span]) -> str:
    """The label of the time axis: its unit, and the time that it leaves out."""
    is_cut = any(span.seconds - (span.end - span.start) > 0.01 * span.seconds for span in found)
    left_out = [
        *(["pauses between questions"] if len({span.run for span in found}) > 1 else []),
        *(["long waits for approval"] if is_cut else []),
    ]
    return f"seconds ({' and '.join(left_out)} left out)" if left_out else "seconds"


def draw(calls: pd.DataFrame, tools: pd.DataFrame, runs: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """See `Trace.timeline`."""
    found = folded_spans(calls, tools, runs)
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
            # the edge shows what is shorter than a pixel
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
