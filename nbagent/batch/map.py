"""`Agent.map`: ask about each row of a table, and get a table of answers with the same index."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from nbagent.batch.checkpoint import Checkpoint
from nbagent.batch.engine import Batch, Engine, RowAgent
from nbagent.batch.frame import to_frame
from nbagent.batch.live import LiveEngine
from nbagent.batch.rows import rows_of
from nbagent.core.budget import Budget
from nbagent.core.labels import LabelOptions
from nbagent.errors import StoreError
from nbagent.providers.replay.file_secrets import names_of_secrets, without_secrets

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

    def row_settings(self, tools: bool) -> dict[str, Any]:
        """What of the agent decides the answers of its `row_agent`."""
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
    rows = rows_of(data, prompt, settings_of(agent, tools, options))
    batch = Batch(
        new_agent=lambda: agent.row_agent(tools),
        provider=provider,
        concurrency=concurrency,
        options=options,
        budget=budget if isinstance(budget, Budget) else Budget(max_cost=budget),
        raises=on_error == "raise",
    )
    engine: Engine = LiveEngine()
    redact = partial(without_secrets, names=names_of_secrets(getattr(provider, "secrets", ())))
    with Checkpoint(checkpoint, f"{provider.vendor}:{provider.model_name}", redact) as kept:
        answers = kept.answers(row.key for row in rows)
        missing = {row.key: row for row in rows if row.key not in answers}
        try:
            async with aclosing(engine.answers(batch, list(missing.values()))) as coming:
                async for answer in coming:
                    answers[answer.key] = answer
                    if answer.is_final:
                        kept.add(answer, missing[answer.key].messages[-1].text)
        except StoreError as error:  # what is answered is not lost, even if it can't be kept
            error.partial = to_frame(data.index, [row.key for row in rows], answers)
            raise
    return to_frame(data.index, [row.key for row in rows], answers)


def settings_of(agent: MapAgent, tools: bool, options: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the answers besides the rows: the agent's settings, the model, all options but for labels."""
    provider = agent.provider
    own = getattr(provider, "options", {})  # a default of each request
    address = "" if provider.vendor == "local" else getattr(provider, "base_url", "")  # a port of the moment
    return {
        **agent.row_settings(tools),
        "model": [provider.vendor, address, provider.model_name],
        "options": {**own, **{name: options[name] for name in options if name not in LabelOptions.__annotations__}},
    }
