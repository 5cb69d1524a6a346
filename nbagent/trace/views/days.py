"""Days in the time zone of this machine, and their names below the axis of a picture."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: As many names of days fit below an axis.
MAX_NAMES = 5


def local_day(time: pd.Timestamp) -> date:
    """The day on which something happened, where this machine is; tables have times in UTC."""
    return time.to_pydatetime().astimezone().date()


def local_days(times: pd.Series[Any]) -> pd.Series[Any]:
    """The `local_day` of each time. A day begins, in every zone, at a quarter of an hour."""
    quarters = times.dt.floor("15min")
    days: pd.Series[Any] = quarters.map({quarter: local_day(quarter) for quarter in quarters.dropna().unique()})
    return days


def name_days(ax: Axes, drawn: Iterable[tuple[pd.Timestamp, float, float]]) -> None:
    """Name the days below what was drawn on them: when each thing happened, from where to where it is drawn.

    If all of it happened on one day, nothing is added. Where days lie too close together, some names are left out.
    """
    days = []
    for day, group in groupby(drawn, lambda each: local_day(each[0])):
        starts, ends = zip(*(each[1:] for each in group), strict=True)
        days.append((day, min(starts), max(ends)))
    if len(days) < 2:
        return
    names: dict[float, str] = {}
    apart = (days[-1][2] - days[0][1]) / MAX_NAMES
    for day, start, end in days:
        middle = (start + end) / 2
        if not names or middle - list(names)[-1] >= apart:
            names[middle] = day.isoformat()
    for _, start, _ in days[1:]:
        ax.axvline(start, color="0.5", alpha=0.4, linewidth=0.8, zorder=0)
    ax.xaxis.remove_overlapping_locs = False  # a name may stand below a number
    ax.set_xticks(list(names), list(names.values()), minor=True)
    ax.tick_params(axis="x", which="minor", length=0, pad=18, labelsize=8)
