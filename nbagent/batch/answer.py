"""`Answer`: the outcome of one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one row, as kept in a checkpoint and shown in the frame.

    - `key`: the row's key (see `rows.Row`); equal rows share one answer
    - `status`: the run's status, "error" if the row failed, or "left" if the row was not sent
    - `text`: the model's text
    - `seconds`: from the first request to the last response, excluding the time spent waiting for a slot
    - `values`: with `output`, the values by column (see `fields`). A checkpoint keeps the text and parses it again.
    """

    key: str
    status: str = "ok"
    text: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    error: str | None = None
    run_id: str | None = None
    values: Mapping[str, Any] | None = None

    @property
    def is_final(self) -> bool:
        """Whether a checkpoint keeps this answer. If not, the row is sent again."""
        if self.status == "blocked":
            return bool(self.input_tokens)  # without tokens, one of the agent's guards blocked it, not the provider
        return self.status in ("ok", "truncated")
