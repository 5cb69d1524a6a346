"""Only `retry.py` sends a request again, and whoever looks sees it: in events, in `trace.http` and in `trace.calls`."""

import httpx
import httpx2
import openai
import pytest
from support.loopback import claude_said, read_request, said, served_by, sse

from nbagent import Agent, Trace
from nbagent.core.events import Retry
from nbagent.core.messages import LLMMessage
from nbagent.errors import ProviderConnectionError
from nbagent.providers.http import retry

HI = [LLMMessage("user", "hi")]
VENDORS = ["open_source", "openai", "claude"]


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)


def body(vendor) -> bytes:
    return claude_said("Good.") if vendor == "claude" else sse(said("Good."))


def dropping(answer, requests):
    """A server that answers the first request of each connection and hangs up on the second, once it has read it."""

    async def serve(reader, writer):
        requests.append((await read_request(reader))[1])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer)
        await writer.drain()
        requests.append((await read_request(reader))[1])

    return served_by(serve)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_request_on_a_kept_connection_that_breaks_is_not_repeated(connect, vendor):
    requests = []
    async with dropping(body(vendor), requests) as address:
        provider = connect(vendor, base_url=f"http://{address}", max_retries=0)
        assert (await provider.chat(HI)).content == "Good."
        with pytest.raises(ProviderConnectionError, match="without an answer") as caught:
            await provider.chat([LLMMessage("user", "charge me once")])
    assert caught.value.retryable
    assert sum(b"charge me once" in request for request in requests) == 1
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("vendor", "make"),
    [
        ("open_source", lambda _: httpx.AsyncClient()),
        ("open_source", lambda _: httpx2.AsyncClient()),
        ("openai", lambda url: openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=5)),
    ],
)
async def test_nor_with_a_client_of_the_user_s_own(connect, vendor, make):
    requests = []
    async with dropping(body(vendor), requests) as address, make(f"http://{address}") as own:
        provider = connect(vendor, base_url=f"http://{address}", max_retries=0, client=own)
        await provider.chat(HI)
        with pytest.raises(ProviderConnectionError):
            await provider.chat(HI)
    assert len(requests) == 2


async def test_a_retry_is_an_event_a_row_and_a_count(connect):
    requests = []
    async with dropping(body("open_source"), requests) as address:
        provider = connect(base_url=f"http://{address}", max_retries=1)
        agent = Agent(provider, trace=Trace(record_http=True))
        await agent.chat("hi")
        events = [event async for event in agent.chat_stream("and again?")]
        await provider.aclose()
    (told,) = [event for event in events if isinstance(event, Retry)]
    assert told.metadata["error"] == "ProviderConnectionError"
    assert agent.trace.calls["retries"].tolist() == [0, 1]
    rows = agent.trace.http
    assert rows["status"].tolist()[:1] + rows["status"].tolist()[2:] == [200, 200]
    assert rows["error_type"].tolist()[1] == "ProviderConnectionError"
    assert rows["attempt"].tolist() == [1, 1, 2]
    assert len(requests) == 3
