"""Days in the time zone of this machine; tables have times in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def local_days(times: pd.Series[Any]) -> pd.Series[Any]:
    """The day of each time, where this machine is. A day begins, in every zone, at a quarter of an hour."""
    quarters = times.dt.floor("15min")
    local = {quarter: quarter.to_pydatetime().astimezone().date() for quarter in quarters.dropna().unique()}
    days: pd.Series[Any] = quarters.map(local)
    return days
