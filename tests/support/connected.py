"""Asking over a connection of `nbagent.providers.http.network`, whose other end the test plays."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import httpx

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nGood"


def post(content=b"hi", library=httpx, headers=(), **limits):
    """A request, with a minute for everything that has no other limit."""
    limits = {"read": 60, "write": 60, **limits}
    extensions = {"timeout": limits}
    return library.Request("POST", "http://a.test/b?c=d", content=content, headers=dict(headers), extensions=extensions)


@asynccontextmanager
async def asked(connection, writer, said):
    """The answer whose first bytes are `said`, closed in the end."""
    asking = asyncio.create_task(connection.request(post()))
    await asyncio.sleep(0)
    writer.write(said)
    async with aclosing(await asking) as answer:
        yield answer


async def whole(answer):
    """What is left of an answer's body."""
    return b"".join([piece async for piece in answer])
