"""Decides when and how a request is sent again. Nothing else retries: SDK clients are created with `max_retries=0`.

A request is retried after an error that is `retryable` (status 408, 409, 429 or 5xx, a failed connection, a broken
stream), unless the provider's `x-should-retry` says otherwise. The wait is the provider's `retry-after-ms` or
`retry-after`. Without either, it starts at 0.5 s and doubles up to 8 s; each wait is shortened by up to a quarter at
random, so that many clients don't retry at the same moment. A `retry-after` of 0 is ignored, because all attempts would
be sent within milliseconds.

Requests from a map first acquire a slot (`core.admission`). If the provider then refuses a request because of a rate
limit, this does not count as one of its retries: all requests wait together, and it is sent again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeVar

from nbagent.core.admission import MAX_RETRY_AFTER_S, RateAdmission, admitted, is_refusal
from nbagent.core.current import current
from nbagent.core.events import Retry, Text
from nbagent.errors import ProviderError

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 8.0
JITTER = 0.25

T = TypeVar("T")


def wait_s(error: ProviderError, attempt: int) -> float:
    """The number of seconds to wait before retry number `attempt` (from 1)."""
    if error.retry_after:
        return error.retry_after
    wait = min(FIRST_WAIT_S * 2.0 ** (attempt - 1), LONGEST_WAIT_S)
    return wait * (1 - JITTER * random.random())  # noqa: S311 - no secret depends on it


def retry_headers(headers: Mapping[str, str]) -> dict[str, Any]:
    """A provider's headers as `{"retry_after": seconds or None, "should_retry": True, False or None}`.

    >>> retry_headers({"retry-after-ms": "1500", "x-should-retry": "false"})
    {'retry_after': 1.5, 'should_retry': False}
    """
    word = headers.get("x-should-retry")
    return {"retry_after": _retry_after(headers), "should_retry": {"true": True, "false": False}.get(word or "")}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Milliseconds, seconds or an HTTP date -> seconds from now, never negative."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name) or ""
        with suppress(ValueError):
            return max(0.0, float(text) * unit)
        with suppress(ValueError, TypeError):
            return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None


class RequestRevised(Exception):  # noqa: N818  ends an attempt, as StopIteration ends a loop
    """Raised by an attempt whose request was refused, so that the changed request is sent immediately.

    `event` describes the change.
    """

    def __init__(self, event: Retry) -> None:
        super().__init__(event.content)
        self.event = event


async def retrying(
    attempt: Callable[[], AsyncGenerator[T]], max_retries: int, admission: RateAdmission | None = None, tokens: int = 0
) -> AsyncGenerator[T | Retry]:
    """Yield the items of `attempt()`. After a retryable error, yield a `Retry` event, wait, and try again.

    With an admission, each attempt waits for a slot for roughly `tokens` tokens. A rate-limit refusal then counts as a
    failed attempt only if another model can be used instead.
    """
    if admission is not None:
        attempt = partial(admitted, attempt, admission, tokens)
    failures = refusals = 0
    while True:
        shown = 0
        try:
            async with aclosing(attempt()) as items:
                async for item in items:
                    if isinstance(item, Text):
                        shown += len(item.content)
                    yield item
            return
        except RequestRevised as revision:
            wait, event = 0.0, revision.event
        except ProviderError as error:
            if not error.retryable or (error.retry_after or 0) > MAX_RETRY_AFTER_S:
                raise
            if admission is not None and is_refusal(error) and not current.get().has_alternative:
                refusals += 1
                wait, event = 0.0, _event(error, refusals, shown, "Trying again when the provider accepts requests.")
            else:
                failures += 1
                if failures > max_retries:
                    raise
                wait = wait_s(error, failures)
                then = f"Trying again in {wait:.1f} s ({failures} of {max_retries})."
                event = _event(error, failures, shown, then, wait)
        yield event
        await asyncio.sleep(wait)


def _event(error: ProviderError, number: int, shown: int, then: str, wait: float = 0.0) -> Retry:
    details = {"attempt": number, "wait_s": wait, "discard_chars": shown, "error": type(error).__name__}
    return Retry(f"{error.message.rstrip('.')}. {then}", metadata=details)
