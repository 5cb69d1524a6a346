"""A map continues after its process is killed, and two processes share a checkpoint."""

import asyncio
import sqlite3

import pytest
from support.mapping import RowServer, agent_for, mapper, questions

from nbagent import read_checkpoint

ROWS, CONCURRENCY = 40, 8


def is_whole(path):
    database = sqlite3.connect(path)
    (answer,) = database.execute("PRAGMA integrity_check").fetchone()
    database.close()
    return answer == "ok"


@pytest.mark.full
async def test_a_map_that_is_killed_repeatedly_sends_each_row_once(tmp_path):
    data, path, kept = questions(ROWS), tmp_path / "map.sqlite", set()
    asked_again = 0
    async with RowServer() as server:
        for until in (10, 30):
            before, enough = len(server.asked), asyncio.Event()
            server.on_asked = lambda _, until=until, enough=enough: len(server.asked) < until or enough.set()
            with mapper(server.url, path, ROWS, CONCURRENCY) as process:
                await enough.wait()
                process.kill()
                await asyncio.to_thread(process.wait)
            asked = server.asked[before:]
            assert len(asked) == len(set(asked)), "each process sends a row once"
            assert not kept & set(asked), "a saved row is not sent again"
            kept = set(read_checkpoint(path)["question"])
            lost = set(asked) - kept
            assert len(lost) <= CONCURRENCY, "only the rows in progress"
            asked_again += len(lost)
        resumed = await agent_for(server.url).map(data, checkpoint=path, concurrency=CONCURRENCY)
    assert len(server.asked) == ROWS + asked_again
    assert set(server.asked) == set(data)
    assert resumed["answer"].tolist() == [f"The answer to {question}." for question in data]
    assert len(read_checkpoint(path)) == ROWS
    assert is_whole(path)


async def test_two_processes_share_a_checkpoint(tmp_path):
    path = tmp_path / "map.sqlite"
    async with RowServer() as server:
        with mapper(server.url, path, ROWS, 4) as one, mapper(server.url, path, ROWS, 4) as other:
            right = await asyncio.gather(*(asyncio.to_thread(each.stdout.readline) for each in (one, other)))
            ended = await asyncio.gather(*(asyncio.to_thread(each.wait) for each in (one, other)))
        assert (right, ended) == ([f"{ROWS}\n"] * 2, [0, 0])
        asked = len(server.asked)
        frame = await agent_for(server.url).map(questions(ROWS), checkpoint=path)
        assert len(server.asked) == asked <= 2 * ROWS
    assert (frame["status"] == "ok").all()
    assert is_whole(path)
