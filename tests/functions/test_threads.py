"""The threads of sync tools: made as needed, used again, gone when idle."""

import os
import subprocess
import sys
import threading

import pytest

from nbagent.functions import threads
from nbagent.functions.threads import DaemonThreads


def names(prefix):
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(prefix)]


def test_each_waiting_job_has_a_thread():
    pool = DaemonThreads("many")
    barrier = threading.Barrier(100)
    futures = [pool.submit(barrier.wait) for _ in range(100)]
    assert sorted(future.result(30) for future in futures) == list(range(100))
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("many"))


def test_values_and_exceptions():
    pool = DaemonThreads("values")
    assert pool.submit(lambda: 5).result(30) == 5
    for error in (ValueError("x"), KeyboardInterrupt(), SystemExit()):
        with pytest.raises(type(error)):
            pool.submit(lambda error=error: (_ for _ in ()).throw(error)).result(30)


def test_idle_threads_end_and_new_ones_come(monkeypatch):
    monkeypatch.setattr(threads, "IDLE_S", 0.01)
    pool = DaemonThreads("idle")
    assert pool.submit(lambda: 1).result(30) == 1
    for thread in threading.enumerate():
        if thread.name.startswith("idle"):
            thread.join(30)
    assert names("idle") == []
    assert pool.submit(lambda: 2).result(30) == 2


def test_a_job_cancelled_before_it_began_does_not_run():
    pool = DaemonThreads("cancelled")
    ran = []
    future = threads.Future()
    future.cancel()
    threads._run(future, lambda: ran.append(1))
    assert ran == []
    assert pool.submit(lambda: 1).result(30) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_threads_of_its_own():
    code = (
        "import os\n"
        "from nbagent.functions.threads import DaemonThreads\n"
        "pool = DaemonThreads('forked')\n"
        "assert pool.submit(lambda: 1).result(30) == 1\n"
        "if os.fork() == 0:\n"
        "    os._exit(pool.submit(lambda: 2).result(30))\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "2", done.stderr
