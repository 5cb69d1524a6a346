"""`Endpoint`: a provider's batch endpoint, which answers many requests at once, within a day and at half price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from nbagent.providers.http_provider import HTTPProvider

#: Maximum bytes of a batch, even if the provider allows more, because it is in memory while it is sent.
MAX_BATCH_BYTES = 64 * 10**6


Phase = Literal["running", "ended", "cancelled", "failed"]


class BatchRequest(NamedTuple):
    """A row's key, and the request body for the live endpoint."""

    key: str
    body: bytes


@dataclass(frozen=True, slots=True)
class State:
    """The state of a batch.

    - `phase`: whether the batch is running, or how it ended. "cancelled" and "failed" batches may also have answers.
    - `done`, `total`: the number of finished requests and of all requests. Some providers report these only at the end.
    - `reason`: why the batch failed
    - `files`: the ids of the files with the results, if the provider writes files
    """

    phase: Phase
    done: int = 0
    total: int = 0
    reason: str = ""
    files: tuple[str, ...] = ()


class Result(NamedTuple):
    """The outcome of one request: the response body, as from the live endpoint, or None if the request failed."""

    key: str
    body: dict[str, Any] | None
    was_cancelled: bool = False


class Endpoint(ABC):
    """A batch endpoint. Its requests use the provider's key and connections."""

    #: The maximum number of requests, and of bytes, in one batch.
    max_requests: ClassVar[int]
    max_bytes: ClassVar[int] = MAX_BATCH_BYTES

    def __init__(self, provider: HTTPProvider) -> None:
        self.provider = provider
        #: The beta features of the provider's API that the requests use.
        self.betas: tuple[str, ...] = ()

    @abstractmethod
    async def submit(self, tag: str, requests: Sequence[BatchRequest]) -> str:
        """Send a batch once, without retries, and return the provider's id. `tag` is nbagent's name for the batch."""

    @abstractmethod
    async def find(self, tag: str, submitted_at: float, count: int, known: Set[str]) -> str | None:
        """Return the id of a batch whose submission received no response, or None if the batch did not arrive.

        `submitted_at` is when the batch was sent, in seconds since 1970. `count` is its number of requests. `known`
        contains the provider's ids of all other batches.
        """

    @abstractmethod
    async def state(self, batch_id: str) -> State:
        """Return the batch's state."""

    @abstractmethod
    def results(self, batch_id: str, state: State) -> AsyncGenerator[Result]:
        """Yield the results of a finished batch, in any order. Some results may be missing."""

    @abstractmethod
    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to cancel a batch. Requests answered by then are billed and can be read."""


def joined(pieces: Iterable[bytes], before: bytes, after: bytes) -> bytes:
    """Join encoded JSON values with commas, and put the text `before` and `after` around them."""
    return before + b",".join(pieces) + after
