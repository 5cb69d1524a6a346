"""The stores for tests: each test runs with every kind of store, empty."""

import asyncio

import pytest
from support.redis_server import redis_server

from nbagent.server.conversations.opening import open_store


@pytest.fixture(scope="session")
def redis_address():
    with redis_server() as address:
        yield address


async def _emptied(address):
    from redis.asyncio import Redis

    async with Redis.from_url(address) as client:
        await client.flushall()


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.full)])
def place(request, tmp_path):
    """The address of an empty store of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "conversations.sqlite")
    address = request.getfixturevalue("redis_address")
    asyncio.run(_emptied(address))
    return address


@pytest.fixture
async def store(place):
    store = open_store(place)
    await store.open()
    yield store
    await store.aclose()
