"""Many runs in a row, ended in every way: the history stays valid, the trace complete, and nothing is left behind."""

import asyncio
import random
import threading

import pytest

from nbagent import Agent, FunctionCall, ScriptedProvider
from nbagent.core.history.repair import repair
from nbagent.errors import RateLimitError


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def slow() -> str:
    """Takes its time."""
    await asyncio.sleep(0.005)
    return "done"


def turn(rng):
    """What the model does next, at random."""
    return rng.choice(
        [
            "one two three",
            "one two three",
            FunctionCall("add", {"a": 1, "b": 2}, "c1"),
            [FunctionCall("add", {"a": 1, "b": 2}, "c1"), FunctionCall("slow", {}, "c2")],
            FunctionCall("add", {"a": "many"}, "c1"),
            FunctionCall("missing", {}, "c1"),
            RateLimitError("no"),
        ]
    )


@pytest.mark.parametrize("runs", [150, pytest.param(1_000, marks=pytest.mark.full)])
async def test_many_runs_leave_a_valid_history_and_nothing_else(runs):
    rng = random.Random(7)
    agent = Agent(ScriptedProvider(lambda messages, functions: turn(rng)), tools=[add, slow])
    tasks, threads = len(asyncio.all_tasks()), None
    ends = {"ok": 0, "limit": 0, "error": 0, "interrupted": 0}
    for _ in range(runs):
        running = asyncio.create_task(agent.chat("go", max_iterations=4))
        if rng.random() < 0.3:
            await asyncio.sleep(rng.random() * 0.005)
            running.cancel()
        try:
            ends[(await running).status] += 1
        except RateLimitError:
            ends["error"] += 1
        except asyncio.CancelledError:
            ends["interrupted"] += 1
        assert repair(agent.conversation_history) == agent.conversation_history
        threads = threads or threading.active_count()
    assert all(ends.values()), f"each way to end is met: {ends}"
    statuses = agent.trace.runs["status"].value_counts().to_dict()
    assert {name: statuses.get(name, 0) for name in ("ok", "limit", "error")} == {
        name: ends[name] for name in ("ok", "limit", "error")
    }
    assert statuses["running"] == 0
    assert agent.trace.tool_calls["is_error"].notna().all()
    assert len(asyncio.all_tasks()) == tasks
    assert threading.active_count() <= threads + 8  # another is made where the last one is not yet done with its job
    assert not agent.trace.recorder.open_runs
