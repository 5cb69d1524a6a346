"""Retries, broken streams and errors, against a real server that breaks on demand."""

import asyncio
import json
import time
from email.utils import formatdate

import pytest
from support.loopback import Answer, claude_said, said, sse
from support.requests import streamed

from nbagent.core.events import Retry, Text
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    InvalidResponseError,
    ModelNotFoundError,
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitError,
    ServerError,
)
from nbagent.providers.http import retry

HI = [LLMMessage("user", "hi")]
VENDORS = ["open_source", "openai", "claude"]
GOOD = Answer(sse(said("Good.")))


def good(vendor) -> Answer:
    return Answer(claude_said("Good.")) if vendor == "claude" else GOOD


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)


async def items_of(provider):
    return [item async for item in streamed(provider, HI)]


def retries(items):
    return [item for item in items if isinstance(item, Retry)]


def failed(status, **headers) -> Answer:
    body = json.dumps({"error": {"message": "not now", "type": "some_error"}}).encode()
    names = {key.replace("_", "-"): value for key, value in headers.items()}
    return Answer(body, status, {"content-type": "application/json", "x-request-id": "req_7", **names})


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_passing_errors_are_tried_again(loopback, connect, vendor, status):
    loopback.answers = [failed(status), failed(status), good(vendor)]
    items = await items_of(connect(vendor))
    assert items[-1].content == "Good."
    assert [item.metadata["attempt"] for item in retries(items)] == [1, 2]
    assert "not now" in items[0].content
    assert len(loopback.requests) == 3
    assert len({request.body for request in loopback.requests}) == 1


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, BadRequestError),
        (401, AuthenticationError),
        (403, AuthenticationError),
        (404, ModelNotFoundError),
        (413, BadRequestError),
        (422, BadRequestError),
        (302, InvalidResponseError),
    ],
)
async def test_lasting_errors_are_raised_at_once(loopback, connect, vendor, status, error):
    loopback.answers = [failed(status)]
    with pytest.raises(error) as caught:
        await connect(vendor).chat(HI)
    assert len(loopback.requests) == 1
    assert (caught.value.vendor, caught.value.model, caught.value.status) == (vendor, "m1", status)
    assert caught.value.request_id == "req_7"
    assert str(caught.value).startswith(f"{vendor} m1: not now (status {status}, request req_7)")


async def test_after_the_last_retry_the_error_is_raised(loopback, connect):
    loopback.answers = [failed(503)]
    with pytest.raises(ServerError):
        await connect(max_retries=2).chat(HI)
    assert len(loopback.requests) == 3


@pytest.mark.parametrize("vendor", VENDORS)
async def test_the_vendor_says_when(loopback, connect, vendor):
    loopback.answers = [failed(429, retry_after_ms="30"), failed(429, retry_after="0.02"), good(vendor)]
    items = await items_of(connect(vendor))
    assert [item.metadata["wait_s"] for item in retries(items)] == [0.03, 0.02]


async def test_no_time_at_all_is_no_wait_to_obey(loopback, connect, monkeypatch):
    """A vendor that rounds down, or names a moment that has passed, is not asked three times in a row at once."""
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.02)
    passed = formatdate(time.time() - 30, usegmt=True)
    loopback.answers = [failed(429, retry_after="0"), failed(503, retry_after=passed), GOOD]
    first, second = [item.metadata["wait_s"] for item in retries(await items_of(connect()))]
    assert 0.015 <= first <= 0.02
    assert 0.03 <= second <= 0.04


@pytest.mark.parametrize("vendor", VENDORS)
async def test_the_vendor_says_whether(loopback, connect, vendor):
    loopback.answers = [failed(500, x_should_retry="false")]
    with pytest.raises(ServerError):
        await connect(vendor).chat(HI)
    assert len(loopback.requests) == 1
    loopback.answers = [failed(400, x_should_retry="true"), good(vendor)]
    assert (await connect(vendor).chat(HI)).content == "Good."


async def test_too_long_a_wait_is_an_error_that_says_so(loopback, connect):
    loopback.answers = [failed(429, retry_after="3600")]
    with pytest.raises(RateLimitError) as caught:
        await connect().chat(HI)
    assert caught.value.retry_after == 3600
    assert len(loopback.requests) == 1


def test_waits_double_with_a_little_jitter(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.5)
    for attempt, full in enumerate([0.5, 1, 2, 4, 8, 8, 8], start=1):
        waits = {retry.wait_s(ServerError("x"), attempt) for _ in range(200)}
        assert min(waits) >= full * 0.75
        assert max(waits) <= full
        assert len(waits) > 100


def test_retry_after_as_a_date():
    got = retry.retry_headers({"retry-after": formatdate(time.time() + 30, usegmt=True)})["retry_after"]
    assert 25 < got <= 30
    assert retry.retry_headers({"retry-after": formatdate(0, usegmt=True)})["retry_after"] == 0
    assert retry.retry_headers({"retry-after": "soon"}) == {"retry_after": None, "should_retry": None}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("end", ["close", "drop"])
async def test_a_stream_that_breaks_is_sent_again_and_what_was_shown_is_discarded(loopback, connect, vendor, end):
    broken = (
        claude_said("Half").split(b"event: content_block_stop")[0]
        if vendor == "claude"
        else sse(said("Half", None), done=False)
    )
    loopback.answers = [Answer(broken, end=end), good(vendor)]
    items = await items_of(connect(vendor))
    assert [type(item) for item in items] == [Text, Retry, Text, LLMResponse]
    assert items[1].metadata["discard_chars"] == len("Half")
    assert items[1].metadata["error"] == "IncompleteStreamError"
    assert items[-1].content == "Good."


async def test_a_connection_that_breaks_after_the_finish_reason_has_broken_nothing(loopback, connect):
    loopback.answers = [Answer(sse(said("Good."), done=False), end="drop")]
    items = await items_of(connect())
    assert not retries(items)
    assert items[-1].content == "Good."


async def test_a_chunk_that_is_no_json_is_tried_again(loopback, connect):
    loopback.answers = [Answer(b'data: {"choices": [\n\n'), Answer(b'data: {"choices": 7}\n\n'), GOOD]
    items = await items_of(connect())
    assert items[-1].content == "Good."
    assert len(retries(items)) == 2


@pytest.mark.parametrize("vendor", VENDORS)
async def test_reading_ends_at_the_logical_end(loopback, connect, vendor):
    loopback.answers = [Answer(good(vendor).body, end="stall")]
    async with asyncio.timeout(120):
        assert (await connect(vendor).chat(HI)).content == "Good."


@pytest.mark.parametrize("vendor", VENDORS)
async def test_requests_share_a_connection(loopback, connect, vendor):
    loopback.answers = [good(vendor)]
    provider = connect(vendor)
    for _ in range(3):
        await provider.chat(HI)
    assert loopback.connections == 1


@pytest.mark.parametrize("vendor", VENDORS)
async def test_silence_is_a_timeout(loopback, connect, vendor):
    loopback.answers = [Answer(end="stall")]
    with pytest.raises(ProviderTimeoutError) as caught:
        await connect(vendor, timeout=0.2, max_retries=1).chat(HI)
    assert len(loopback.requests) == 2
    assert caught.value.retryable


@pytest.mark.parametrize("vendor", VENDORS)
async def test_nobody_listens(connect, vendor):
    with pytest.raises(ProviderConnectionError, match="base_url"):
        await connect(vendor, base_url="http://127.0.0.1:9", max_retries=1).chat(HI)


async def test_an_address_that_is_none(connect):
    with pytest.raises(ConfigurationError, match="base_url"):
        await connect(base_url="localhost:8000/v1").chat(HI)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_web_page_is_no_answer(loopback, connect, vendor):
    page = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>"
    loopback.answers = [Answer(page, headers={"content-type": "text/html"})]
    with pytest.raises(InvalidResponseError, match=r"HTML page \(Sign in\)"):
        await connect(vendor).chat(HI)
    loopback.answers = [Answer(page, 502, {"content-type": "text/html"})]
    with pytest.raises(ServerError, match=r"HTML page \(Sign in\)"):
        await connect(vendor, max_retries=0).chat(HI)


async def test_a_json_body_where_a_stream_was_asked(loopback, connect):
    body = {"choices": [{"message": {"content": "Good."}, "finish_reason": "stop"}]}
    loopback.answers = [Answer(json.dumps(body).encode(), headers={"content-type": "application/json"})]
    items = await items_of(connect())
    assert [type(item) for item in items] == [Text, LLMResponse]


async def test_a_stream_that_is_left_can_be_followed_by_another(loopback, connect):
    loopback.answers = [Answer(sse(said("Half", None), done=False), end="stall"), GOOD]
    provider = connect()
    stream = streamed(provider, HI)
    assert (await anext(stream)).content == "Half"
    await stream.aclose()
    assert (await provider.chat(HI)).content == "Good."


def test_one_provider_on_several_loops():
    """A provider made once works in each of several `asyncio.run`."""
    from support.loopback import Loopback

    from nbagent.providers import create_provider

    provider = create_provider("open_source", model="m1")

    async def ask():
        async with Loopback() as server:
            server.answers = [GOOD]
            provider.base_url = f"{server.url}/v1"
            answer = await provider.chat(HI)
            await provider.aclose()
            return answer.content

    assert [asyncio.run(ask()) for _ in range(2)] == ["Good.", "Good."]


async def test_prepare_runs_before_each_request(loopback, connect):
    loopback.answers = [failed(500), GOOD]
    provider = connect(base_url="http://127.0.0.1:9")
    prepared = []

    async def prepare():
        prepared.append(1)
        provider.base_url = f"{loopback.url}/v1"

    provider.prepare = prepare
    assert (await provider.chat(HI)).content == "Good."
    assert len(prepared) == 2


async def test_errors_of_the_tree_only(loopback, connect):
    loopback.answers = [Answer(end="drop")]
    with pytest.raises(ProviderError):
        await connect(max_retries=0).chat(HI)
