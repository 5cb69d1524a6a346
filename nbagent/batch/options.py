"""`Agent.map`'s keyword arguments, for functions that pass them on."""

from __future__ import annotations

import os
from typing import Any, Literal

from nbagent.core.budget import Budget
from nbagent.core.limits import Limits
from nbagent.core.request_options import LabelledOptions


class MapOptions(LabelledOptions, total=False):
    """`Agent.map`'s keyword arguments besides `preview`. `Agent.map` explains them."""

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
