"""The queue of an agent's runs."""

import asyncio

import pytest

from nbagent.core.queue import QueueEntry, RunQueue


async def test_a_cancelled_waiter_does_not_block_the_queue():
    queue = RunQueue()
    first, last = QueueEntry(queue), QueueEntry(queue)
    await first.enter()
    waiting = asyncio.create_task(QueueEntry(queue).enter())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    first.leave()
    await asyncio.wait_for(last.enter(), 60)
    assert queue.entries == [last]
