"""Conversations in a SQLite file: content, expiry, locks and full disks."""

import asyncio
import sqlite3
import time
from types import SimpleNamespace

import pytest
from support.store_turns import OWNER, add_turn

from nbagent.errors import StoreError
from nbagent.server.conversations.sqlite import SQLiteStore
from nbagent.server.conversations.store import Decision, Spent, WaitingCall
from nbagent.store import sqlite_file


@pytest.fixture
async def store(tmp_path):
    store = SQLiteStore(tmp_path / "c.sqlite")
    await store.open()
    yield store
    await store.aclose()


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until a test sets it."""
    clock = SimpleNamespace(now=1e9)
    monkeypatch.setattr(time, "time", lambda: clock.now)
    return clock


async def rows(store, query):
    return await store._in_thread(lambda database: database.execute(query).fetchall())


def approval_until(expires, name="a1"):
    facts = {
        "conversation_id": "c1",
        "run_id": "r1",
        "tool_call_id": "call_1",
        "tool": "t",
        "arguments": {},
        "created": 0.0,
    }
    return WaitingCall(id=name, owner=OWNER, expires=expires, **facts)


async def test_many_processes_can_create_the_file_at_once(tmp_path):
    stores = [SQLiteStore(tmp_path / "c.sqlite") for _ in range(16)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(add_turn(store, "c1", str(number)) for number, store in enumerate(stores)))
    assert (await stores[0].get(OWNER, "c1")).message_count == 64
    for store in stores:
        await store.aclose()


async def test_a_full_disk_is_reported_and_loses_nothing(store):
    await add_turn(store, "c1", "before")
    await store._in_thread(lambda database: database.execute("PRAGMA max_page_count = 1"))
    with pytest.raises(StoreError, match="disk is full"):
        await add_turn(store, "c1", "long " * 100_000)
    await store._in_thread(lambda database: database.execute("PRAGMA max_page_count = 1000000"))
    assert (await store.get(OWNER, "c1")).message_count == 4
    assert (await store.spent(OWNER)).tokens == 1
    await add_turn(store, "c1", "after")


async def test_a_file_locked_by_another_program_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "BUSY_S", 0.05)
    store = SQLiteStore(tmp_path / "c.sqlite")
    await store.open()
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        await store.save(OWNER, Spent(1.0))
    assert await store.spent(OWNER) == Spent()  # reading still works
    other.close()
    await store.save(OWNER, Spent(1.0))
    await store.aclose()


# -- what it writes ---------------------------------------------------------------------------------------------------


async def test_expired_data_is_deleted_from_the_file(store, clock):
    store.ttl_s = store.answer_ttl_s = 60
    for number in range(5):
        await add_turn(store, f"c{number}", str(number))
    await store.ask(approval_until(clock.now + 60))
    clock.now += 61
    await add_turn(store, "new", "a question")
    await store.ask(approval_until(clock.now + 60, "new"))
    assert await rows(store, "SELECT id FROM conversations") == [("new",)]
    assert await rows(store, "SELECT DISTINCT conversation_id FROM messages") == [("new",)]
    assert await rows(store, "SELECT name FROM notes") == [("answer:a question",), ("approval:new",)]
    assert await rows(store, "SELECT * FROM leases") == []


async def test_unexpired_data_stays_in_the_file(store, clock):
    await add_turn(store, "c1", "a question")
    clock.now += 1e9
    await add_turn(store, "c2", "another")
    assert await rows(store, "SELECT id FROM conversations") == [("c1",), ("c2",)]


async def test_data_that_must_survive_a_power_failure_is_synced(store):
    said, loop = [], asyncio.get_running_loop()
    await loop.run_in_executor(store._thread, store._database.set_trace_callback, said.append)
    await store.ask(approval_until(time.time() + 600))
    for work in (store.save(OWNER, Spent()), store.decide(OWNER, "a1", Decision(True)), store.delete(OWNER, "c1")):
        said.clear()
        await work
        writing = said.index("PRAGMA synchronous = FULL")
        assert said[writing : writing + 2] == ["PRAGMA synchronous = FULL", "BEGIN IMMEDIATE"]
