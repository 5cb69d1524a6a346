"""An agent against every HTTP error, quota and broken call that llmock offers: it answers fully, or says what failed.

llmock is a real server in a thread of this process. Its verdict on the client (how long it waited, what it sent again)
goes by the same clock as the client's waits, which therefore last as long as they should and take no time.
"""

import random

import pytest
from llmock import chaos
from support.faults import ANSWER, THANKS, VENDORS, WIRES, Talk

from nbagent.core.history.repair import repair
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    ModelNotFoundError,
    ProviderError,
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


#: Each wire format, streamed.
every_format = pytest.mark.parametrize("vendor", WIRES)


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


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_outage(talk, llmock, clock, status):
    llmock.outage(status=status)
    error = await talk.fails(PASSING[status])
    assert (error.status, error.retry_after) == (status, 1.0 if status in WITH_RETRY_AFTER else None)
    assert statuses(llmock) == [status] * 4
    assert len(clock.waits) == len(talk.retried) == 3
    llmock.assert_resilient(strict=True)
    llmock.reset().reply(THANKS)
    await talk.goes_on()


async def test_sixty_requests_a_minute(talk, llmock, clock):
    """The first sixty pass at once, then one a second."""
    llmock.limits(rpm=60).reply(THANKS, times=None)
    for _ in range(64):
        talk.agent.clear_history()
        assert (await talk.ask("Hi")).content == talk.shown == THANKS
    assert statuses(llmock) == [200] * 60 + [429, 200] * 4
    assert clock.waits == pytest.approx([1.0] * 4, abs=0.01)
    llmock.assert_resilient(strict=True)
    talk.agent.provider.max_retries = 0
    error = await talk.fails(RateLimitError)
    assert (error.status, error.retry_after) == (429, pytest.approx(1.0, abs=0.01))
    await clock.sleep(error.retry_after)
    await talk.goes_on()


@every_format
async def test_a_conversation_too_long(talk, llmock, clock):
    """In the words of each vendor. The remedy that the error names helps."""
    llmock.limits(context_window=1000)
    error = await talk.fails(ContextLengthError, "word " * 2000)
    assert (error.status, error.retryable) == (400, False)
    assert statuses(llmock) == [400]
    assert "agent.clear_history()" in str(error)
    talk.agent.clear_history()
    llmock.reply(THANKS, times=2)
    assert (await talk.ask("Hi")).content == THANKS
    await talk.goes_on()
    llmock.assert_resilient(strict=True)


@every_format
@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
async def test_a_broken_call(talk, llmock, clock, kind):
    """The model is told what was wrong, and nothing runs until it calls well.

    Where arguments are an object (Gemini's always, Claude's in a whole body), llmock's malformed ones are an empty one,
    which lacks the city.
    """
    times = 2
    llmock.call_tool("get_weather", {"city": "Berlin"}, times=times + 1).break_tool_call(kind, times=times)
    llmock.reply(ANSWER)
    result = await talk.ask()
    assert (result.status, result.content, talk.shown, talk.ran) == ("ok", ANSWER, ANSWER, ["Berlin"])
    *broken, good = result.function_calls
    assert [call["is_error"] for call in broken] == [True] * times
    assert (good["result"], good["is_error"]) == ("22 degrees", False)
    for call in broken:
        expected = "Tool call arguments are invalid.\nTool: get_weather" if kind == "malformed_arguments" else "unknown"
        assert expected in call["result"]
    assert statuses(llmock) == [200] * (times + 2)
    assert talk.agent.trace.tool_calls["args_valid"].tolist() == [False] * times + [True]
    llmock.reply(THANKS)
    await talk.goes_on()
    llmock.assert_resilient(strict=True)


@every_format
async def test_whatever_comes(talk, llmock, llmock_server, clock, monkeypatch):
    """Faults by the dice: each message is answered after one call of the tool, or fails and is taken back.

    llmock calls the tool whose description fits best, and answers when it has the result.
    """
    monkeypatch.setattr(chaos, "random", random.Random(0))
    llmock_server.state.chaos.error_rates = {429: 0.15, 500: 0.15, 503: 0.1, 400: 0.05}
    broken = (("disconnect", 0.1), ("truncate", 0.1))
    llmock_server.state.stream_chaos = chaos.StreamChaos(broken, max_after_chunks=4)
    outcomes = []
    for number in range(20):
        before = len(talk.ran)
        try:
            result = await talk.ask(f"The current weather in city {number}?")
        except ProviderError as error:
            outcomes.append(type(error).__name__)
            history = talk.agent.conversation_history
            assert [message.role for message in history] == ["system"] or repair(history) == history
            assert talk.ran[before:] in ([], ["mock-city"])
            if talk.ran[before:]:
                talk.agent.undo()
        else:
            outcomes.append(result.status)
            assert talk.shown == result.content != ""
            assert talk.ran[before:] == ["mock-city"]
            assert [call["result"] for call in result.function_calls] == ["22 degrees"]
    assert {"ok", "BadRequestError"} <= set(outcomes)
    llmock.assert_resilient(strict=True)
