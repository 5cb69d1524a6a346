"""A request that is cancelled, at whatever moment, leaves no connection behind."""

import asyncio
import gc
import json
import re
import threading
from contextlib import aclosing, suppress
from random import Random

import psutil
import pytest
from support.loopback import claude_said, read_request, said, served_by, sse
from support.requests import streamed

from nbagent.core.events import Text
from nbagent.core.messages import LLMMessage


def numbered(vendor, number) -> list[bytes]:
    """A streamed answer that says its number ten times, in pieces."""
    word = f"<{number}>"
    if vendor != "claude":
        return [sse(said(word, None), done=False) for _ in range(10)] + [sse(said(""))]
    first, last = claude_said("").partition(b"event: content_block_stop")[::2]
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
    piece = f"event: content_block_delta\ndata: {json.dumps(delta)}\n\n".encode()
    return [first, *[piece] * 10, b"event: content_block_stop" + last]


@pytest.mark.parametrize(
    ("vendor", "streams"),
    [
        ("open_source", 300),
        ("openai", 300),
        *(pytest.param(vendor, 1_000, marks=pytest.mark.full) for vendor in ("claude", "openai", "open_source")),
    ],
)
async def test_streams_cancelled_at_random_moments_leave_nothing_and_never_mix(connect, vendor, streams):
    """50 at once: no byte of one answer in another; no socket, task or thread afterwards."""
    random, texts, whole = Random(vendor), {}, set()

    async def serve(reader, writer):
        while True:
            _, body = await read_request(reader)
            number = re.search(rb"number (\d+)", body)[1].decode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            for piece in numbered(vendor, number):
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0.001)
            writer.write(b"0\r\n\r\n")

    async def ask(provider, number):
        texts[number] = ""
        async with aclosing(streamed(provider, [LLMMessage("user", f"number {number}")])) as items:
            async for item in items:
                if isinstance(item, Text):
                    texts[number] += item.content
        whole.add(number)

    async with served_by(serve) as address:
        provider = connect(vendor, base_url=f"http://{address}", max_retries=0)
        await ask(provider, 0)  # connects, and starts what threads there are
        before = asyncio.all_tasks(), threading.active_count()
        waiting = iter(range(1, streams + 1))

        async def one_after_the_other():
            for number in waiting:
                task = asyncio.create_task(ask(provider, number))
                await asyncio.wait([task], timeout=random.choice([0, random.uniform(0, 0.05), 60]))
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

        await asyncio.gather(*(one_after_the_other() for _ in range(50)))
        mixed = {number: text for number, text in texts.items() if text.replace(f"<{number}>", "")}
        assert mixed == {}
        assert all(texts[number] == f"<{number}>" * 10 for number in whole)
        assert 0 < len(whole) < streams
        await ask(provider, streams + 1)
        await provider.aclose()
        async with asyncio.timeout(60):
            while sockets_to(address) or (asyncio.all_tasks() - before[0]) or threading.active_count() > before[1]:
                gc.collect()
                await asyncio.sleep(0.05)


def sockets_to(address) -> int:
    """Sockets of this process that are connected to a server, both ends counted."""
    port = int(address.rpartition(":")[2])
    stand = [each for each in psutil.Process().net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED]
    return sum(port in (each.laddr.port, each.raddr.port) for each in stand)
