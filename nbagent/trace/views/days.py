"""Days in the local time zone; the tables have times in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def local_days(times: pd.Series[Any]) -> pd.Series[Any]:
    """Return the local day of each time. In every time zone, days start at a quarter of an hour in UTC."""
    quarters = times.dt.floor("15min")
    local = {quarter: quarter.to_pydatetime().astimezone().date() for quarter in quarters.dropna().unique()}
    days: pd.Series[Any] = quarters.map(local)
    return days
