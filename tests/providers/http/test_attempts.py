"""When a request is sent again, and which events report it: attempts without a server, waits that take no time."""

import asyncio
import time
from email.utils import formatdate

import pytest
from support.virtual_time import run_virtually

from nbagent.core.current import changed
from nbagent.core.events import Retry, Text, Thinking
from nbagent.core.messages import LLMResponse, Usage
from nbagent.errors import ProviderError, RateLimitError, ServerError
from nbagent.providers.http import retry
from nbagent.providers.http.retry import RequestRevised, retrying

DONE = LLMResponse("Good.", metadata={"usage": Usage(3, 4)})


class Provider:
    """A provider whose attempts yield items, and raise the errors among them."""

    def __init__(self, *attempts):
        self.attempts = list(attempts)
        self.times = []

    async def __call__(self):
        self.times.append(asyncio.get_running_loop().time())
        for item in self.attempts.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item


class Slots:
    """An admission that makes everyone wait two seconds, and records its calls."""

    def __init__(self):
        self.taken = []
        self.ends = []

    async def acquire(self, tokens=0):
        await asyncio.sleep(2)
        self.taken.append(tokens)
        return len(self.taken)

    def release(self, slot, end=None):
        self.ends.append((slot, end))


def outcome(provider, max_retries=2, **options):
    """The items, and the error that ended them."""

    async def read():
        items, stream = [], retrying(provider, max_retries, **options)
        try:
            while True:
                items.append(await anext(stream))
        except StopAsyncIteration:
            return items, None
        except ProviderError as error:
            return items, error

    return run_virtually(read())


def error_of(kind=ServerError, text="not now.", status=503, **more):
    return kind(text, status=status, **more)


def test_the_next_attempt_comes_after_the_wait_that_was_announced():
    provider = Provider([Text("Ha"), Thinking("…"), Text("lf"), error_of()], [error_of(retry_after=7.0)], [DONE])
    items, error = outcome(provider)
    first, second = (item for item in items if isinstance(item, Retry))
    assert (error, items[-1]) == (None, DONE)
    assert 0.375 <= first.metadata["wait_s"] <= 0.5
    assert provider.times == pytest.approx([0, first.metadata["wait_s"], first.metadata["wait_s"] + 7])
    assert first.metadata | {"wait_s": 0} == {"attempt": 1, "wait_s": 0, "discard_chars": 4, "error": "ServerError"}
    assert (second.metadata["attempt"], second.metadata["discard_chars"]) == (2, 0)
    assert second.content == "not now. Trying again in 7.0 s (2 of 2)."


@pytest.mark.parametrize("admission", [None, Slots()], ids=["alone", "in a batch"])
def test_after_the_last_retry_the_error_is_raised(admission):
    last = error_of()
    items, error = outcome(Provider([error_of()], [error_of()], [last], [DONE]), admission=admission)
    assert (error, len(items)) == (last, 2)


@pytest.mark.parametrize(
    "error",
    [
        error_of(should_retry=False),
        error_of(RateLimitError, status=429, retry_after=121.0),
        error_of(ProviderError, status=400),
    ],
    ids=["the provider says so", "too long a wait", "a lasting error"],
)
@pytest.mark.parametrize("admission", [None, Slots()], ids=["alone", "in a batch"])
def test_a_lasting_error_is_raised_at_once(error, admission):
    assert outcome(Provider([error], [DONE]), admission=admission) == ([], error)


def test_a_revised_request_is_sent_at_once_and_is_not_a_failure():
    revised = RequestRevised(Retry("Without thinking."))
    provider = Provider([revised], [revised], [revised], [DONE])
    assert outcome(provider) == ([revised.event] * 3 + [DONE], None)
    assert provider.times == [0] * 4


# -- waits ------------------------------------------------------------------------------------------------------------


def test_waits_double_with_a_little_jitter():
    for attempt, full in enumerate([0.5, 1, 2, 4, 8, 8, 8], start=1):
        waits = {retry.wait_s(ServerError("x"), attempt) for _ in range(200)}
        assert full * 0.75 <= min(waits) < max(waits) <= full
        assert len(waits) > 100


def test_retry_after_can_be_a_date():
    got = retry.retry_headers({"retry-after": formatdate(time.time() + 30, usegmt=True)})["retry_after"]
    assert 25 < got <= 30
    assert retry.retry_headers({"retry-after": formatdate(0, usegmt=True)})["retry_after"] == 0
    assert retry.retry_headers({"retry-after": "soon"})["retry_after"] is None


# -- requests of a map ----------------------------------------------------------------------------------------------


def test_each_attempt_acquires_and_releases_a_slot():
    provider, slots = Provider([error_of()], [DONE]), Slots()
    outcome(provider, admission=slots, tokens=50)
    assert slots.taken == [50, 50]
    assert slots.ends == [(1, None), (2, 7)]
    outcome(Provider([DONE]), admission=slots)
    assert slots.taken[2:] == [0], "without an estimate"


def test_the_wait_for_a_slot_is_counted():
    waits = []
    with changed(waits=waits):
        outcome(Provider([DONE]), admission=Slots())
    assert sum(waits) > 0


REFUSALS = [error_of(RateLimitError, status=429, retry_after=5.0), error_of(status=529)]


@pytest.mark.parametrize("refusal", REFUSALS, ids=["rate", "overloaded"])
def test_refusals_in_a_batch_are_not_failures_and_wait_for_the_admission(refusal):
    provider, slots = Provider([Text("a"), refusal], [refusal], [refusal], [DONE]), Slots()
    items, error = outcome(provider, admission=slots)
    retries = [item for item in items if isinstance(item, Retry)]
    assert (error, items[-1]) == (None, DONE)
    assert [item.metadata["attempt"] for item in retries] == [1, 2, 3]
    assert [item.metadata["discard_chars"] for item in retries] == [1, 0, 0]
    assert {item.metadata["wait_s"] for item in retries} == {0.0}
    assert provider.times == [2, 4, 6, 8], "only the admission lets them wait"
    assert slots.ends == [(n, refusal) for n in (1, 2, 3)] + [(4, 7)]


@pytest.mark.parametrize(("alternative", "admission"), [(True, Slots()), (False, None)])
def test_with_an_alternative_model_or_without_an_admission_a_refusal_is_a_failure(alternative, admission):
    with changed(has_alternative=alternative):
        items, error = outcome(Provider(*[[refusal] for refusal in REFUSALS]), max_retries=1, admission=admission)
    assert [item.metadata["wait_s"] for item in items] == [5.0]
    assert error is REFUSALS[1]
