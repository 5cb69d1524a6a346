"""`Agent.map`: ask about each row of a table, and get a table of answers with the same index."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from nbagent.batch.checkpoint import Checkpoint
from nbagent.batch.engine import Batch, Engine, RowAgent
from nbagent.batch.frame import to_frame
from nbagent.batch.live import LiveEngine
from nbagent.batch.rows import rows_of
from nbagent.core.budget import Budget

if TYPE_CHECKING:
    from nbagent.providers.base import LLMProvider


class MapAgent(Protocol):
    """What a map needs of an agent."""

    @property
    def provider(self) -> LLMProvider:
        """The provider."""
        ...

    @property
    def system_prompt(self) -> str | None:
        """The system prompt, which each row's question follows."""
        ...

    def row_agent(self, tools: bool) -> RowAgent:
        """See `RowAgent`."""
        ...


async def map_rows(
    agent: MapAgent,
    data: pd.Series[Any] | pd.DataFrame,
    prompt: str | None,
    *,
    concurrency: int,
    checkpoint: str | os.PathLike[str] | None,
    budget: Budget | float | None,
    tools: bool,
    on_error: str,
    options: Mapping[str, Any],
) -> pd.DataFrame:
    """See `Agent.map`."""
    provider = agent.provider
    settings = {
        "model": [provider.vendor, getattr(provider, "base_url", ""), provider.model_name],
        "system": agent.system_prompt,
        "options": dict(options),
    }
    rows = rows_of(data, prompt, settings)
    batch = Batch(
        new_agent=lambda: agent.row_agent(tools),
        provider=provider,
        concurrency=concurrency,
        options=options,
        budget=budget if isinstance(budget, Budget) else Budget(max_cost=budget),
        raises=on_error == "raise",
    )
    engine: Engine = LiveEngine()
    with Checkpoint(checkpoint) as kept:
        answers = kept.answers(row.key for row in rows)
        missing = {row.key: row for row in rows if row.key not in answers}
        async with aclosing(engine.answers(batch, list(missing.values()))) as coming:
            async for answer in coming:
                answers[answer.key] = answer
                if answer.is_final:
                    kept.add(answer)
    return to_frame(data.index, [row.key for row in rows], answers)
