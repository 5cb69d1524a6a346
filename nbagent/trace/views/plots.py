"""Pictures of what runs used and how tools did. Drawn with matplotlib, which the extra `plot` installs.

Colours of text and background are those of the style in use (`plt.style.use("dark_background")`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nbagent.core.render.markdown import format_duration
from nbagent.errors import MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: Colours that stay apart for colour-blind readers, on light and dark: https://jfly.uni-koeln.de/color/
COLOURS = {
    "waiting": "#B8C9D9", "thinking": "#56B4E9", "model": "#0072B2", "tool": "#009E73", "approval": "#E69F00",
    "error": "#D55E00",
}  # fmt: skip
#: More runs than these have no costs above them.
MOST_COSTS = 20
#: Seconds; shorter calls are drawn as if they were so long, since a logarithmic axis has no 0.
SHORTEST = 1e-6
#: Characters of a tool's name in a picture.
LABEL = 32
#: What stands where nothing happened.
NOTHING = "Nothing yet."


def plot_usage(usage: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """See `Trace.plot_usage`."""
    given, ax = ax is not None, ax or new_axes(min(12.0, 4.0 + 0.3 * usage["run_id"].nunique()), 3.4)
    from matplotlib.ticker import MaxNLocator

    sums = by_run(usage)
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
    if len(places) <= MOST_COSTS:
        for place, top, cost in zip(places, bottom, sums["cost_usd"], strict=True):
            ax.text(place, top, _dollars(cost), ha="center", va="bottom", fontsize=8)
    ax.set_xlabel("run")
    ax.set_ylabel("tokens")
    ax.set_xlim(0.3, max(len(places), 3) + 0.7)
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    if len(places) < 4:
        ax.set_xticks(places)
    ax.yaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    tidy(ax)
    if places:
        name_colours(ax, 3, inside=given)
    else:
        say_nothing(ax)
    return ax


def by_run(usage: pd.DataFrame) -> pd.DataFrame:
    """Tokens and dollars by run. What is not known is 0, but a cost that is not known stays so."""
    groups = usage.groupby("run_id", sort=False)
    sums = groups[["input_tokens", "cache_read_tokens", "output_tokens"]].sum().fillna(0).astype(float)
    return sums.assign(cost_usd=groups["cost_usd"].agg(lambda values: values.sum(skipna=False)))


def plot_tools(stats: pd.DataFrame, seconds: dict[str, list[float]], axes: Sequence[Axes] | None = None) -> list[Axes]:
    """See `Trace.plot_tools`; takes what `stats.tool_stats` and `stats.seconds_of` give."""
    given = axes is not None
    if axes is None:
        axes = subplots(2, figsize=(9.0, 1.3 + 0.27 * max(len(stats), 1)), sharey=True)
    left, right = axes
    from matplotlib.ticker import MaxNLocator

    places = range(len(stats))
    gone = stats["calls"] - stats["succeeded"]
    left.barh(places, stats["succeeded"], height=0.68, color=COLOURS["tool"], label="succeeded")
    if gone.any():
        left.barh(
            places,
            gone,
            left=stats["succeeded"],
            height=0.68,
            color=COLOURS["error"],
            label="failed, invalid or denied",
        )
    for place, (calls, bad) in enumerate(zip(stats["calls"], gone, strict=True)):
        left.text(calls, place, f" {calls:,}" + (f", {bad:,} failed" if bad else ""), va="center", fontsize=8.5)
    left.set_xlabel("calls")
    left.set_xlim(0, 1.45 * max(stats["calls"].max() if len(stats) else 1, 1))
    left.set_yticks(places, list(map(shortened, stats.index)), parse_math=False)
    left.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    _distributions(right, [seconds.get(name, []) for name in stats.index])
    right.set_yticks(places)
    for ax in (left, right):
        ax.set_ylim(max(len(stats), 1) - 0.4, -0.6)
        tidy(ax, "left")
    right.tick_params(axis="y", labelleft=False)
    if gone.any():
        name_colours(left, 2, inside=given)
    if stats.empty:
        say_nothing(left)
        say_nothing(right)
    return [left, right]


def _distributions(ax: Axes, seconds: Sequence[Sequence[float]]) -> None:
    """Each call as a dot, on them the middle half and the median of each tool; seconds on a logarithmic axis."""
    from math import ceil, floor, log10
    from statistics import median, quantiles

    from matplotlib.ticker import NullLocator

    drawn = [[max(value, SHORTEST) for value in values] for values in seconds]
    for place, values in enumerate(drawn):
        if not values:
            continue
        ax.scatter(values, [place] * len(values), s=13, color=COLOURS["tool"], alpha=0.35, linewidths=0)
        if len(values) > 3:
            low, _, high = quantiles(values, n=4, method="inclusive")
            ax.plot([low, high], [place, place], color=COLOURS["model"], linewidth=4.5, solid_capstyle="butt")
        middle = median(values)
        ax.plot([middle], [place], marker="|", markersize=11, markeredgewidth=2.2, color=COLOURS["approval"])
        ax.text(max(values), place, f"  {format_duration(middle)}", va="center", fontsize=8.5)
    ax.set_xscale("log")
    if every := [value for values in drawn for value in values]:
        ax.set_xlim(10 ** floor(log10(min(every))), 4 * 10 ** ceil(log10(max(every))))  # with room for the last text
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g} s" if value >= 1 else f"{value * 1000:g} ms")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("each call, middle half, median")


def new_axes(width: float, height: float) -> Axes:
    """New axes of so many inches. In a notebook they display themselves at the end of the cell."""
    ax: Axes = subplots(1, figsize=(width, height))
    return ax


def subplots(columns: int, **options: Any) -> Any:
    """So many axes side by side, as matplotlib's function of that name gives them."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingDependencyError("pictures need matplotlib: pip install 'nbagent[plot]'") from None
    _, axes = plt.subplots(1, columns, layout="constrained", **options)
    return axes


def name_colours(ax: Axes, columns: int, *, inside: bool) -> None:
    """A legend above the picture; or in the axes, where these are the user's and others may stand beside them."""
    if inside:
        ax.legend(frameon=False, fontsize=8)
    else:
        ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=columns, frameon=False)


def say_nothing(ax: Axes) -> None:
    """In place of an axis with numbers of nothing."""
    ax.set(xticks=[], yticks=[])
    ax.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=ax.transAxes)


def tidy(ax: Axes, *sides: str) -> None:
    """Lines around a picture that say nothing are left out; where a side is, faint ones lead to what it names."""
    for side in ("top", "right", *sides):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if sides:
        ax.grid(axis="y", color="0.5", alpha=0.2, linewidth=0.6)
        ax.set_axisbelow(True)


def shortened(name: str) -> str:
    """A name on one line of a picture or a text, cut where it is long: models can make up any name."""
    name = "".join(filter(str.isprintable, " ".join(name.split())))
    return name if len(name) <= LABEL else name[: LABEL - 1] + "…"


def _dollars(cost: Any) -> str:
    import pandas as pd

    return "" if pd.isna(cost) or not cost else f"${cost:.2g}"
