"""A map in a process that is killed, again and again, and goes on where it was; two processes share a checkpoint."""

import asyncio
import os
import random
import sqlite3

import pandas as pd
from support.mapping import RowServer, agent_for, mapper, questions

from nbagent import read_checkpoint

#: How often a process is killed while it maps.
KILLS = int(os.environ.get("NBAGENT_KILLS", "4"))
#: Rows that are asked in the life of a process, on average.
PER_LIFE = 20
CONCURRENCY = 8


def without_times(frame):
    return frame.drop(columns=["seconds", "run_id"])


def check_file(path):
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


async def killed_after(server, process, count, moment):
    """Kill the process once it has asked so many rows more, and `moment` pieces of other work were done since."""
    loop, reached = asyncio.get_running_loop(), asyncio.Event()

    def kill_in(moment):
        if moment:
            loop.call_soon(kill_in, moment - 1)
        else:
            process.kill()
            reached.set()

    def count_down(_):
        nonlocal count
        count -= 1
        if count == 0:
            kill_in(moment)

    server.on_asked = count_down
    await reached.wait()
    server.on_asked = str
    await asyncio.to_thread(process.wait)


async def test_a_map_that_is_killed_again_and_again_asks_each_row_once(tmp_path):
    chance = random.Random(16)
    rows = (KILLS + 1) * PER_LIFE
    data, path = questions(rows), tmp_path / "map.sqlite"
    asked_again = 0
    async with RowServer() as server:
        for _ in range(KILLS):
            before = len(server.asked)
            known = set(read_checkpoint(path)["question"]) if path.exists() else set()
            with mapper(server.url, path, rows, CONCURRENCY) as process:
                await killed_after(server, process, chance.randint(1, PER_LIFE), chance.randint(0, 40))
            asked = server.asked[before:]
            kept = set(read_checkpoint(path)["question"])
            assert len(asked) == len(set(asked)), "a process asks a row once"
            assert not known & set(asked), "a row that is kept is not asked again"
            lost = set(asked) - kept
            assert len(lost) <= CONCURRENCY, "what was under way, and no more"
            asked_again += len(lost)
        resumed = await agent_for(server.url).map(data, checkpoint=path, concurrency=CONCURRENCY)
        assert len(server.asked) == rows + asked_again
        assert set(server.asked) == set(data)
        assert len(read_checkpoint(path)) == rows
        check_file(path)
        unbroken = await agent_for(server.url).map(data, concurrency=CONCURRENCY)
    pd.testing.assert_frame_equal(without_times(resumed), without_times(unbroken))
    assert (resumed["status"] == "ok").all()


async def test_two_processes_share_a_checkpoint(tmp_path):
    path, rows = tmp_path / "map.sqlite", 60
    async with RowServer() as server:
        with mapper(server.url, path, rows, 4) as one, mapper(server.url, path, rows, 4) as other:
            right = await asyncio.gather(*(asyncio.to_thread(each.stdout.readline) for each in (one, other)))
            ended = await asyncio.gather(*(asyncio.to_thread(each.wait) for each in (one, other)))
        assert (right, ended) == ([f"{rows}\n"] * 2, [0, 0])
        assert len(read_checkpoint(path)) == rows
        assert len(server.asked) <= 2 * rows
        check_file(path)
        asked = len(server.asked)
        frame = await agent_for(server.url).map(questions(rows), checkpoint=path)
        assert len(server.asked) == asked
    assert (frame["status"] == "ok").all()
