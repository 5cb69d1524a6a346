"""What the head of an answer says of the vendor's rate limits, for the admission of a batch.

OpenAI and the many who copy it: `x-ratelimit-remaining-requests`, `-limit-…` and `-reset-…`, a duration such as "6m0s"
or "12ms". Anthropic: `anthropic-ratelimit-requests-remaining`, `-limit`, and `-reset`, an RFC 3339 time. Others write
`x-ratelimit-remaining` alone, and the reset as seconds, or as Unix time in seconds or milliseconds.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from nbagent.core.admission import Quota, current_place

KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
#: Names of one kind's headers, with what is said in place of `{}`.
_NAMES = {kind: [f"x-ratelimit-{{}}-{kind}", f"anthropic-ratelimit-{kind}-{{}}"] for kind in KINDS}
_NAMES["requests"].append("x-ratelimit-{}")
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|d|h|m|s)")
#: Larger numbers of seconds are Unix time, and still larger ones are Unix time in milliseconds.
_UNIX_TIME_S, _UNIX_TIME_MS = 1e9, 1e12


def heed(response: Any) -> None:
    """Tell the admission of the current request, if it has one, what its answer's head says."""
    if response is None or (at := current_place.get()) is None:
        return
    admission, place = at
    if quotas := rate_quotas(dict(response.headers.items())):
        admission.note(place, quotas)


def rate_quotas(headers: Mapping[str, str]) -> dict[str, Quota]:
    """The limits that the headers tell of, by kind. What can't be read is left out.

    >>> rate_quotas({"x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1m0.5s"})
    {'requests': Quota(remaining=59.0, limit=None, reset_s=60.5)}
    """
    quotas = {}
    for kind, names in _NAMES.items():
        for name in names:
            remaining = _number(headers.get(name.format("remaining")))
            if remaining is not None:
                limit, reset = (headers.get(name.format(word)) for word in ("limit", "reset"))
                quotas[kind] = Quota(remaining, _number(limit), reset_s(reset or ""))
                break
    return quotas


def reset_s(text: str) -> float | None:
    """Seconds until a reset, never negative; None for what can't be read.

    >>> [reset_s(text) for text in ("12ms", "6m0s", "1h2m3.5s", "30", "soon")]
    [0.012, 360.0, 3723.5, 30.0, None]
    """
    text = text.strip()
    if (number := _number(text)) is not None:
        if number >= _UNIX_TIME_S:
            number = number / (1000 if number >= _UNIX_TIME_MS else 1) - time.time()
        return max(0.0, number)
    parts = _PART.findall(text)
    if parts and "".join(map("".join, parts)) == text:
        return sum(float(size) * _UNITS[unit] for size, unit in parts)
    try:
        at = datetime.fromisoformat(text)
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None
