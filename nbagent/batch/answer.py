"""`Answer`: the outcome of one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one row: a checkpoint keeps it, and the frame shows it.

    - `key`: of the row (see `rows.Row`); equal rows have one answer
    - `status`: the run's status, "error" if it failed, or "left" if it was not sent
    - `text`: the model's text
    - `seconds`: from the first request to the last answer, without waiting for a slot
    - `values`: with `output`, the value by column (see `fields`). The checkpoint keeps the text instead and parses it
      again.
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
        """Whether a checkpoint keeps it. Failed and left rows are sent again."""
        is_of_model = self.status != "blocked" or bool(self.input_tokens)  # else one of the agent's guards blocked it
        return self.status in ("ok", "blocked", "truncated") and is_of_model
