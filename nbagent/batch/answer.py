"""`Answer`: what became of one row."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one row: the columns of the checkpoint, and of the frame.

    - `key`: of the row (see `rows.Row`); equal rows have one answer
    - `status`: that of the run, "error" if it failed, or "left" if it was not asked
    - `data`: with `output`, the value as JSON text
    - `seconds`: from the first request to the last answer, without waiting for a place
    """

    key: str
    status: str = "ok"
    text: str = ""
    data: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    error: str | None = None
    run_id: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether a checkpoint keeps it. What failed or was left is asked again."""
        return self.status in ("ok", "blocked", "truncated")

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)
