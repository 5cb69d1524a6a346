"""`Endpoint`: a provider's batch endpoint. Many requests go there at once, and are answered in a day at half price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from nbagent.providers.http_provider import HTTPProvider

#: Bytes of one batch, where the provider takes more: it is in memory while it is sent.
LONGEST_BATCH = 64 * 10**6


Phase = Literal["running", "ended", "cancelled", "failed"]


class BatchRequest(NamedTuple):
    """One row's request."""

    key: str
    #: What the live endpoint would get.
    body: bytes


@dataclass(frozen=True, slots=True)
class State:
    """Where a batch is.

    - `phase`: "cancelled" and "failed" batches may hold answers, too
    - `done`, `total`: requests by the provider's count, which some give at the end only
    - `reason`: why the batch failed
    - `files`: where its results are, as far as the provider says
    """

    phase: Phase
    done: int = 0
    total: int = 0
    reason: str = ""
    files: tuple[str, ...] = ()


class Result(NamedTuple):
    """What became of one request: the body that the live endpoint would have answered, or None if it failed."""

    key: str
    body: dict[str, Any] | None
    was_cancelled: bool = False


class Endpoint(ABC):
    """One provider's batch endpoint, asked with a provider's key and connections."""

    #: Of one batch.
    max_requests: ClassVar[int]
    max_bytes: ClassVar[int] = LONGEST_BATCH

    def __init__(self, provider: HTTPProvider) -> None:
        self.provider = provider
        #: Betas of the provider's API that the requests of a batch need.
        self.betas: tuple[str, ...] = ()

    @abstractmethod
    async def submit(self, tag: str, requests: Sequence[BatchRequest]) -> str:
        """Send a batch -> the provider's id of it. `tag` is our name for it. It is sent once, whatever happens."""

    @abstractmethod
    async def find(self, tag: str, submitted_at: float, count: int, known: Set[str]) -> str | None:
        """The id of a batch that was sent, if it arrived: the provider's answer may have been lost.

        `submitted_at` is when it was sent (seconds since 1970), and `count` how many requests it has. `known` are
        the provider's ids of other batches.
        """

    @abstractmethod
    async def state(self, batch_id: str) -> State:
        """Where the batch is."""

    @abstractmethod
    def results(self, batch_id: str, state: State) -> AsyncGenerator[Result]:
        """What became of the requests of a batch that is over, in any order. Some may be missing."""

    @abstractmethod
    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to stop. What it has answered by then is paid and can be read."""


def joined(pieces: Iterable[bytes], before: bytes, after: bytes) -> bytes:
    """Encoded JSON values as a list, between the beginning and the end of a body."""
    return before + b",".join(pieces) + after
