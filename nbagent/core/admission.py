"""Controls when each request may be sent, which keeps many parallel rows within a provider's limits.

A row acquires a slot before each HTTP request and releases it after the answer. It holds no slot while a tool runs, so
rows whose tools call agents can't block each other.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from time import monotonic
from typing import TypeVar

from nbagent.core.current import current
from nbagent.core.messages import LLMResponse
from nbagent.core.threadsafe_event import ThreadsafeEvent
from nbagent.errors import ProviderError, RateLimitError

T = TypeVar("T")

#: If a provider demands a longer wait than this, its error is raised immediately, with `retry_after`.
MAX_RETRY_AFTER_S = 120.0
#: How long a provider may refuse every request before waiting rows fail with its error.
PATIENCE_S = 600.0
#: The wait after a refusal without `retry-after`: it doubles from the first to the longest until a request succeeds.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
#: The HTTP status of an overloaded provider. It slows down every caller, as a rate limit does.
OVERLOADED = 529
#: How late the event loop may be without losing some of `rpm` and `tpm`.
LATE_S = 0.1


class RateAdmission:
    """Admits the requests from all threads and event loops of a process, first come, first served.

    Slots are unlimited until the provider refuses a request. Then all requests wait as long as the provider says, and
    the number of slots is halved. That number grows by one each time all slots have been used successfully. `rpm` and
    `tpm` limit the requests and tokens per minute. Requests are spread evenly over the minute.

    >>> import asyncio
    >>> admission = RateAdmission(rpm=600)
    >>> slot = asyncio.run(admission.acquire())
    >>> admission.release(slot, 0)
    """

    def __init__(
        self, rpm: float | None = None, tpm: float | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._queue: deque[ThreadsafeEvent] = deque()
        self._limits = [(rpm, tpm)]
        #: Seconds between two requests, and between two tokens.
        self._paces = _paces(self._limits)
        #: For each limit, the time of the next request.
        self._next_at = [-math.inf, -math.inf]
        #: The taken slots with the estimated tokens of their requests. Slots are increasing numbers.
        self.taken: dict[int, int] = {}
        self._last = 0
        #: Slots up to this one were taken before the last refusal, so their refusals belong to the same event.
        self._last_before_refusal = 0
        #: How many requests may be under way; `inf` until one is refused.
        self.window = math.inf
        self._pause = FIRST_PAUSE_S
        self._paused_until = -math.inf
        #: When the provider began to refuse every request (`-inf` if that was too long ago), and its last message.
        self._refused_since: float | None = None
        self._last_message = ""

    @contextmanager
    def limited(self, rpm: float | None, tpm: float | None) -> Iterator[None]:
        """Apply a map's `rpm` and `tpm` during a block. If several blocks are open, the strictest limits apply."""
        limits = rpm, tpm
        with self._lock:
            self._refused_since = None  # a new map tries again
            self._limits.append(limits)
            self._paces = _paces(self._limits)
        try:
            yield
        finally:
            with self._lock:
                self._limits.remove(limits)
                self._paces = _paces(self._limits)
                self._wake_first()

    async def acquire(self, tokens: int = 0) -> int:
        """Wait for a slot for a request of roughly `tokens` tokens. If the wait is cancelled, no slot is taken.

        Raises `RateLimitError` if the provider has refused every request for `PATIENCE_S`, or demands too long a wait.
        """
        turn: ThreadsafeEvent | None = None  # until it has to wait
        try:
            while True:
                with self._lock:
                    self._check_patience()
                    now = self._clock()
                    is_next = not self._queue or self._queue[0] is turn
                    is_free = is_next and len(self.taken) + 1 <= self.window
                    wait = max(self._paused_until, *self._next_at) - now if is_free else math.inf
                    if wait <= 0:
                        self._next_at = [max(at, now - LATE_S) for at in self._next_at]
                        self._spend(1, tokens)
                        self._last += 1
                        self.taken[self._last] = tokens
                        return self._last
                    if turn is None:
                        self._queue.append(turn := ThreadsafeEvent())
                    turn.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if wait == math.inf else wait):
                        await turn.wait()
        finally:
            with self._lock:
                if turn is not None:
                    self._queue.remove(turn)
                self._wake_first()

    def release(self, slot: int, end: int | ProviderError | None = None) -> None:
        """Release a slot. Idempotent.

        `end` is the number of tokens in the request and its answer (0 if unknown), or the error with which the provider
        refused the request because of its rate limit or an overload (429 or 529). It is None if the request was
        cancelled or failed for another reason, which says nothing about rates.
        """
        with self._lock:
            if (estimated := self.taken.pop(slot, None)) is None:
                return
            if isinstance(end, ProviderError):
                self._refused(slot, end)
            elif end is not None:
                self._refused_since, self._pause = None, FIRST_PAUSE_S
                self.window += 1 / self.window
                self._spend(0, end - estimated if end else 0)
            self._wake_first()

    def _spend(self, *costs: int) -> None:
        """Count a request and its tokens, which delay later requests."""
        self._next_at = [at + cost * pace for at, cost, pace in zip(self._next_at, costs, self._paces, strict=True)]

    def _refused(self, slot: int, error: ProviderError) -> None:
        now, wait = self._clock(), error.retry_after or 0.0
        self._last_message = error.message
        self._refused_since = now if self._refused_since is None else self._refused_since
        if slot > self._last_before_refusal:
            self._last_before_refusal = self._last
            self.window = max(1.0, min(self.window, len(self.taken) + 1) / 2)
            wait = wait or self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
        self._paused_until = max(self._paused_until, now + wait)
        if wait > MAX_RETRY_AFTER_S or now - self._refused_since >= PATIENCE_S:
            self._refused_since = -math.inf
            for turn in self._queue:
                turn.set_from_thread()

    def _check_patience(self) -> None:
        if self._refused_since == -math.inf:
            text = f"{self._last_message.rstrip('.') or 'the provider refused'}: no requests are answered now"
            wait = max(0.0, self._paused_until - self._clock())
            raise RateLimitError(text, status=429, retry_after=wait or None, should_retry=False)

    def _wake_first(self) -> None:
        if self._queue:
            self._queue[0].set_from_thread()


def _paces(limits: Sequence[tuple[float | None, float | None]]) -> list[float]:
    """Seconds for each request and each token, from the strictest of these `rpm` and `tpm`."""
    return [60 / min(rate or math.inf for rate in rates) for rates in zip(*limits, strict=True)]


_admissions: dict[str, RateAdmission] = {}


def admission_of(key: str) -> RateAdmission:
    """Return this process's `RateAdmission` for requests that the provider counts together (`LLMProvider.rate_key`)."""
    return _admissions.get(key) or _admissions.setdefault(key, RateAdmission())


def is_refusal(error: ProviderError) -> bool:
    """Whether a rate limit or an overload made the provider refuse the request, so a later attempt can succeed."""
    return error.retryable and (isinstance(error, RateLimitError) or error.status == OVERLOADED)


async def admitted(
    attempt: Callable[[], AsyncGenerator[T]], admission: RateAdmission, tokens: int
) -> AsyncGenerator[T]:
    """Yield the items of `attempt()`. The attempt occupies a slot until it ends."""
    begun = monotonic()
    slot = await admission.acquire(tokens)
    if (waits := current.get().waits) is not None:
        waits.append(monotonic() - begun)
    end: int | ProviderError | None = None
    try:
        async with aclosing(attempt()) as items:
            async for item in items:
                if isinstance(item, LLMResponse):
                    end = item.usage.total_tokens
                yield item
    except ProviderError as error:
        if is_refusal(error):
            end = error
        raise
    finally:
        admission.release(slot, end)
