"""An agent against every HTTP error, quota and broken call that llmock offers: it answers fully, or says what failed.

llmock is a real server in a thread of this process. Its verdict on the client (how long it waited, what it sent again)
goes by the same clock as the client's waits, which therefore last as long as they should and take no time.
"""

import pytest
from support.faults import ANSWER, THANKS, VENDORS, Talk

from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ModelNotFoundError,
    QuotaError,
    RateLimitError,
    ServerError,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: llmock sends Retry-After with these, of one second if nothing else was asked for.
WITH_RETRY_AFTER = (429, 503, 504, 529)
PASSING = dict.fromkeys((408, 409, 429, 500, 501, 502, 503, 504, 529), ServerError) | {429: RateLimitError}
LASTING = {
    400: BadRequestError,
    401: AuthenticationError,
    402: QuotaError,
    403: AuthenticationError,
    404: ModelNotFoundError,
    413: BadRequestError,
    422: BadRequestError,
}


def each(*statuses):
    """All statuses with one vendor, all vendors with one status; streamed and whole in turn."""
    first, *others = VENDORS
    pairs = [(first, status) for status in statuses] + [(vendor, statuses[0]) for vendor in others]
    cases = [(vendor, status, number % 2 == 0) for number, (vendor, status) in enumerate(pairs)]
    names = [f"{vendor}-{status}-{'streaming' if streaming else 'whole'}" for vendor, status, streaming in cases]
    return pytest.mark.parametrize(("vendor", "status", "streaming"), cases, ids=names)


@pytest.fixture
def vendor():
    return "openai chat"


@pytest.fixture
def streaming():
    return True


@pytest.fixture
def talk(providers, vendor, streaming, llmock):
    return Talk(providers.get(vendor, streaming))


def statuses(llmock):
    return [record.status for record in llmock.requests]


def follow_the_policy(waits):
    """Half a second, then twice as long each time, shortened by a quarter at most."""
    for number, wait in enumerate(waits):
        assert 0.75 * 0.5 * 2**number <= wait <= 0.5 * 2**number


@each(*PASSING)
async def test_an_error_that_passes(talk, llmock, clock, status):
    """It comes before the tool is called, and again when the tool has run, which does not run again."""
    times = 2
    llmock.fail(status, times=times).call_tool("get_weather", {"city": "Berlin"}).reply(ANSWER)
    talk.on_run = lambda: llmock.fail(status, times=times)
    talk.is_answered(await talk.ask(), retries=[PASSING[status].__name__] * 2 * times)
    assert statuses(llmock) == ([status] * times + [200]) * 2
    for waits in (clock.waits[:times], clock.waits[times:]):
        if status in WITH_RETRY_AFTER:
            assert waits == [1.0] * times
        else:
            follow_the_policy(waits)
    llmock.reply(THANKS)
    await talk.goes_on()
    llmock.assert_resilient(strict=True)


@each(*LASTING)
async def test_an_error_that_lasts(talk, llmock, clock, status, streaming):
    """It is raised at once, and what the tool did is not lost. llmock sends no request ids."""
    if after_the_tool := streaming:
        llmock.call_tool("get_weather", {"city": "Berlin"})
        talk.on_run = lambda: llmock.fail(status, message="No, really.")
    else:
        llmock.fail(status, message="No, really.")
    error = await talk.fails(LASTING[status])
    assert (error.message, error.status, error.request_id, error.retryable) == ("No, really.", status, None, False)
    assert statuses(llmock) == [200] * after_the_tool + [status]
    assert talk.ran == ["Berlin"] * after_the_tool
    assert [call["result"] for call in error.partial.function_calls] == ["22 degrees"] * after_the_tool
    assert not clock.waits
    llmock.reply(THANKS)
    await talk.goes_on()
    llmock.assert_resilient(strict=True)
