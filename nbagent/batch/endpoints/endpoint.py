"""`Endpoint`: a provider's batch endpoint. It takes many requests at once and answers within a day, at half price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from nbagent.providers.http_provider import HTTPProvider

#: Bytes of one batch, even if the provider takes more: it is in memory while it is sent.
LONGEST_BATCH = 64 * 10**6


Phase = Literal["running", "ended", "cancelled", "failed"]


class BatchRequest(NamedTuple):
    """One row's request."""

    key: str
    #: The body for the live endpoint.
    body: bytes


@dataclass(frozen=True, slots=True)
class State:
    """The state of a batch.

    - `phase`: "cancelled" and "failed" batches may also hold answers
    - `done`, `total`: requests by the provider's count, which some give only at the end
    - `reason`: why the batch failed
    - `files`: where its results are, if the provider says so
    """

    phase: Phase
    done: int = 0
    total: int = 0
    reason: str = ""
    files: tuple[str, ...] = ()


class Result(NamedTuple):
    """The outcome of one request: the body of the live endpoint's answer, or None if it failed."""

    key: str
    body: dict[str, Any] | None
    was_cancelled: bool = False


class Endpoint(ABC):
    """A batch endpoint, reached with the provider's key and connections."""

    #: Of one batch.
    max_requests: ClassVar[int]
    max_bytes: ClassVar[int] = LONGEST_BATCH

    def __init__(self, provider: HTTPProvider) -> None:
        self.provider = provider
        #: The provider's API betas that a batch's requests need.
        self.betas: tuple[str, ...] = ()

    @abstractmethod
    async def submit(self, tag: str, requests: Sequence[BatchRequest]) -> str:
        """Send a batch -> the provider's id. `tag` is our name for it. It is never sent twice."""

    @abstractmethod
    async def find(self, tag: str, submitted_at: float, count: int, known: Set[str]) -> str | None:
        """The id of a sent batch, if it arrived: the provider's answer may have been lost.

        `submitted_at` is the time of sending (seconds since 1970), `count` its number of requests. `known` are the
        provider's ids of other batches.
        """

    @abstractmethod
    async def state(self, batch_id: str) -> State:
        """The batch's state."""

    @abstractmethod
    def results(self, batch_id: str, state: State) -> AsyncGenerator[Result]:
        """The results of a finished batch, in any order. Some may be missing."""

    @abstractmethod
    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to stop. Requests answered by then are billed and can be read."""


def joined(pieces: Iterable[bytes], before: bytes, after: bytes) -> bytes:
    """Encoded JSON values as a list, between the beginning and the end of a body."""
    return before + b",".join(pieces) + after
