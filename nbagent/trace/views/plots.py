"""Plots of token usage and tool calls. They require the `plot` extra.

The colours of text and background follow the current Matplotlib style, as set by `plt.style.use("dark_background")`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.render.markdown import format_duration
from nbagent.errors import missing_extra
from nbagent.text import shortened
from nbagent.trace.views.fonts import boxed, fit_fonts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: Colours for colour-blind readers, on light and dark backgrounds: https://jfly.uni-koeln.de/color/
COLOURS = {
    "waiting": "#B8C9D9", "thinking": "#56B4E9", "model": "#0072B2", "tool": "#009E73", "approval": "#E69F00",
    "error": "#D55E00",
}  # fmt: skip
#: With more runs than this, no costs are written above the bars.
MAX_COSTS = 20
#: Shorter calls are drawn at this number of seconds, because a logarithmic axis has no 0.
SHORTEST = 1e-6
#: The characters of a model's or tool's name.
LABEL_CHARS = 32
#: Shown instead of an empty plot or table.
NOTHING = "Nothing yet."


def plot_usage(usage: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """See `Trace.plot_usage`."""
    given, ax = ax is not None, ax or subplots(1, figsize=(min(12.0, 4.0 + 0.3 * usage["run_id"].nunique()), 3.4))[0]
    from matplotlib.ticker import MaxNLocator

    sums = usage_by_run(usage)
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
    if len(places) <= MAX_COSTS:
        for place, top, paid, played in zip(places, bottom, sums["cost_usd"], sums["replayed_cost_usd"], strict=True):
            text = " ".join(filter(None, (_dollars(paid), f"({_dollars(played)})" if _dollars(played) else "")))
            ax.text(place, top, text, ha="center", va="bottom", fontsize=8)
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
        add_legend(ax, 3, inside=given)
    else:
        show_empty(ax)
    return ax


def usage_by_run(usage: pd.DataFrame) -> pd.DataFrame:
    """Return tokens and dollars by run, with the recorded cost of replayed answers in a separate column.

    Unknown tokens count as 0; an unknown cost stays unknown.
    """
    groups = usage.groupby("run_id", sort=False)
    sums = groups[["input_tokens", "cache_read_tokens", "output_tokens"]].sum().fillna(0).astype(float)
    costs = {
        name: usage["cost_usd"]
        .where(chosen, 0.0)
        .groupby(usage["run_id"], sort=False)
        .agg(lambda x: x.sum(skipna=False))
        for name, chosen in (("cost_usd", ~usage["replayed"]), ("replayed_cost_usd", usage["replayed"]))
    }
    return sums.assign(**costs)


def plot_tools(stats: pd.DataFrame, seconds: dict[str, list[float]], axes: Sequence[Axes] | None = None) -> list[Axes]:
    """See `Trace.plot_tools`. `stats` comes from `tool_stats`, and `seconds` from `seconds_by_tool`."""
    given = axes is not None
    if axes is None:
        axes = subplots(2, figsize=(9.0, 1.3 + 0.27 * max(len(stats), 1)), sharey=True)
    left, right = axes
    from matplotlib.ticker import MaxNLocator

    places = range(len(stats))
    failed = stats["calls"] - stats["succeeded"]
    left.barh(places, stats["succeeded"], height=0.68, color=COLOURS["tool"], label="succeeded")
    if failed.any():
        look: dict[str, Any] = {"height": 0.68, "color": COLOURS["error"], "label": "failed, invalid or denied"}
        left.barh(places, failed, left=stats["succeeded"], **look)
    for place, (calls, bad) in enumerate(zip(stats["calls"], failed, strict=True)):
        left.text(calls, place, f" {calls:,}" + (f", {bad:,} failed" if bad else ""), va="center", fontsize=8.5)
    left.set_xlabel("calls")
    left.set_xlim(0, 1.45 * max(stats["calls"].max() if len(stats) else 1, 1))
    name_rows(left, places, stats.index)
    left.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    _distributions(right, [seconds.get(name, []) for name in stats.index])
    right.set_yticks(places)
    for ax in (left, right):
        ax.set_ylim(max(len(stats), 1) - 0.4, -0.6)
        tidy(ax, "left")
    right.tick_params(axis="y", labelleft=False)
    if failed.any():
        add_legend(left, 2, inside=given)
    if stats.empty:
        show_empty(left)
        show_empty(right)
    return AxesList([left, right])


def _distributions(ax: Axes, seconds: Sequence[Sequence[float]]) -> None:
    """Draw a dot for each call, with the interquartile range and the median of each tool, on a logarithmic axis."""
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
        ax.set_xlim(10 ** floor(log10(min(every))), 4 * 10 ** ceil(log10(max(every))))  # room for the last label
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g} s" if value >= 1 else f"{value * 1000:g} ms")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("each call, middle half, median")


class AxesList(list["Axes"]):
    """Axes side by side. A cell that ends with this list displays only the figure, without `[<Axes: …>]`."""

    def _ipython_display_(self) -> None:
        _show_nothing()


def subplots(columns: int, **options: Any) -> AxesList:
    """Create axes side by side. A notebook displays them after the cell. `options` are passed to `pyplot.subplots`."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise missing_extra("A picture", "plot") from None
    _, grid = plt.subplots(1, columns, layout="constrained", squeeze=False, **options)
    axes = AxesList(grid[0])
    for ax in axes:
        vars(ax)["_ipython_display_"] = _show_nothing
    return axes


def _show_nothing() -> None:
    """Display nothing, since IPython already displays the figure."""


def add_legend(ax: Axes, columns: int, *, inside: bool) -> None:
    """Add a legend above the plot, or `inside` it if the user passed the axes, which may have neighbours."""
    if inside:
        ax.legend(frameon=False, fontsize=8)
    else:
        ax.figure.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=columns, frameon=False)


def show_empty(ax: Axes) -> None:
    """Show in empty axes that there is nothing to plot."""
    ax.set(xticks=[], yticks=[])
    ax.text(0.5, 0.5, NOTHING, ha="center", va="center", transform=ax.transAxes)


def tidy(ax: Axes, *sides: str) -> None:
    """Remove the frame at the top, on the right and on the given sides. If sides are given, add faint horizontal
    lines."""
    for side in ("top", "right", *sides):
        ax.spines[side].set_visible(False)
    ax.tick_params(axis="y", length=0)
    if sides:
        ax.grid(axis="y", color="0.5", alpha=0.2, linewidth=0.6)
        ax.set_axisbelow(True)


def name_rows(ax: Axes, places: Iterable[int], names: Iterable[str]) -> None:
    """Label the given positions on the vertical axis, in fonts that have the labels' characters."""
    ax.set_yticks(list(places), boxed([label(name) for name in names]), parse_math=False)
    fit_fonts(ax.get_yticklabels())


def label(name: str) -> str:
    """Make a name short and printable, since models can invent any tool name."""
    in_fonts = (char for char in " ".join(name.split()) if char.isprintable() or char > "\x9f")
    return shortened(show_control_chars("".join(in_fonts)), LABEL_CHARS)


def _dollars(cost: Any) -> str:
    import pandas as pd

    return "" if pd.isna(cost) or not cost else f"${cost:.2g}"
