"""Dask DataFrames: their rows are sent like any others, and the answers have the same partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import dask.dataframe as dd
import pandas as pd
from dask.base import compute
from dask.delayed import delayed
from distributed import Client


async def partitions_of(data: Any, engine: Any) -> list[Any]:
    """Return the partitions of Dask data as pandas objects, computed on the cluster if there is one."""
    parts = data.to_delayed()
    client: Any = engine if isinstance(engine, Client) else None
    if client is None:
        computed = await asyncio.to_thread(compute, *parts)
    elif client.asynchronous:
        computed = await client.gather(client.compute(parts))
    else:
        computed = await asyncio.to_thread(lambda: client.gather(client.compute(parts)))
    return list(computed)


def as_dask(frames: Sequence[pd.DataFrame], divisions: Sequence[Any]) -> Any:
    """Return a Dask DataFrame with these frames as its partitions."""
    return dd.from_delayed(
        [delayed(frame) for frame in frames],
        meta=frames[0].iloc[:0],
        divisions=tuple(divisions) if divisions[0] is not None else None,
        verify_meta=False,
    )
