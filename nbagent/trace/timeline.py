"""Pictures of a trace: what happened when, and what it used. Drawn with matplotlib, which the extra `plot` installs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nbagent.errors import MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: Colours that stay apart for colour-blind readers: https://jfly.uni-koeln.de/color/
COLOURS = {"waiting": "#B8C9D9", "model": "#0072B2", "tool": "#009E73", "error": "#D55E00"}
_SAID = {"waiting": "until the first token", "model": "model", "tool": "tool", "error": "failed"}
#: More steps than these share lanes; more runs than half of these have no costs above them.
MOST_STEPS = 40
#: Characters of a model's or tool's name.
LABEL_CHARS = 40


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in seconds since the beginning: `kind` is waiting, model, tool or error."""

    lane: int
    kind: str
    start: float
    seconds: float
    label: str


def spans(calls: pd.DataFrame, tools: pd.DataFrame) -> list[Span]:
    """What happened, by time: each model call and each tool call on a lane of its own.

    From the request to the first token is `waiting`, where that is known. The time between two runs, in which nothing
    happened, is left out, and so is what has no end. A replayed call takes its time of the recording, and what really
    followed at once comes after it.
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
    """The one or two spans of a step."""
    if "ttft_s" not in row:
        return [Span(lane, "error" if _is(row["is_error"]) else "tool", start, seconds, f"  {row['name']}()")]
    kind = "error" if isinstance(row["error_type"], str) else "model"
    waited = float(row["ttft_s"]) if _is(row["ttft_s"]) else 0.0
    waited = min(seconds, max(0.0, waited))
    spans = [Span(lane, "waiting", start, waited, str(row["model"]))] if waited else []
    return [*spans, Span(lane, kind, start + waited, seconds - waited, str(row["model"]))]


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


def draw(calls: pd.DataFrame, tools: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """See `Trace.timeline`."""
    found = spans(calls, tools)
    steps = len({span.lane for span in found})
    if steps > MOST_STEPS:
        found = packed(found)
    labels = {span.lane: span.label for span in reversed(found)}
    end = max((span.start + span.seconds for span in found), default=1.0) or 1.0
    ax = ax or _axes(9.0, 1.2 + 0.28 * max(len(labels), 1))
    for kind, colour in COLOURS.items():
        if own := [span for span in found if span.kind == kind]:
            left, width = [span.start for span in own], [span.seconds for span in own]
            ax.barh([span.lane for span in own], width, left=left, height=0.72, color=colour, label=_SAID[kind])
    ax.set_xlim(0, end * 1.1 if steps <= MOST_STEPS else end)
    ax.set_ylim(max(len(labels), 1) - 0.4, -0.6)
    ax.set_xlabel("seconds (pauses between questions left out)" if calls["run_id"].nunique() > 1 else "seconds")
    names = ["".join(filter(str.isprintable, label))[:LABEL_CHARS] for label in labels.values()]
    ax.set_yticks(list(labels), names, parse_math=False)  # a name may have a $ in it
    if steps <= MOST_STEPS:
        starts = {span.lane: span.start for span in reversed(found)}
        for lane, until in {span.lane: span.start + span.seconds for span in found}.items():
            ax.text(until + 0.006 * end, lane, _seconds(until - starts[lane]), va="center", fontsize=8.5)
    _tidy(ax, "left")
    if found:
        ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return ax


def _tidy(ax: Axes, *sides: str) -> None:
    """Lines around a picture that say nothing are left out."""
    for side in ("top", "right", *sides):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)


def plot_usage(usage: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """See `Trace.plot_usage`."""
    ax = ax or _axes(min(12.0, 4.0 + 0.3 * usage["run_id"].nunique()), 3.4)
    from matplotlib.ticker import MaxNLocator

    by_run = usage.groupby("run_id", sort=False)
    sums = by_run[["input_tokens", "cache_read_tokens", "output_tokens"]].sum().fillna(0).astype(float)
    costs = by_run["cost_usd"].agg(lambda values: values.sum(skipna=False))
    places = list(range(1, len(sums) + 1))
    bottom = 0 * sums["input_tokens"]
    for name, tokens, colour in (
        ("input from the cache", sums["cache_read_tokens"], COLOURS["waiting"]),
        ("input", sums["input_tokens"] - sums["cache_read_tokens"], COLOURS["model"]),
        ("output", sums["output_tokens"], COLOURS["tool"]),
    ):
        if tokens.any():
            ax.bar(places, tokens, bottom=bottom, width=0.7, color=colour, label=name)
        bottom = bottom + tokens
    if len(places) <= MOST_STEPS // 2:
        for place, top, cost in zip(places, bottom, costs, strict=True):
            ax.text(place, top, _dollars(cost), ha="center", va="bottom", fontsize=8)
    ax.set_xlabel("run")
    ax.set_ylabel("tokens")
    ax.set_xlim(0.3, max(len(places), 3) + 0.7)
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _tidy(ax)
    if places:
        ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return ax


def _axes(width: float, height: float) -> Axes:
    """New axes of so many inches. In a notebook they display themselves at the end of the cell."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingDependencyError("pictures need matplotlib: pip install 'nbagent[plot]'") from None
    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _dollars(cost: Any) -> str:
    import pandas as pd

    return "" if pd.isna(cost) or not cost else f"${cost:.2g}"
