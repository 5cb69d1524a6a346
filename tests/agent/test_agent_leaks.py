"""Interrupted runs leave nothing behind: no task, no thread, no open socket and no error in the log, over real HTTP."""

import asyncio
import gc
import random
import threading
import time
from contextlib import suppress

import psutil
import pytest
from support.property_tools import registry
from support.property_vendors import CASES, Step, Wish

from nbagent import Agent
from nbagent.core.background import background_loop
from nbagent.errors import ProviderError

#: httpx, and both SDKs.
WAYS = ["open_source vllm", "openai responses", "claude"]
TOOLS = str.split("add wait fail hang block draw")


class Runs:
    """One agent and its runs, each interrupted somewhere."""

    def __init__(self, agent, vendors, seed):
        self.agent, self.vendors, self.rng = agent, vendors, random.Random(seed)
        self.loop = asyncio.new_event_loop()

    def plan(self, last=()):
        """Some rounds with tools, and what may come last."""
        rounds = [
            Step(thinks=self.rng.random() < 0.3, calls=tuple(map(Wish, self.rng.sample(TOOLS, k=2), ['{"a": 1}'] * 2)))
            for _ in range(self.rng.randint(0, 3))
        ]
        return self.vendors.question([*rounds, *last])[1]

    def cancelled(self):
        """At any moment, also while nothing more comes."""

        async def cancel():
            task = asyncio.create_task(self.agent.chat(self.plan([Step(trouble="stall")])))
            await asyncio.wait([task], timeout=self.rng.choice([0, 0.001, 0.003, 0.01]))
            task.cancel()
            await task

        self.loop.run_until_complete(cancel())

    def left(self):
        """By a `break`. What was dropped is closed by its event loop."""

        async def read():
            async for _ in self.agent.chat_stream(self.plan()):
                if self.rng.random() < 0.15:
                    break
            async with asyncio.timeout(300):
                while "running" in {row["status"] for row in self.agent.trace.rows("runs")}:
                    await asyncio.sleep(0.001)

        self.loop.run_until_complete(read())

    def left_plainly(self):
        """By a `break` out of a plain `for`."""
        for _ in self.agent.chat_stream(self.plan()):
            if self.rng.random() < 0.15:
                break

    def stopped(self):
        """By Ctrl-C in a tool, while others of its turn run."""
        calls = tuple(map(Wish, ["wait", "hang", "block", "stop"]))
        self.agent.chat_sync(self.plan([Step(calls=calls)]))

    def broken(self):
        """By trouble that lasts."""
        self.agent.chat_sync(self.plan([Step(trouble="end")] * 2))


def sockets():
    """Connections that this process holds; listening sockets aside."""
    return sum(each.status != psutil.CONN_LISTEN for each in psutil.Process().net_connections("tcp"))


def until(holds):
    """Wait for what happens by itself, and soon."""
    end = time.monotonic() + 300
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
        gc.collect()
    return holds()


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_interrupted_runs_leave_nothing_behind(vendors, monkeypatch, caplog, way):
    monkeypatch.setattr("nbagent.providers.http.retry.FIRST_WAIT_S", 0.001)
    sockets_before, threads_before = sockets(), set(threading.enumerate())
    provider = vendors.provider(CASES[f"{way}, streaming"], max_retries=1)
    agent = Agent(provider, registry(lambda: None), "You help.")
    interrupted = Runs(agent, vendors, seed=11)
    runs = 70  # a leak of every run shows after nine
    for _ in range(runs):
        run = interrupted.rng.choice([Runs.cancelled, Runs.left, Runs.left_plainly, Runs.stopped, Runs.broken])
        with suppress(asyncio.CancelledError, KeyboardInterrupt, ProviderError):
            run(interrupted)
        # on either event loop, both ends of a connection: one that is kept, one that is being closed
        assert until(lambda: sockets() - sockets_before <= 8)
        if len(agent.conversation_history) > 40:
            agent.clear_history()
    loop = interrupted.loop
    assert loop.run_until_complete(agent.chat(vendors.question()[1])).status == "ok"
    statuses = agent.trace.runs["status"].value_counts()
    assert statuses["interrupted"] > runs / 3
    assert statuses["running"] == 0

    loop.run_until_complete(asyncio.sleep(0))
    assert not asyncio.all_tasks(loop)
    assert until(lambda: not asyncio.all_tasks(background_loop()))
    loop.run_until_complete(agent.aclose())
    agent.close()
    assert until(lambda: sockets() <= sockets_before)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    names = [thread.name for thread in set(threading.enumerate()) - threads_before]
    idle = [name for name in names if name.startswith("nbagent-tool-")]
    resolvers = [name for name in names if name.startswith("asyncio_")]  # of the background loop, which lives on
    assert set(names) - {*idle, *resolvers} <= {"nbagent-loop"}
    assert len(idle) <= 32, "as many as ran at once, and blocked ones run on"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
