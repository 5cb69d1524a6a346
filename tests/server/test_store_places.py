"""Where conversations are kept: addresses, files of other programs, full disks, and a Redis that is gone."""

import asyncio
import logging
import socket
import sqlite3
import stat

import pytest
from support.redis_server import redis_server
from support.store_turns import OWNER, add_turn

from nbagent.core import sqlite_file
from nbagent.errors import ConfigurationError, StoreError
from nbagent.server.conversations import sqlite
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
        ("some/where.db", "some/where.db"),
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


@pytest.mark.parametrize("address", ["", "memory", "sqlite:///", "sqlite://x.db", "mysql://anna:pass-word@host/x", 5])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ConfigurationError, match="store: expected") as raised:
        open_store(address)
    assert "pass-word" not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    [
        "redis://anna:pass-word@localhost:port/0",
        "redis://anna:pass-word@localhost:99999999/0",
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


# -- SQLite -----------------------------------------------------------------------------------------------------------


async def test_only_its_owner_can_read_the_file(tmp_path):
    store = SQLiteStore(tmp_path / "c.sqlite")
    await store.open()
    await add_turn(store, "c1", "a question")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    await store.aclose()
    assert modes == dict.fromkeys(["c.sqlite", "c.sqlite-wal", "c.sqlite-shm"], 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["c.sqlite"]


async def test_conversations_stay_in_the_file(tmp_path):
    for number in range(2):
        store = SQLiteStore(tmp_path / "c.sqlite")
        await store.open()
        await add_turn(store, "c1", str(number))
        await store.aclose()
    store = SQLiteStore(tmp_path / "c.sqlite")
    await store.open()
    assert (await store.get(OWNER, "c1")).message_count == 8
    await store.aclose()


def database_of_another_program(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE precious (x)")
    database.close()


def database_in_wal_mode(path):
    database_of_another_program(path)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
    database.close()


def database_of_a_newer_version(path):
    asyncio.run(opened_and_closed(path))
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {sqlite.FORMAT.version + 1}")
        database.execute("PRAGMA journal_mode = DELETE")
    database.close()


async def opened_and_closed(path):
    store = SQLiteStore(path)
    await store.open()
    await store.aclose()


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (database_of_another_program, "Name another one"),
        (database_in_wal_mode, "Name another one"),
        (database_of_a_newer_version, "Update nbagent"),
        (lambda path: path.write_text("name,age\nanna,5\n"), "Name another one"),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), "Name another one"),
        (lambda path: path.touch(), "Name another one"),
    ],
)
def test_a_file_of_another_program_stays_as_it_is(tmp_path, made, told):
    path = tmp_path / "c.sqlite"
    made(path)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=told):
            asyncio.run(opened_and_closed(path))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["c.sqlite"]


@pytest.mark.parametrize("path", [".", "missing/c.sqlite"])
async def test_a_place_without_a_file_is_told(tmp_path, path):
    with pytest.raises(ConfigurationError, match="not a file|directory"):
        await opened_and_closed(tmp_path / path)


async def test_many_can_make_the_file_at_once(tmp_path):
    stores = [SQLiteStore(tmp_path / "c.sqlite") for _ in range(16)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(add_turn(store, "c1", str(number)) for number, store in enumerate(stores)))
    assert (await stores[0].get(OWNER, "c1")).message_count == 64
    for store in stores:
        await store.aclose()


async def test_a_full_disk_is_told_and_takes_nothing(tmp_path):
    store = SQLiteStore(tmp_path / "c.sqlite")
    await store.open()
    await add_turn(store, "c1", "before")
    await store._in_thread(lambda database: database.execute("PRAGMA max_page_count = 1"))
    with pytest.raises(StoreError, match="disk is full"):
        await add_turn(store, "c1", "long " * 100_000)
    await store._in_thread(lambda database: database.execute("PRAGMA max_page_count = 1000000"))
    assert (await store.get(OWNER, "c1")).message_count == 4
    assert (await store.spent(OWNER)).tokens == 1
    await add_turn(store, "c1", "after")
    await store.aclose()


async def test_a_file_that_another_program_locks_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "BUSY_S", 0.05)
    store = SQLiteStore(tmp_path / "c.sqlite")
    await store.open()
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        await store.save(OWNER, Spent(1.0))
    assert await store.spent(OWNER) == Spent()  # reading goes on
    other.close()
    await store.save(OWNER, Spent(1.0))
    await store.aclose()


async def test_a_message_that_another_program_changed_is_told(tmp_path):
    store = SQLiteStore(tmp_path / "c.sqlite")
    await store.open()
    await add_turn(store, "c1", "a question")
    for body in ("{", '{"role": "nobody", "content": ""}', "[" * 100_000):
        with sqlite3.connect(store.path) as database:
            database.execute("UPDATE messages SET body = ? WHERE number = 0", (body,))
        database.close()
        with pytest.raises(StoreError, match="another program"):
            await store.get(OWNER, "c1")
    await store.aclose()


async def test_the_file_forgets_what_expired(tmp_path):
    store = SQLiteStore(tmp_path / "c.sqlite", ttl_s=0.05, answer_ttl_s=0.05)
    await store.open()
    for number in range(5):
        await add_turn(store, f"c{number}", str(number))
    await asyncio.sleep(0.06)
    await store.save(OWNER, Spent())
    for table in ("conversations", "messages", "answers", "tickets"):
        rows = await store._in_thread(
            lambda database, table=table: database.execute(f"SELECT * FROM {table}").fetchall()
        )
        assert rows == []
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
