"""`df.agent.map(…)`: `Agent.map` as a method of a Series or DataFrame.

Importing this module adds `df.agent` to pandas. `%load_ext nbagent` and the first `Agent` also add it if pandas is
already loaded. If a DataFrame has a column `agent`, `df.agent` is that column.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd

from nbagent.batch.options import MapOptions
from nbagent.checks import invalid
from nbagent.core.background import blocking

if TYPE_CHECKING:
    from nbagent.batch.preview import MapPreview


class AgentAccessor:
    """Sends each row of this data to the argument `agent` or, by default, to the notebook's variable `agent`.

    >>> await df.agent.map("Is this review positive? {text}")               # doctest: +SKIP
    """

    def __init__(self, data: pd.Series[Any] | pd.DataFrame) -> None:
        self._data = data

    async def map(
        self,
        prompt: str | None = None,
        output: Any = None,
        *,
        agent: Any = None,
        preview: bool = False,
        **options: Unpack[MapOptions],
    ) -> pd.DataFrame | MapPreview:
        """See `Agent.map`."""
        frame: pd.DataFrame | MapPreview
        frame = await _agent(agent).map(self._data, prompt, output, preview=preview, **options)
        return frame

    map_sync = blocking(map)  # noqa: A003  `map` is the method above, not the builtin

    def __repr__(self) -> str:
        return f"<agent of a {type(self._data).__name__} with {len(self._data):,} rows: .map(prompt, output)>"


class _Attribute:
    """The attribute `agent` of both classes. pandas' own registration would hide a column of that name."""

    def __get__(self, data: Any, kind: type | None = None) -> Any:
        if data is None:
            return AgentAccessor
        if "agent" in getattr(data, "columns", data.index):
            raise AttributeError("the data has its own 'agent'")  # pandas then returns the column
        return AgentAccessor(data)


def _agent(agent: Any) -> Any:
    """Return the given agent, or the variable `agent` of the notebook or script."""
    agent = agent if agent is not None else getattr(sys.modules.get("__main__"), "agent", None)
    if not hasattr(agent, "map_sync"):  # a Series also has a `map`
        raise invalid("agent", agent, "an Agent", "Pass agent=…, or name your agent `agent`.")
    return agent


for _class in (pd.DataFrame, pd.Series):
    setattr(_class, "agent", _Attribute())  # noqa: B010  mypy rejects an assignment, since pandas declares no `agent`
