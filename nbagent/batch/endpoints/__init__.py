"""The providers' batch endpoints: `agent.map(…, engine="batch", checkpoint=…)`, and `cancel`."""

from __future__ import annotations

import os

from nbagent.batch.checkpoint import Checkpoint
from nbagent.batch.endpoints.choice import endpoint_for
from nbagent.batch.endpoints.submitted import Submitted
from nbagent.batch.engine import RowAgent
from nbagent.checks import checked_path, invalid


async def cancel(agent: RowAgent, checkpoint: str | os.PathLike[str]) -> int:
    """Ask the agent's provider to cancel a checkpoint's batches, and return their number.

    This requires the key that submitted the batches. Rows answered before the cancellation are billed. If you repeat
    the `agent.map` call, it reads these answers and marks the other rows "left". Raises `ConfigurationError` if the
    provider has no batch endpoint.

    >>> await cancel(agent, "reviews.db")                                           # doctest: +SKIP
    """
    endpoint = endpoint_for(agent.provider)
    if not checked_path(checkpoint).exists():
        raise invalid("checkpoint", str(checkpoint), "the checkpoint file of a map")
    with Checkpoint(checkpoint) as kept:
        batches = Submitted(kept).of_provider(agent.provider.provider_name)
    batch_ids = [batch.batch_id for batch in batches if batch.batch_id]
    for batch_id in batch_ids:
        await endpoint.cancel(batch_id)
    return len(batch_ids)
