"""One tool's calls spread out: a column for each argument, and what the tool returned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbagent.core.messages import well_formed
from nbagent.errors import ConfigurationError
from nbagent.trace.rows import Row

if TYPE_CHECKING:
    import pandas as pd


def args(tool_calls: Sequence[Row], tool: str) -> pd.DataFrame:
    """See `Trace.args`. Numbers, flags and texts get the dtypes of the trace's tables; what is not there is NA."""
    import pandas as pd

    rows = {number: row for number, row in enumerate(tool_calls) if row["name"] == tool}
    given = {number: json.loads(row["args"] or "{}") or {} for number, row in rows.items()}  # a model may send null
    names = dict.fromkeys(name for arguments in given.values() for name in arguments)
    index = pd.Index(list(given), dtype="int64")
    columns = {name: _column([arguments.get(name) for arguments in given.values()], index) for name in names}
    return pd.DataFrame(columns, index=index)


def _column(values: list[Any], index: pd.Index[Any]) -> pd.Series[Any]:
    import pandas as pd

    from nbagent.trace.columns import COUNT, FLAG, REAL, TEXT

    kinds = {type(value) for value in values if value is not None}
    for dtype, fitting in ((FLAG, {bool}), (COUNT, {int}), (REAL, {int, float}), (TEXT, {str})):
        if kinds and kinds <= fitting:
            if dtype == TEXT:
                values = [value if value is None else well_formed(value) for value in values]
            try:
                return pd.Series(values, index=index, dtype=dtype)
            except OverflowError:  # an integer of more than 64 bits stays what it is
                break
    return pd.Series(values, index=index, dtype=object)


def results(tool_calls: Sequence[Row], tool: str, values: Mapping[str, Any]) -> Any:
    """See `Trace.results`. Raises ConfigurationError where calls succeeded whose values were not kept."""
    import pandas as pd

    done = {
        number: row for number, row in enumerate(tool_calls) if row["name"] == tool and row.get("is_error") is False
    }
    lost = [number for number, row in done.items() if row["tool_call_id"] not in values]
    if lost:
        raise ConfigurationError(
            f"what {tool!r} returned was not kept for {len(lost)} of {len(done)} calls (files hold no values, "
            f"keep_results=False keeps none, and those of rows beyond max_bytes are let go): "
            f"trace.tool_calls['result_text'] is what the model read"
        )
    kept = {number: values[row["tool_call_id"]] for number, row in done.items()}
    if kept and all(isinstance(value, pd.DataFrame) for value in kept.values()):
        return pd.concat(kept, names=["call"])
    series = pd.Series([None] * len(kept), index=pd.Index(list(kept), dtype="int64"), dtype=object, name=tool)
    for number, value in kept.items():
        series.at[number] = value
    return series
