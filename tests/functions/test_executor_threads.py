"""Threads, time limits, cancellation and the main thread."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest
from support.tool_runs import executor_of, run

from nbagent.core.threads import DaemonThreads
from nbagent.errors import ToolTimeoutError
from nbagent.functions import executor as executor_module

# -- threads and time -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["executor", "tool"])
async def test_the_time_limit_of_a_sync_tool(where, caplog):
    started, release = threading.Event(), threading.Event()

    def slow():
        started.set()
        release.wait(30)

    settings = {"timeout": 0.05} if where == "executor" else {"options": {"timeout": 0.05}}
    task = asyncio.create_task(run(executor_of(slow, **settings), "slow"))
    await asyncio.sleep(0)
    assert started.wait(30)  # blocks this loop, so the call starts within the limit
    try:
        outcome = await task
    finally:
        release.set()
    assert isinstance(outcome.error, ToolTimeoutError)
    assert "slow did not return within 0.05 s. Native code keeps running in its thread, nbagent-" in outcome.content
    assert "did not return within" in caplog.text


async def test_the_time_limit_of_an_async_tool():
    begun, ended = [], []

    async def slow():
        begun.append(True)
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(True)

    outcome = await run(executor_of(slow, timeout=0.05, options={"retries": 3}), "slow")
    assert outcome.content == (
        "Error: slow did not return within 0.05 s. @tool(timeout=60) or Limits(tool_seconds=60) gives it more time."
    )
    assert begun == ended == [True]  # it was not retried


@pytest.fixture
def _untraced(monkeypatch):
    """Tools run in threads without a tracer, as coverage has one: what is traced is not interrupted."""
    before = threading.gettrace()
    threading.settrace(None)
    monkeypatch.setattr(executor_module, "run_in_thread", DaemonThreads("untraced", interrupts=True).run)
    yield
    threading.settrace(before)


@pytest.mark.usefixtures("_untraced")
@pytest.mark.parametrize("ends", ["cancelled", "time limit"])
async def test_a_sync_tool_is_interrupted_in_its_thread(ends):
    begun, interrupted = threading.Event(), threading.Event()

    def spin():
        begun.set()
        try:
            while True:
                time.sleep(0.001)
        except KeyboardInterrupt:
            interrupted.set()
            raise

    executor = executor_of(spin, timeout=60 if ends == "cancelled" else 0.2)
    task = asyncio.create_task(run(executor, "spin"))
    assert await asyncio.to_thread(begun.wait, 60)
    if ends == "cancelled":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        assert "Native code" not in (await task).content
    assert interrupted.is_set()
    assert (await run(executor_of(lambda: "next"))).value == "next"


def test_a_process_ends_while_a_tool_still_runs():
    code = (
        "import asyncio, time\n"
        "from nbagent.functions.registry import FunctionRegistry\n"
        "from nbagent.functions.executor import ToolExecutor\n"
        "registry = FunctionRegistry()\n"
        "registry.register('slow', '', lambda: time.sleep(600))\n"
        "print(asyncio.run(ToolExecutor(registry, timeout=0.05).execute('slow')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "ToolTimeoutError: slow did not return" in done.stderr


# -- the main thread --------------------------------------------------------------------------------------------------
