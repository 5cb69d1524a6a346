"""The body of an error is read only as far as an explanation needs, however long it is and however it is packed."""

import gzip
import tracemalloc

import pytest
from support.loopback import read_request, served_by

from nbagent.core.messages import LLMMessage
from nbagent.errors import ServerError

HEAD = b"HTTP/1.1 500 Oops\r\n%b\r\n\r\n"


def without_end():
    return [HEAD % b"X: 1" + b'{"error": {"message": "overloaded ', *[b"x" * 2**16] * 10_000]


def packed():
    return [HEAD % b"Content-Encoding: gzip", gzip.compress(b"overloaded " + bytes(2**28), compresslevel=1)]


@pytest.mark.full
@pytest.mark.parametrize("vendor", ["open_source", "openai"])
@pytest.mark.parametrize("body", [without_end, packed])
async def test_a_large_error_takes_little_memory(connect, vendor, body):
    parts = body()

    async def serve(reader, writer):
        await read_request(reader)
        for part in parts:
            if writer.is_closing():
                return
            writer.write(part)
            await writer.drain()

    async with served_by(serve) as address:
        provider = connect(vendor, base_url=f"http://{address}", max_retries=0, timeout=20)
        tracemalloc.start()
        try:
            with pytest.raises(ServerError) as caught:
                await provider.chat([LLMMessage("user", "hi")])
            assert tracemalloc.get_traced_memory()[1] < 2**27
        finally:
            tracemalloc.stop()
        await provider.aclose()
    assert len(str(caught.value)) < 1500
