"""Admission: who may send the next request, so that many rows together keep to a vendor's limits.

A row takes a place before each HTTP request and gives it back after the answer: never between requests, while a tool
runs, so that rows whose tools ask agents can't wait for each other. `RateAdmission` decides for one process. Another
class with the same three methods may decide for several.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

#: A vendor that asks for a longer wait than this has refused: the error is raised at once, with `retry_after`.
MAX_RETRY_AFTER_S = 120.0
#: How long a vendor may refuse every request before the rows that wait end with its error.
PATIENCE_S = 600.0
#: The wait after a refusal that names none: it doubles from the first to the longest until a request is answered.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
#: After a refusal so many of the requests that were under way may be; each whole round of answers adds so many.
DECREASE, INCREASE = 0.5, 1.0
#: What is left is spread evenly until the reset once it is less than this share of the limit.
SCARCE = 0.5
#: A limit that is reset later than this, such as one per day, does not slow the rows down: the vendor may refuse then.
LONGEST_RESET_S = 120.0
#: How late the event loop may be without losing some of `rpm` and `tpm`.
LATE_S = 0.1


@dataclass(frozen=True, slots=True)
class Quota:
    """What a vendor's headers say of one limit: what is left, of how many, and in how many seconds it is reset."""

    remaining: float
    limit: float | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """A request was answered, with so many tokens in and out (0: not known)."""

    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """A request was refused because of a rate: 429, or 529, overloaded.

    `retry_after` is the vendor's wait in seconds, `said` its explanation.
    """

    retry_after: float | None = None
    said: str = ""


#: How a request ended; None if that tells nothing of rates: it was cancelled, or failed otherwise.
End = Answered | Refused | None


class Admission(Protocol):
    """Admits the requests that are counted by one limit. Places are numbers, which rise."""

    async def take(self, tokens: int = 0) -> int:
        """Wait for a place for a request of about so many tokens. Who is cancelled meanwhile has none.

        Raises `RateLimitError` if the vendor has refused everything for `PATIENCE_S`, or asks for too long a wait.
        """
        ...

    def note(self, place: int, quotas: Mapping[str, Quota]) -> None:
        """What the head of an answer says: "requests", "tokens", "input-tokens", "output-tokens"."""
        ...

    def give_back(self, place: int, end: End = None) -> None:
        """Give a place back; once more does no harm."""
        ...


#: Gives the admission for what a vendor counts together (`LLMProvider.rate_key`).
Admissions = Callable[[str], Admission]
#: Where requests of the current context ask for admission; None: they are sent at once.
current_admissions: ContextVar[Admissions | None] = ContextVar("nbagent_admissions", default=None)
#: The admission and place of the current request.
current_place: ContextVar[tuple[Admission, int] | None] = ContextVar("nbagent_place", default=None)
