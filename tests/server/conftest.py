"""Where the stores of a test are: each test is given every kind of place, and an empty one."""

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


def place_of(kind, request):
    """The address of an empty store."""
    if kind == "sqlite":
        return str(request.getfixturevalue("tmp_path") / "conversations.sqlite")
    if kind == "redis":
        address = request.getfixturevalue("redis_address")
        asyncio.run(_emptied(address))
        return address
    return "memory:"


REDIS = pytest.param("redis", marks=pytest.mark.full)


@pytest.fixture(params=["memory", "sqlite", REDIS])
def place(request):
    """The address of an empty store of each kind."""
    return place_of(request.param, request)


@pytest.fixture(params=["sqlite", REDIS])
def shared_place(request):
    """The address of an empty store of each kind that processes can share."""
    return place_of(request.param, request)


@pytest.fixture
async def store(place):
    store = open_store(place)
    await store.open()
    yield store
    await store.aclose()
