"""Retries, broken streams and errors, against a real server that breaks on demand."""

import asyncio
import json
import time
from email.utils import formatdate

import pytest
from support.loopback import Answer, claude_said, read_request, said, served_by, sse
from support.requests import streamed

from nbagent import Agent
from nbagent.core.events import Retry
from nbagent.core.messages import LLMMessage
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ModelNotFoundError,
    ProviderError,
    ProviderTimeoutError,
    QuotaError,
    RateLimitError,
    ServerError,
)
from nbagent.providers.http import retry

HI = [LLMMessage("user", "hi")]
PROVIDERS = ["open_source", "openai", "claude"]
GOOD = Answer(sse(said("Good.")))


def good(provider) -> Answer:
    return Answer(claude_said("Good.")) if provider == "claude" else GOOD


async def items_of(provider):
    return [item async for item in streamed(provider, HI)]


def retries(items):
    return [item for item in items if isinstance(item, Retry)]


def failed(status, **headers) -> Answer:
    body = json.dumps({"error": {"message": "not now", "type": "some_error"}}).encode()
    names = {key.replace("_", "-"): value for key, value in headers.items()}
    return Answer(body, status, {"content-type": "application/json", "x-request-id": "req_7", **names})


PASSING = dict.fromkeys((408, 409, 500, 501, 502, 503, 504, 529), ServerError) | {429: RateLimitError}
LASTING = {
    **dict.fromkeys((400, 413, 422), BadRequestError),
    **dict.fromkeys((401, 403), AuthenticationError),
    402: QuotaError,
    404: ModelNotFoundError,
}


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_each_status_is_retried_or_raised_at_once(loopback, connect, monkeypatch, provider):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)
    for status, error in (PASSING | LASTING).items():
        loopback.requests.clear()
        loopback.answers = [failed(status)]
        agent = Agent(connect(provider, max_retries=1))
        with pytest.raises(error) as caught:
            await agent.chat("hi")
        assert type(caught.value) is error, status
        assert (caught.value.status, caught.value.message) == (status, "not now")
        assert (caught.value.retryable, len(loopback.requests) == 2) == (status in PASSING, status in PASSING)


async def test_a_retry_after_of_zero_is_ignored(loopback, connect, monkeypatch):
    """Even if the provider rounds down or names a time in the past, requests are not sent without a wait."""
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.02)
    passed = formatdate(time.time() - 30, usegmt=True)
    loopback.answers = [failed(429, retry_after="0"), failed(503, retry_after=passed), GOOD]
    first, second = [item.metadata["wait_s"] for item in retries(await items_of(connect()))]
    assert 0.015 <= first <= 0.02
    assert 0.03 <= second <= 0.04


async def test_the_provider_decides_whether_to_retry(loopback, connect):
    loopback.answers = [failed(500, x_should_retry="false")]
    with pytest.raises(ServerError):
        await connect().chat(HI)
    assert len(loopback.requests) == 1
    loopback.answers = [failed(400, x_should_retry="true"), GOOD]
    assert (await connect().chat(HI)).content == "Good."


async def test_a_connection_that_breaks_after_the_finish_reason_is_harmless(loopback, connect):
    loopback.answers = [Answer(sse(said("Good."), done=False), end="drop")]
    items = await items_of(connect())
    assert not retries(items)
    assert items[-1].content == "Good."


async def test_an_event_of_unknown_form_is_retried(loopback, connect):
    loopback.answers = [Answer(b'data: {"choices": 7}\n\n'), GOOD]
    items = await items_of(connect())
    assert (items[-1].content, len(retries(items))) == ("Good.", 1)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_reading_ends_at_the_logical_end(loopback, connect, provider):
    loopback.answers = [Answer(good(provider).body, end="stall")]
    async with asyncio.timeout(120):
        assert (await connect(provider).chat(HI)).content == "Good."


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_silence_is_a_timeout(loopback, connect, provider):
    loopback.answers = [Answer(end="stall")]
    with pytest.raises(ProviderTimeoutError) as caught:
        await connect(provider, timeout=0.2, max_retries=1).chat(HI)
    assert len(loopback.requests) == 2
    assert caught.value.retryable


async def test_texts_that_arrive_together_are_one_event_and_survive_an_error_after_them(loopback, connect):
    loopback.answers = [Answer(sse(said("One ", None), said("two.", None), {"error": {"message": "Out of memory."}}))]
    events = [event async for event in Agent(connect(max_retries=0)).chat_stream("Count.", raise_errors=False)]
    assert [event.content for event in events if event.type == "text"] == ["One two."]
    assert "Out of memory" in events[-1].content


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_server_that_does_not_speak_http_is_an_nbagent_error(connect, provider):
    async def serve(reader, writer):
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\ndata: {")
        await writer.drain()

    async with served_by(serve) as address:
        with pytest.raises(ProviderError) as caught:
            await connect(provider, base_url=f"http://{address}", max_retries=0).chat(HI)
    assert caught.value.__cause__ is None
