"""The threads of sync tools: started as needed, reused, ended when idle."""

import asyncio
import os
import subprocess
import sys
import threading
from unittest.mock import ANY

import pytest

from nbagent import Agent, FunctionCall, Limits, ScriptedProvider
from nbagent.core import threads
from nbagent.core.threads import DaemonThreads, max_tool_threads
from nbagent.errors import ConfigurationError
from nbagent.functions import executor


def names(prefix):
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]


async def test_each_waiting_job_has_a_thread():
    pool = DaemonThreads("many", lambda: 100)
    barrier = threading.Barrier(100)
    assert sorted(await asyncio.gather(*[pool.run(barrier.wait, 30) for _ in range(100)])) == list(range(100))
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("many"))


async def test_threads_are_limited_and_further_jobs_wait():
    pool, gate, begun = DaemonThreads("few", lambda: 2), threading.Event(), []

    def work(number):
        begun.append((number, threading.current_thread()))
        gate.wait(30)
        return number

    tasks = [asyncio.create_task(pool.run(work, number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    await asyncio.wait([tasks[3]])
    assert {number for number, _ in begun} <= {0, 1}
    gate.set()
    assert await asyncio.gather(*tasks, return_exceptions=True) == [0, 1, 2, ANY, 4]
    assert sorted(number for number, _ in begun) == [0, 1, 2, 4]
    assert len({thread for _, thread in begun}) == 2


def test_the_environment_sets_the_number_of_tool_threads(monkeypatch):
    assert threads.max_tool_threads() == 64
    monkeypatch.setenv("NBAGENT_TOOL_THREADS", "8")
    assert threads.max_tool_threads() == 8
    for wrong in ("0", "many", "-1", "1.5"):
        monkeypatch.setenv("NBAGENT_TOOL_THREADS", wrong)
        with pytest.raises(ConfigurationError, match=f"NBAGENT_TOOL_THREADS: expected .*{wrong}"):
            threads.max_tool_threads()


@pytest.fixture
def _one_thread(monkeypatch):
    """One new thread for tools."""
    monkeypatch.setenv("NBAGENT_TOOL_THREADS", "1")
    monkeypatch.setattr(executor, "run_in_thread", DaemonThreads("one", max_tool_threads).run)


@pytest.mark.usefixtures("_one_thread")
async def test_a_tool_without_a_free_thread_reports_it():
    gate, turns = threading.Event(), [[FunctionCall("wait", {}, "c1"), FunctionCall("wait", {}, "c2")], "done"]

    def wait() -> bool:
        """Wait."""
        return gate.wait(30)

    agent = Agent(ScriptedProvider(turns), tools=[wait], limits=Limits(tool_seconds=0.1))
    said = [call["result"] for call in (await agent.chat("go")).function_calls]
    gate.set()
    assert "until it ends. @tool(timeout=60)" in said[0]
    assert "It did not start, because 1 others are running. Raise NBAGENT_TOOL_THREADS" in said[1]


@pytest.mark.usefixtures("_one_thread")
async def test_tools_that_call_other_agents_leave_threads_for_their_tools():

    def inner() -> str:
        """Work."""
        return "worked"

    def ask() -> str:
        """Call another agent."""
        asked = Agent(ScriptedProvider([FunctionCall("inner", {}, "c1"), "end"]), tools=[inner]).chat_sync("go")
        return asked.function_calls[0]["result"]

    turns = [[FunctionCall("ask", {}, "c1"), FunctionCall("ask", {}, "c2")], "done"]
    result = await Agent(ScriptedProvider(turns), tools=[ask]).chat("go")
    assert [call["result"] for call in result.function_calls] == ["worked", "worked"]


async def test_values_and_exceptions():
    pool = DaemonThreads("values")
    assert await pool.run(divmod, 7, 5) == (1, 2)
    for error in (ValueError("x"), asyncio.CancelledError("x")):
        with pytest.raises(type(error), match="x"):
            await pool.run(lambda error=error: (_ for _ in ()).throw(error))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exceptions_that_end_a_process_reach_the_caller_but_not_the_thread(error):
    pool = DaemonThreads("ending")

    def end():
        raise error

    with pytest.raises(error):
        asyncio.run(pool.run(end))
    assert asyncio.run(pool.run(lambda: 1)) == 1
    assert "ending-1" in names("ending")


async def test_idle_threads_end_and_new_ones_start(monkeypatch):
    monkeypatch.setattr(threads, "IDLE_S", 0.01)
    pool = DaemonThreads("idle")
    assert await pool.run(lambda: 1) == 1
    for thread in threading.enumerate():
        if thread.name.startswith("idle"):
            thread.join(30)
    assert names("idle") == []
    assert await pool.run(lambda: 2) == 2


async def test_a_thread_survives_a_job_that_is_cancelled_while_it_runs():
    pool = DaemonThreads("running")
    begun, go_on = threading.Event(), threading.Event()

    def work():
        begun.set()
        return go_on.wait(30)

    task = asyncio.create_task(pool.run(work))
    await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    go_on.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await pool.run(lambda: 2) == 2


def test_a_job_may_outlive_its_event_loop():
    pool = DaemonThreads("outliving")
    go_on, over = threading.Event(), threading.Event()

    def work():
        go_on.wait(30)
        over.set()

    async def leave():
        asyncio.create_task(pool.run(work))  # noqa: RUF006  cancelled with its loop, which is the point
        await asyncio.sleep(0)

    asyncio.run(leave())
    go_on.set()
    assert over.wait(30)
    assert asyncio.run(pool.run(lambda: 3)) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_starts_its_own_threads():
    code = (
        "import asyncio, os\n"
        "from nbagent.core.threads import DaemonThreads\n"
        "pool = DaemonThreads('forked')\n"
        "assert asyncio.run(pool.run(lambda: 1)) == 1\n"
        "if os.fork() == 0:\n"
        "    os._exit(asyncio.run(pool.run(lambda: 2)))\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "2", done.stderr


async def test_a_call_that_is_cancelled_before_it_starts_never_runs(monkeypatch):
    monkeypatch.setattr("nbagent.core.threads.GRACE_S", 600.0)
    pool, submitted, ran = DaemonThreads("late", interrupts=True), [], []
    monkeypatch.setattr(pool, "_submit", lambda job, *_: submitted.append(job))
    task = asyncio.create_task(pool.run(ran.append, "never"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    submitted[0]()
    await asyncio.wait({task}, timeout=60)
    assert (task.cancelled(), ran) == (True, [])


# -- tracers: in separate processes, because an interrupt that waits for native code delays them ----------------------

NO_INTERRUPT_IN_A_TRACER = """
import asyncio, sys, threading
from nbagent.core.threads import DaemonThreads

pool = DaemonThreads("traced", interrupts=True)
begun, go_on, ended = (threading.Event() for _ in range(3))

def work():
    begun.set()
    go_on.wait(30)
    print("traced to its end:", sys.gettrace() is not None)
    ended.set()

async def main():
    threading.settrace(lambda *about: None)
    task = asyncio.create_task(pool.run(work))
    await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait([task])
    await asyncio.to_thread(ended.wait, 30)
    print("cancelled:", task.cancelled())

asyncio.run(main())
"""

TRACED_AFTER_AN_INTERRUPT = """
import asyncio, sys, threading, time
from nbagent.core.threads import DaemonThreads

pool, traced, begun = DaemonThreads("interrupted", interrupts=True), DaemonThreads("traced"), threading.Event()

def work():
    begun.set()
    while True:
        time.sleep(0.001)

async def main():
    task = asyncio.create_task(pool.run(work))
    await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    await asyncio.wait([task])
    await traced.run(sys.settrace, lambda *about: None)
    print("goes on:", await traced.run(lambda: 7))

asyncio.run(main())
"""


def said_by(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    return done.stderr or done.stdout


def test_no_interrupt_hits_a_tracer():
    """It may have a lock, which it would never release."""
    assert said_by(NO_INTERRUPT_IN_A_TRACER) == "traced to its end: True\ncancelled: True\n"


def test_a_traced_thread_continues_after_another_was_interrupted():
    """In CPython 3.11, withdrawing an interrupt would block traced threads forever."""
    assert said_by(TRACED_AFTER_AN_INTERRUPT) == "goes on: 7\n"
