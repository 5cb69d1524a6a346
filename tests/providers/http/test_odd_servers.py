"""Servers that speak HTTP badly, or not at all: the answer is read, or an error of nbagent's own says what is wrong."""

import asyncio
import socket

import pytest
from support.loopback import Answer, read_request, said, served_by, sse

from nbagent import Agent
from nbagent.core.messages import LLMMessage
from nbagent.errors import ProviderError

HI = [LLMMessage("user", "hi")]
VENDORS = ["open_source", "openai", "claude"]
GOOD = sse(said("Good."))
MANY = 2**24


def pairs(names):
    """All with one vendor, and one with the others."""
    return [("open_source", name) for name in names] + [(vendor, next(iter(names))) for vendor in VENDORS[1:]]


@pytest.fixture
def ask(connect):
    """The text that a server of raw connections answers. One that takes longer than a minute hangs."""

    async def asked(serve, vendor="open_source", messages=HI, **options):
        async with served_by(serve) as address:
            provider = connect(vendor, base_url=f"http://{address}", **{"max_retries": 0, "timeout": 20, **options})
            async with asyncio.timeout(60):
                assert (await provider.chat(messages)).content == "Good."
            await provider.aclose()

    return asked


def once(sent):
    """A server that answers each request with the same bytes, and hangs up."""

    async def serve(reader, writer):
        await read_request(reader)
        writer.write(sent)
        await writer.drain()

    return serve


def with_length(body, *lines):
    head = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join([*head, b"", body])


# ------------------------------------------------------------------ what is not HTTP

NOT_HTTP = {
    "tls": b"\x15\x03\x01\x00\x02\x02\x46",
    "a huge header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**19 + b"\r\n\r\n",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\ndata: {",
    "less than its length": with_length(GOOD)[: -len(GOOD) // 2],
}


@pytest.mark.parametrize(("vendor", "name"), pairs(NOT_HTTP))
async def test_what_is_not_http_is_an_error(ask, vendor, name):
    with pytest.raises(ProviderError) as caught:
        await ask(once(NOT_HTTP[name]), vendor)
    assert caught.value.__cause__ is None


# ------------------------------------------------------------------ compressed answers


# ------------------------------------------------------------------ pressure and haste


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_server_that_refuses_before_it_has_read_all(ask, vendor):
    async def serve(reader, writer):
        await reader.read(100)
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 10\r\n\r\nToo large.")
        await writer.drain()
        await asyncio.sleep(30)

    with pytest.raises(ProviderError, match="Too large"):
        await ask(serve, vendor, timeout=2, messages=[LLMMessage("user", "x" * MANY)])


async def test_a_name_whose_first_address_does_not_answer(loopback, connect, monkeypatch):
    """As `localhost` is ::1 too, where most servers don't listen."""
    port = int(loopback.url.rpartition(":")[2])
    found = [(socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port))]

    async def getaddrinfo(*_, **__):
        return [(family, socket.SOCK_STREAM, 6, "", address) for family, address in found]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    loopback.answers = [Answer(GOOD)]
    assert (await connect(base_url=f"http://two.test:{port}/v1").chat(HI)).content == "Good."


# ------------------------------------------------------------------ several events at once


async def test_texts_that_come_at_once_are_one_event_and_are_kept_if_the_next_one_is_an_error(loopback, connect):
    loopback.answers = [Answer(sse(said("One ", None), said("two.", None), {"error": {"message": "Out of memory."}}))]
    events = [event async for event in Agent(connect(max_retries=0)).chat_stream("Count.", raise_errors=False)]
    assert [event.content for event in events if event.type == "text"] == ["One two."]
    assert "Out of memory" in events[-1].content
