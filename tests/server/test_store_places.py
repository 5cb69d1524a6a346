"""The addresses of stores, and a Redis that is not available."""

import logging
import socket

import pytest
from support.redis_server import redis_server
from support.store_turns import OWNER, add_turn

from nbagent.errors import ConfigurationError, StoreError
from nbagent.server.conversations.opening import open_store
from nbagent.server.conversations.redis import RedisStore
from nbagent.server.conversations.sqlite import SQLiteStore

PASSWORD = "pass-word@of/the tests?"
ENCODED = "pass-word%40of%2Fthe%20tests%3F"


# -- addresses --------------------------------------------------------------------------------------------------------


def test_addresses():
    for address, path in (
        ("conversations.sqlite", "conversations.sqlite"),
        ("sqlite:///conversations.any", "conversations.any"),
        ("sqlite:////srv/conversations.sqlite", "/srv/conversations.sqlite"),
    ):
        store = open_store(address, ttl_s=5)
        assert isinstance(store, SQLiteStore)
        assert (str(store.path), store.ttl_s) == (path, 5)
    for address in ("redis://localhost:6379/0", "rediss://localhost", "unix:///run/redis.sock"):
        assert isinstance(open_store(address), RedisStore)


def test_invalid_addresses_are_refused():
    for address in ("", "sqlite:///", "mysql://anna:pass-word@host/x", 5):
        with pytest.raises(ConfigurationError, match="store: expected") as raised:
            open_store(address)
        assert "pass-word" not in str(raised.value)


@pytest.mark.parametrize("host", ["localhost:port/0", "localhost:6379/0?unknown=1"])
async def test_an_invalid_redis_address_is_reported_without_its_password(host):
    store = open_store(f"redis://anna:pass-word@{host}")
    with pytest.raises(ConfigurationError, match="redis://user:password@host") as raised:
        await store.open()
    assert "pass-word" not in f"{raised.value}{store!r}"
    assert raised.value.__cause__ is None
    await store.aclose()


# -- Redis ------------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.mark.full
async def test_the_redis_password_is_never_shown(caplog):
    caplog.set_level(logging.DEBUG)
    port = free_port()
    with redis_server("--port", port, "--requirepass", PASSWORD):
        store = open_store(f"redis://:{ENCODED}@127.0.0.1:{port}/0")
        await store.open()
        await add_turn(store, "c1", "a question")
        await store.aclose()
        assert repr(store) == f"RedisStore('redis://127.0.0.1:{port}/0')"
        assert PASSWORD not in caplog.text
        assert ENCODED not in caplog.text
        for user in ("", "anna:wrong-word@"):
            store = open_store(f"redis://{user}127.0.0.1:{port}/0")
            with pytest.raises(StoreError, match="password in its address") as raised:
                await store.open()
            assert "wrong-word" not in f"{raised.value}{store!r}"


async def test_a_missing_redis_is_reported(tmp_path):
    store = open_store(f"unix://{tmp_path}/redis.sock")
    with pytest.raises(StoreError, match="Check that Redis is running there"):
        await store.open()


@pytest.mark.full
async def test_a_lost_redis_is_reported_and_reconnected():
    port = free_port()
    store = open_store(f"redis://127.0.0.1:{port}")
    with redis_server("--port", port):
        await store.open()
        await add_turn(store, "c1", "a question")
    with pytest.raises(StoreError, match="Check that Redis is running"):
        await add_turn(store, "c1", "another")
    with redis_server("--port", port):
        assert await store.get(OWNER, "c1") is None  # this server stores nothing
        await add_turn(store, "c1", "a third")
    await store.aclose()
