"""The options of `Agent.map`, for its variants, which pass them on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from nbagent.core.budget import Budget
from nbagent.core.limits import Limits
from nbagent.core.request_options import RequestOptions


class MapOptions(RequestOptions, total=False):
    """`Agent.map`'s keywords; see there for their meaning."""

    concurrency: int
    limits: Limits | None
    budget: Budget | float | None
    checkpoint: str | os.PathLike[str] | None
    engine: Any
    on_error: Literal["keep", "raise"]
    tools: bool
    explode: str | None
    rpm: float | None
    tpm: float | None
    allow_partial: bool
    progress: bool
    tags: Iterable[str] | None
    user: str | None
    session: str | None
    metadata: Mapping[str, Any] | None
