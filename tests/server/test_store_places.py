"""Where conversations are kept: addresses, and a Redis that is gone."""

import logging
import socket

import pytest
from support.redis_server import redis_server
from support.store_turns import OWNER, add_turn

from nbagent.errors import ConfigurationError, StoreError
from nbagent.server.conversations.memory import MemoryStore
from nbagent.server.conversations.opening import open_store
from nbagent.server.conversations.redis import RedisStore
from nbagent.server.conversations.sqlite import SQLiteStore
from nbagent.server.conversations.store import Answer, Approval, Spent

PASSWORD = "pass-word@of/the tests?"
ENCODED = "pass-word%40of%2Fthe%20tests%3F"


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("conversations.sqlite", "conversations.sqlite"),
        ("sqlite:///conversations.any", "conversations.any"),
        ("sqlite:////srv/conversations.sqlite", "/srv/conversations.sqlite"),
    ],
)
def test_addresses_of_files(address, path):
    store = open_store(address, ttl_s=5)
    assert isinstance(store, SQLiteStore)
    assert (str(store.path), store.ttl_s) == (path, 5)


def test_other_addresses():
    assert isinstance(open_store("memory:"), MemoryStore)
    for address in ("redis://localhost:6379/0", "rediss://localhost", "unix:///run/redis.sock"):
        assert isinstance(open_store(address), RedisStore)


@pytest.mark.parametrize("address", ["", "sqlite:///", "mysql://anna:pass-word@host/x", 5])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ConfigurationError, match="store: expected") as raised:
        open_store(address)
    assert "pass-word" not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    [
        "redis://anna:pass-word@localhost:port/0",
        "redis://anna:pass-word@localhost:6379/0?unknown=1",
        "redis://anna:pass-word@[localhost/0",
    ],
)
async def test_an_address_of_redis_that_can_not_be_used_is_told_without_its_password(address):
    store = open_store(address)
    with pytest.raises(ConfigurationError, match="redis://user:password@host") as raised:
        await store.open()
    assert "pass-word" not in f"{raised.value}{store!r}"
    assert raised.value.__cause__ is None
    await store.aclose()


# -- Redis ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded():
    """The port of a Redis server with a password."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with redis_server("--port", str(port), "--requirepass", PASSWORD):
        yield port


@pytest.mark.full
async def test_a_password_of_redis_is_never_shown(guarded, caplog):
    caplog.set_level(logging.DEBUG)
    store = open_store(f"redis://:{ENCODED}@127.0.0.1:{guarded}/0")
    await store.open()
    await add_turn(store, "c1", "a question")
    await store.aclose()
    assert repr(store) == f"RedisStore('redis://127.0.0.1:{guarded}/0')"
    assert PASSWORD not in caplog.text
    assert ENCODED not in caplog.text


@pytest.mark.full
@pytest.mark.parametrize("user", ["", ":wrong-word@", "anna:wrong-word@"])
async def test_a_wrong_password_of_redis_is_told(guarded, user):
    store = open_store(f"redis://{user}127.0.0.1:{guarded}/0")
    with pytest.raises(StoreError, match="password in its address") as raised:
        await store.open()
    assert "wrong-word" not in f"{raised.value}{store!r}"


async def test_a_redis_that_is_not_there_is_told(tmp_path):
    store = open_store(f"unix://{tmp_path}/redis.sock")
    with pytest.raises(StoreError, match="Check that Redis runs there"):
        await store.open()


@pytest.mark.full
async def test_a_redis_that_goes_away_is_told_and_found_again():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    store = open_store(f"redis://127.0.0.1:{port}")
    with redis_server("--port", port):
        await store.open()
        await add_turn(store, "c1", "a question")
    with pytest.raises(StoreError, match="Check that Redis runs"):
        await add_turn(store, "c1", "another")
    with redis_server("--port", port):
        assert await store.get(OWNER, "c1") is None  # this server keeps nothing
        await add_turn(store, "c1", "a third")
    await store.aclose()


@pytest.mark.full
async def test_keys_of_another_version_are_left_alone(redis_address):
    from redis.asyncio import Redis

    async with Redis.from_url(redis_address, decode_responses=True) as client:
        await client.flushall()
        await client.set("nbagent:format", "2")
        store = open_store(redis_address)
        with pytest.raises(ConfigurationError, match="Update nbagent"):
            await store.open()
        assert await client.keys("*") == ["nbagent:format"]


@pytest.mark.full
async def test_all_that_may_expire_has_a_ttl_in_redis(redis_address):
    from redis.asyncio import Redis

    store = open_store(redis_address, ttl_s=600, lease_s=60, answer_ttl_s=600)
    async with Redis.from_url(redis_address, decode_responses=True) as client:
        await client.flushall()
        await store.open()
        await add_turn(store, "c1", "a question")
        await store.save(OWNER, Spent(), answer=Answer("key", "f", "body"))
        facts = {"conversation_id": "c1", "run_id": "r1", "tool": "t", "arguments": {}, "created": 0.0}
        await store.ask(Approval(id="a1", owner=OWNER, expires=4e9, **facts))
        async with store.turn(OWNER, "c1"):
            lives = {key: await client.pttl(key) for key in await client.keys("*")}
    forever = {key for key, life in lives.items() if life == -1}
    assert forever == {"nbagent:format", f"nbagent:{{{OWNER}}}:spent"}
    kinds = {key.split(":")[2] for key in lives.keys() - forever}
    assert kinds == {
        "conversation",
        "messages",
        "conversations",
        "tickets",
        "leases",
        "answer",
        "approval",
        "approvals",
    }
    await store.aclose()
