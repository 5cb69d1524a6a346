"""The calls of a trace summarised by model, day, tag or tool, for `Trace.summary`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbagent.trace.views.tool_stats import COLUMNS_OF_STATS, tool_stats

if TYPE_CHECKING:
    import pandas as pd

_TOKENS = ["input_tokens", "cache_read_tokens", "output_tokens"]
_PERCENTILES = {"p50": 0.5, "p95": 0.95}
_SUMMED = ("started", "replayed", *_TOKENS, "cost_usd", "duration_s", "ttft_s", "error_type")
#: For each grouping, the columns that it reads, by table.
COLUMNS_READ: dict[str, dict[str, tuple[str, ...]]] = {
    "model": {"calls": ("model", *_SUMMED)},
    "day": {"calls": _SUMMED},
    "tag": {"calls": ("run_id", *_SUMMED), "runs": ("run_id", "tags")},
    "tool": {"tool_calls": COLUMNS_OF_STATS},
}


def summary_by(by: str, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """See `Trace.summary`. `tables` has the columns in `COLUMNS_READ`."""
    import pandas as pd

    if by == "tool":
        calls = tables["tool_calls"]
        stats = tool_stats(calls)
        ran = pd.DataFrame(calls)[calls["started"].notna()]
        seconds = _percentiles(ran["duration_s"].groupby(ran["name"]), "duration")
        return stats[["calls", "succeeded", "failed", "invalid", "denied"]].join(seconds)
    calls = tables["calls"]
    every = pd.DataFrame(calls).assign(**{by: _keys(by, tables)}).explode(by).dropna(subset=[by])
    return _summed(every, by)


def _keys(by: str, tables: Mapping[str, pd.DataFrame]) -> pd.Series[Any]:
    """The group of each call: a model, a local day, or a list of tags."""
    calls = tables["calls"]
    if by == "day":
        return local_days(calls["started"])
    if by == "tag":
        runs = tables["runs"]
        tagged = runs[runs["tags"].notna()]
        tags = dict(zip(tagged["run_id"], map(json.loads, tagged["tags"]), strict=True))
        return calls["run_id"].map(lambda run_id: tags.get(run_id, [])).astype(object)
    return calls["model"]


def local_days(times: pd.Series[Any]) -> pd.Series[Any]:
    """Return the local day of each time. For speed, times are first rounded down to quarter hours, since days start on
    one in every time zone.
    """
    quarters = times.dt.floor("15min")
    local = {quarter: quarter.to_pydatetime().astimezone().date() for quarter in quarters.dropna().unique()}
    days: pd.Series[Any] = quarters.map(local)
    return days


def _summed(every: pd.DataFrame, by: str) -> pd.DataFrame:
    """Summarise calls. Replayed calls are only counted, since they cost no money and no time."""
    replayed = every["replayed"].fillna(False).astype(bool)
    sent = every[~replayed]
    groups = sent.groupby(by, sort=False)
    sums = groups[[*_TOKENS, "cost_usd"]].sum(min_count=1)
    seconds = _percentiles(groups["duration_s"], "duration").join(_percentiles(groups["ttft_s"], "ttft"))
    timed = sent[sent["output_tokens"].notna() & (sent["duration_s"] > 0)].groupby(by, sort=False)
    counts: dict[str, pd.Series[Any]] = {
        "calls": every.groupby(by, sort=False).size(),
        "replayed": replayed.groupby(every[by], sort=False).sum(),
        "failed": sent["error_type"].notna().groupby(sent[by], sort=False).sum(),
        "unpriced": sent["cost_usd"].isna().groupby(sent[by], sort=False).sum(),
    }
    table = every.groupby(by, sort=False).size().to_frame("calls")[[]]
    for name, column in counts.items():
        table[name] = column.reindex(table.index, fill_value=0).astype("Int64")
    speed = timed["output_tokens"].sum().astype("Float64") / timed["duration_s"].sum()
    return table.join(sums).join(seconds).assign(tokens_per_s=speed.reindex(table.index).astype("Float64"))


def _percentiles(groups: Any, name: str) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({f"{name}_{label}_s": groups.quantile(place) for label, place in _PERCENTILES.items()})
