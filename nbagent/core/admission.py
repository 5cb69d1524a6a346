"""Admission: who may send the next request, so that many rows together keep to a vendor's limits.

A row takes a place before each HTTP request and gives it back after the answer: never between requests, while a tool
runs, so that rows whose tools ask agents can't wait for each other. `RateAdmission` decides for one process. Another
class with the same three methods may decide for several.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from nbagent.core.waiter import Waiter
from nbagent.errors import RateLimitError

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

#: Whether another model is asked if this one can't answer now: then nobody waits until the vendor takes requests again.
has_alternative: ContextVar[bool] = ContextVar("nbagent_has_alternative", default=False)


class Waited:
    """For how many seconds the requests of one row waited for places. Those that wait together count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._waiting = 0
        self._since = 0.0

    def __enter__(self) -> None:
        if not self._waiting:
            self._since = monotonic()
        self._waiting += 1

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.seconds += monotonic() - self._since


#: Counts the waits of the current row.
current_waited: ContextVar[Waited | None] = ContextVar("nbagent_waited", default=None)
#: The admission and place of the current request.
current_place: ContextVar[tuple[Admission, int] | None] = ContextVar("nbagent_place", default=None)


class RateAdmission:
    """The admission of one process, for all its threads and event loops. Who comes first is served first.

    There is no limit of places until the vendor refuses a request. Then everybody waits until the time that the vendor
    says, and half as many go on; each round of answers adds one. Before that happens, what the headers say is left is
    spread over the time until it is reset. `rpm` and `tpm`, requests and tokens per minute, are spread evenly too.

    >>> import asyncio
    >>> admission = RateAdmission(rpm=600)
    >>> place = asyncio.run(admission.take())
    >>> admission.give_back(place, Answered())
    """

    def __init__(
        self, rpm: float | None = None, tpm: float | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._queue: deque[Waiter] = deque()
        self._out: dict[int, _Out] = {}
        self._taken = self._taken_tokens = 0
        self._paces = (_Pace(), _Pace())
        self._limits: list[tuple[float | None, float | None]] = []
        self._quotas: dict[str, _Left] = {}
        #: How many requests may be under way.
        self._window = math.inf
        #: Places up to this one were taken before the last refusal: theirs belong to the same event.
        self._last_before_refusal = 0
        self._pause = FIRST_PAUSE_S
        self._paused_until = -math.inf
        #: Since when every request is refused, and what the vendor said last.
        self._refused_since: float | None = None
        self._said = ""
        if rpm or tpm:
            self._limits.append((rpm, tpm))
            self._set_paces()

    @property
    def window(self) -> float:
        """How many requests may be under way; `inf` until one was refused."""
        return self._window

    @property
    def places(self) -> int:
        """How many requests are under way."""
        return len(self._out)

    @contextmanager
    def limited(self, rpm: float | None, tpm: float | None) -> Iterator[None]:
        """A map begins: within this block its `rpm` and `tpm` hold. The strictest of all such blocks counts."""
        limits = rpm, tpm
        with self._lock:
            self._refused_since = None  # it tries for itself
            self._limits.append(limits)
            self._set_paces()
        try:
            yield
        finally:
            with self._lock:
                self._limits.remove(limits)
                self._set_paces()
                self._wake_first()

    def _set_paces(self) -> None:
        for index, pace in enumerate(self._paces):
            pace.per_minute = min((limit[index] or math.inf for limit in self._limits), default=math.inf)

    async def take(self, tokens: int = 0) -> int:
        """See `Admission`."""
        waiter = Waiter(asyncio.get_running_loop())
        with self._lock:
            self._queue.append(waiter)
        try:
            while True:
                with self._lock:
                    waiter.woken.clear()
                    now = self._clock()
                    self._check_patience(now)
                    wait = self._wait(now, tokens) if self._queue[0] is waiter else math.inf
                    if wait <= 0:
                        return self._admit(now, tokens)
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if wait == math.inf else wait):
                        await waiter.woken.wait()
        finally:
            with self._lock:
                self._queue.remove(waiter)
                self._wake_first()

    def note(self, place: int, quotas: Mapping[str, Quota]) -> None:
        """See `Admission`. Later places had not been counted when the vendor answered this one: they are taken off."""
        with self._lock:
            if (out := self._out.get(place)) is None:
                return
            now = self._clock()
            for kind, quota in quotas.items():
                known = self._quotas.get(kind)
                if known and known.place > place:
                    continue  # an older answer
                later = self._taken - place if kind == "requests" else self._taken_tokens - out.taken_tokens
                self._quotas[kind] = _Left.of(quota, place, later, now, known)
            self._wake_first()

    def give_back(self, place: int, end: End = None) -> None:
        """See `Admission`."""
        with self._lock:
            if (out := self._out.pop(place, None)) is None:
                return
            if isinstance(end, Answered):
                self._answered(out, end)
            elif isinstance(end, Refused):
                self._refused(place, end)
            self._wake_first()

    def _answered(self, out: _Out, end: Answered) -> None:
        self._refused_since, self._pause = None, FIRST_PAUSE_S
        if self._queue or len(self._out) + 1 > self._window / 2:  # else its size is not put to the test
            self._window += INCREASE / self._window
        if end.tokens:
            self._paces[1].spend(end.tokens - out.tokens)

    def _refused(self, place: int, end: Refused) -> None:
        now, said_wait = self._clock(), end.retry_after
        self._said = end.said
        if self._refused_since is None:
            self._refused_since = now
        if said_wait and said_wait > MAX_RETRY_AFTER_S:
            self._refused_since = -math.inf
        if place > self._last_before_refusal:
            self._last_before_refusal = self._taken
            self._window = max(1.0, min(self._window, len(self._out) + 1) * DECREASE)
            self._paused_until = max(self._paused_until, now + (said_wait or self._pause))
            self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
        elif said_wait:
            self._paused_until = max(self._paused_until, now + said_wait)
        if said_wait:  # it is the vendor's word on all limits
            self._quotas.clear()
        if self._is_hopeless(now):
            for waiter in self._queue:
                waiter.wake()

    def _is_hopeless(self, now: float) -> bool:
        return self._refused_since is not None and now - self._refused_since >= PATIENCE_S

    def _check_patience(self, now: float) -> None:
        """Raise if there is no hope, unless this request is to find out whether there is some again."""
        if self._is_hopeless(now) and (self._out or now < self._paused_until):
            text = f"{self._said.rstrip('.') or 'the vendor refused'}: no request is answered any more"
            wait = self._paused_until - now
            raise RateLimitError(text, status=429, retry_after=wait if wait > 0 else None, should_retry=False)

    def _wait(self, now: float, tokens: int) -> float:
        """Seconds until the first who waits may go; `inf` until a place is given back."""
        if len(self._out) + 1 > self._window:
            return math.inf
        waits = [self._paused_until - now, *(pace.next_at - now for pace in self._paces)]
        is_idle = not self._out
        waits += [left.wait(now, _cost(kind, tokens), is_idle) for kind, left in self._quotas.items()]
        return max(waits)

    def _admit(self, now: float, tokens: int) -> int:
        self._taken += 1
        self._taken_tokens += tokens
        for pace, cost in zip(self._paces, (1, tokens), strict=True):
            pace.take(now, cost)
        for kind, left in self._quotas.items():
            left.take(now, _cost(kind, tokens))
        self._out[self._taken] = _Out(tokens, self._taken_tokens)
        return self._taken

    def _wake_first(self) -> None:
        if self._queue:
            self._queue[0].wake()


@dataclass(slots=True)
class _Out:
    """A place that is taken: the tokens that were estimated, and those of all places up to this one."""

    tokens: int
    taken_tokens: int


@dataclass(slots=True)
class _Pace:
    """What the user allows per minute, spread evenly: who comes next may go at `next_at`."""

    per_minute: float = math.inf
    next_at: float = -math.inf

    def take(self, now: float, cost: float) -> None:
        self.next_at = max(self.next_at, now - LATE_S)
        self.spend(cost)

    def spend(self, cost: float) -> None:
        """Count so much more, or less, than was taken."""
        self.next_at += cost * 60 / self.per_minute


@dataclass(slots=True)
class _Left:
    """What is left of a limit by the answer to the request with that place."""

    place: int
    left: float
    limit: float
    reset_at: float | None
    next_at: float = field(default=-math.inf)

    @classmethod
    def of(cls, quota: Quota, place: int, later: float, now: float, known: _Left | None) -> _Left:
        """`later` is what was taken since."""
        limit = math.inf if quota.limit is None else quota.limit
        if quota.reset_s is not None and quota.reset_s > LONGEST_RESET_S:
            return cls(place, math.inf, limit, None)
        reset_at = None if quota.reset_s is None else now + quota.reset_s
        return cls(place, quota.remaining - later, limit, reset_at, known.next_at if known else -math.inf)

    def wait(self, now: float, cost: float, is_idle: bool) -> float:
        if self.reset_at is not None and now >= self.reset_at:
            self.left, self.reset_at, self.next_at = self.limit, None, -math.inf
        if cost <= self.left:
            return min(self.next_at, self.reset_at or now) - now if self.left < self.limit * SCARCE else 0.0
        if self.reset_at is not None:
            return self.reset_at - now
        return 0.0 if is_idle else math.inf  # the next answer says more

    def take(self, now: float, cost: float) -> None:
        if self.reset_at is not None and 0 < cost <= self.left < self.limit * SCARCE:
            self.next_at = max(self.next_at, now) + cost * (self.reset_at - now) / self.left
        self.left -= cost


def _cost(kind: str, tokens: int) -> int:
    return 1 if kind == "requests" else tokens


_of_this_process: dict[str, RateAdmission] = {}


def admission_of(key: str) -> RateAdmission:
    """The admission of this process for what a vendor counts together."""
    return _of_this_process.setdefault(key, RateAdmission())
