"""What vendors' headers say of their limits, in each of their spellings."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from nbagent.core.admission import Quota
from nbagent.providers.http.rate_headers import rate_quotas, reset_s


def test_openai():
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "150000",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert rate_quotas(headers) == {"requests": Quota(59, 60, 1), "tokens": Quota(149984, 150000, 360)}


def test_anthropic():
    at = (datetime.now(UTC) + timedelta(seconds=30)).isoformat(timespec="seconds").replace("+00:00", "Z")
    kinds = ["requests", "tokens", "input-tokens", "output-tokens"]
    headers = {}
    for number, kind in enumerate(kinds):
        name = f"anthropic-ratelimit-{kind}"
        headers |= {f"{name}-limit": "50", f"{name}-remaining": str(number), f"{name}-reset": at}
    quotas = rate_quotas(headers)
    assert [(kind, quota.remaining, quota.limit) for kind, quota in quotas.items()] == [
        (kind, number, 50) for number, kind in enumerate(kinds)
    ]
    assert all(0 < quota.reset_s <= 30 for quota in quotas.values())


def test_others():
    assert rate_quotas({"x-ratelimit-remaining": "7", "x-ratelimit-reset": "12"}) == {"requests": Quota(7, None, 12)}
    assert rate_quotas({"x-ratelimit-remaining-requests": "7"}) == {"requests": Quota(7)}
    assert rate_quotas({"content-type": "text/plain"}) == {}


def test_a_reset_as_unix_time():
    for unit in (1, 1000):
        assert 25 < reset_s(str(int((time.time() + 30) * unit))) <= 30
        assert reset_s(str(int((time.time() - 30) * unit))) == 0


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "5 minutes", "9999-99-99T00:00:00Z"])
def test_what_cannot_be_read_is_left_out(text):
    assert reset_s(text) is None
    names = [f"x-ratelimit-{word}-requests" for word in ("remaining", "limit", "reset")]
    assert rate_quotas(dict.fromkeys(names, text)) == {}
