"""Statistics of tools, from the rows of `Trace.tool_calls`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: The columns of `tool_calls` that `tool_stats` reads.
COLUMNS_OF_STATS = (
    "name", "args_valid", "approval", "started", "is_error", "error_type", "duration_s", "result_chars", "ts",
)  # fmt: skip


def tool_stats(tool_calls: pd.DataFrame, names: Iterable[str] = ()) -> pd.DataFrame:
    """Return one row per tool, indexed by name, including the tools in `names` that were never called.

    `calls` = `succeeded` + `failed` + `invalid` + `denied` + the calls that did not finish. `mean_s`, `longest_s` and
    `total_s` are the mean, longest and total seconds of the calls that ran. `result_chars` is the mean length of the
    results as text.
    """
    import pandas as pd

    calls = pd.DataFrame(tool_calls)
    valid, denied, ran = _outcomes(calls)
    error = calls["is_error"]
    kinds = {
        "calls": calls["name"].notna(),
        "succeeded": ran & ~error.fillna(True),
        "failed": ran & error.fillna(False),
        "invalid": ~valid,
        "denied": denied,
    }
    by = calls["name"]
    counts = (
        pd.DataFrame({kind: flags.fillna(False).astype("Int64") for kind, flags in kinds.items()}).groupby(by).sum()
    )
    seconds = calls["duration_s"].where(ran).groupby(by)
    stats = counts.assign(
        mean_s=seconds.mean(),
        longest_s=seconds.max(),
        total_s=seconds.sum(),
        result_chars=calls["result_chars"].groupby(by).mean(),
        last_called=calls["ts"].groupby(by).max(),
    )
    index = pd.Index(dict.fromkeys([*names, *stats.index]), name="tool", dtype=calls["name"].dtype)
    return stats.reindex(index).fillna({**dict.fromkeys(kinds, 0), "total_s": 0.0})


def seconds_by_tool(tool_calls: pd.DataFrame) -> dict[str, list[float]]:
    """Return the duration of each call that ran, in seconds, by tool."""
    _, _, ran = _outcomes(tool_calls)
    ended = tool_calls[ran & tool_calls["duration_s"].notna()]
    return {str(name): seconds.astype(float).tolist() for name, seconds in ended.groupby("name")["duration_s"]}


def _outcomes(calls: pd.DataFrame) -> tuple[pd.Series[Any], pd.Series[Any], pd.Series[Any]]:
    """Which calls had valid arguments, which were denied, and which of the others ran to their end."""
    valid, denied = calls["args_valid"].fillna(True), calls["approval"].eq("denied")
    ran = calls["started"].notna() & calls["error_type"].ne("interrupted").fillna(True)
    return valid, denied, valid & ~denied.fillna(False) & ran
