"""Only `retry.py` sends a request again. No library below it does, even if a kept connection breaks."""

import httpx
import httpx2
import openai
import pytest
from support.loopback import claude_said, read_request, said, served_by, sse

from nbagent.core.messages import LLMMessage
from nbagent.errors import ProviderConnectionError

HI = [LLMMessage("user", "hi")]
PROVIDERS = ["open_source", "openai", "claude"]


def body(provider) -> bytes:
    return claude_said("Good.") if provider == "claude" else sse(said("Good."))


def dropping(answer, requests):
    """A server that answers the first request of each connection and hangs up on the second, once it has read it."""

    async def serve(reader, writer):
        requests.append((await read_request(reader))[1])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer)
        await writer.drain()
        requests.append((await read_request(reader))[1])

    return served_by(serve)


@pytest.mark.parametrize("provider_name", PROVIDERS)
async def test_a_request_on_a_kept_connection_that_breaks_is_not_repeated(connect, provider_name):
    requests = []
    async with dropping(body(provider_name), requests) as address:
        provider = connect(provider_name, base_url=f"http://{address}", max_retries=0)
        assert (await provider.chat(HI)).content == "Good."
        with pytest.raises(ProviderConnectionError, match="Server disconnected") as caught:
            await provider.chat([LLMMessage("user", "charge me once")])
    assert caught.value.retryable
    assert sum(b"charge me once" in request for request in requests) == 1
    assert len(requests) == 2


@pytest.mark.parametrize(
    ("provider_name", "make"),
    [
        ("open_source", lambda _: httpx.AsyncClient()),
        ("open_source", lambda _: httpx2.AsyncClient()),
        ("openai", lambda url: openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=5)),
    ],
)
async def test_a_broken_request_of_the_users_own_client_is_not_repeated(connect, provider_name, make):
    requests = []
    async with dropping(body(provider_name), requests) as address, make(f"http://{address}") as own:
        provider = connect(provider_name, base_url=f"http://{address}", max_retries=0, client=own)
        await provider.chat(HI)
        with pytest.raises(ProviderConnectionError):
            await provider.chat(HI)
    assert len(requests) == 2
