"""The body of an error is read only as far as an explanation needs, however long it is and however it is packed."""

import gzip
import json
import tracemalloc
from contextlib import contextmanager

import httpx2
import pytest
from support.loopback import read_request, served_by

from nbagent.core.messages import LLMMessage
from nbagent.errors import ServerError
from nbagent.providers.formats.errors import error_in_answer
from nbagent.providers.http.errors import status_error

HI = [LLMMessage("user", "hi")]
MANY = 2**26
VENDORS = ["open_source", "openai", "claude"]
HEAD = b"HTTP/1.1 500 Oops\r\n%b\r\n\r\n"
PACKED = HEAD % b"Content-Encoding: gzip"
STARTS = {"JSON": b'{"error": {"message": "overloaded ', "page": b"<html>", "text": b"overloaded "}


@contextmanager
def memory_below(most):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


@pytest.fixture
def failure(connect):
    """The error of one request to a server that sends these bytes, the last of them again and again."""

    async def failed(vendor, *parts, times=1, **options):
        async def serve(reader, writer):
            await read_request(reader)
            writer.write(b"".join(parts[:-1]))
            for _ in range(times):
                if writer.is_closing():
                    return
                writer.write(parts[-1])
                await writer.drain()

        async with served_by(serve) as address:
            provider = connect(vendor, base_url=f"http://{address}", max_retries=0, timeout=20, **options)
            with pytest.raises(ServerError) as caught:
                await provider.chat(HI)
            await provider.aclose()
        return caught.value

    return failed


@pytest.mark.parametrize(
    ("vendor", "start"), [("open_source", start) for start in STARTS] + [("openai", "JSON"), ("claude", "text")]
)
async def test_an_error_without_end(failure, vendor, start):
    await failure(vendor, HEAD % b"X: 1", b"{}")  # loads what is imported once
    with memory_below(2**24):
        error = await failure(vendor, HEAD % b"X: 1", STARTS[start], b"x" * 2**16, times=10_000)
    assert error.status == 500
    assert len(str(error)) < 1500


@pytest.mark.parametrize("vendor", ["open_source", "openai"])
async def test_an_error_that_grows_when_decompressed(failure, vendor):
    bomb = gzip.compress(STARTS["text"] + bytes(2 * MANY), compresslevel=1)
    with memory_below(2 * MANY):
        error = await failure(vendor, PACKED, bomb)
    assert error.status == 500


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_packed_error_is_explained(failure, vendor):
    body = json.dumps({"error": {"message": "overloaded", "type": "overloaded_error"}}).encode()
    assert "overloaded" in str(await failure(vendor, PACKED, gzip.compress(body)))


async def test_an_error_that_a_client_of_the_users_has_read_whole():
    """The SDKs read it before they raise. What follows costs no more than for a short one."""
    request = httpx2.Request("POST", "http://host", headers={"Authorization": "Bearer sk-0123456789abc"})
    content = STARTS["JSON"] + b"x" * MANY
    with memory_below(2**24):
        assert len(str(status_error(500, {}, content, request))) < 10_000


@pytest.mark.parametrize("make", [lambda text: {"error": {"message": text}}, lambda text: {"error": text}])
async def test_a_long_error_in_an_answer(make):
    body = make("overloaded " + "x" * MANY)
    with memory_below(2**24):
        error = error_in_answer(body)
    assert len(str(error)) < 100_000
