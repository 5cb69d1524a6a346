"""Several processes share a store: turns never interleave, and a dead process blocks nothing."""

import asyncio
import signal
import sys

import pytest
from support.store_turns import OWNER, add_turn, turn_taker

from nbagent.core.history.repair import repair
from nbagent.server.conversations.opening import open_store
from nbagent.server.conversations.store import Lease


async def questions(store, conversation_id):
    conversation = await store.get(OWNER, conversation_id)
    assert repair(conversation.messages) == list(conversation.messages)
    return [m.text for m in conversation.messages if m.role == "user"]


@pytest.fixture
async def store(place):
    store = open_store(place, lease_s=0.5)
    await store.open()
    yield store
    await store.aclose()


async def test_processes_take_turns_in_one_conversation(place, store):
    with (
        turn_taker("take_turns", place, "c1", "a", "20") as a,
        turn_taker("take_turns", place, "c1", "b", "20") as b,
    ):
        lines = await asyncio.gather(*(asyncio.to_thread(process.stdout.readline) for process in (a, b)))
    assert lines == ["done\n", "done\n"]
    found = await questions(store, "c1")
    for name in ("a", "b"):
        assert [text for text in found if text.startswith(name)] == [f"{name}-{number}" for number in range(20)]
    assert len(found) == 40
    assert (await store.get(OWNER, "c1")).spent == await store.spent(OWNER)
    assert (await store.spent(OWNER)).tokens == 40


async def test_a_paused_process_cannot_overwrite_newer_turns(place, store):
    with turn_taker("hold", place, "c1", lease_s=0.5) as process:
        assert process.stdout.readline() == "holding\n"
        process.send_signal(signal.SIGSTOP)
        await add_turn(store, "c1", "meanwhile")
        process.send_signal(signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "lost\n"
    assert await questions(store, "c1") == ["meanwhile"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks that several processes share")
async def test_the_only_process_on_a_file_takes_over_turns_immediately(tmp_path):
    place = str(tmp_path / "conversations.sqlite")
    with turn_taker("hold", place, "c1", lease_s=600) as other:
        assert other.stdout.readline() == "holding\n"
        with turn_taker("hold", place, "c2", lease_s=600) as process:
            assert process.stdout.readline() == "holding\n"
            process.kill()
            process.wait()
        store = open_store(place, lease_s=600)
        await store.open()  # next to another process, which may hold leases
        assert not await store._take(Lease(OWNER, "conversation:c1", "new"))
        assert not await store._take(Lease(OWNER, "conversation:c2", "new"))
        await store.aclose()
        other.kill()
        other.wait()
    await store.open()
    for name in ("c1", "c2"):
        await add_turn(store, name, f"next in {name}")
        assert await questions(store, name) == [f"next in {name}"]
    await store.aclose()
