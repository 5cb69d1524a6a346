"""The arguments and return values of one tool's calls, as a table and a Series."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbagent.core.messages import well_formed
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import COUNT, FLAG, REAL, TEXT
from nbagent.trace.rows import Row

if TYPE_CHECKING:
    import pandas as pd


def tool_arguments(tool_calls: Sequence[Row], tool: str) -> pd.DataFrame:
    """See `Trace.args`. Numbers, flags and texts have the dtypes of the trace's tables; missing arguments are NA."""
    import pandas as pd

    calls = {number: row for number, row in enumerate(tool_calls) if row["name"] == tool}
    arguments = {number: json.loads(row["args"] or "{}") or {} for number, row in calls.items()}  # may be null
    names = dict.fromkeys(name for values in arguments.values() for name in values)
    index = pd.Index(list(arguments), dtype="int64")
    columns = {name: _column([values.get(name) for values in arguments.values()], index) for name in names}
    return pd.DataFrame(columns, index=index)


def _column(values: list[Any], index: pd.Index[Any]) -> pd.Series[Any]:
    import pandas as pd

    kinds = {type(value) for value in values if value is not None}
    for dtype, fitting in ((FLAG, {bool}), (COUNT, {int}), (REAL, {int, float}), (TEXT, {str})):
        if kinds and kinds <= fitting:
            if dtype == TEXT:
                values = [value if value is None else well_formed(value) for value in values]
            try:
                return pd.Series(values, index=index, dtype=dtype)
            except OverflowError:  # an integer with more than 64 bits
                break
    return pd.Series(values, index=index, dtype=object)


def tool_results(tool_calls: Sequence[Row], tool: str, results: Mapping[str, Any]) -> Any:
    """See `Trace.results`. Raises ConfigurationError if the value of a successful call was not kept."""
    import pandas as pd

    calls = {
        number: row["tool_call_id"]
        for number, row in enumerate(tool_calls)
        if row["name"] == tool and row.get("is_error") is False
    }
    lost = [tool_call_id for tool_call_id in calls.values() if tool_call_id not in results]
    if lost:
        raise ConfigurationError(
            f"the values that {tool!r} returned were not kept for {len(lost)} of {len(calls)} calls: saved files and "
            f"traces with keep_results=False don't contain them. "
            f"See trace.tool_calls['result_text'] for the text that the model read."
        )
    values = {number: results[tool_call_id] for number, tool_call_id in calls.items()}
    if values and all(isinstance(value, pd.DataFrame) for value in values.values()):
        return pd.concat(values, names=["call"])
    series = pd.Series([None] * len(values), index=pd.Index(list(values), dtype="int64"), dtype=object, name=tool)
    for number, value in values.items():
        series.at[number] = value
    return series
