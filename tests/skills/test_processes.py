"""Commands of skills with limits: each one ends, and leaves no process behind."""

import asyncio
import os
import sys
import threading
import time

import psutil
import pytest

from nbagent.core.threads import run_in_thread
from nbagent.errors import ToolError
from nbagent.skills.processes import ProcessLimits, run_limited

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
#: Marks the processes of a test among all of the machine.
MARK = f"nbagent-test-{os.getpid()}"


def run(tmp_path, code, stdin=b"", **limits):
    (tmp_path / "work").mkdir(exist_ok=True)
    command = [sys.executable, "-c", code, MARK]
    return run_limited(
        "it", command, cwd=tmp_path / "work", stdin=stdin, limits=ProcessLimits(**{"seconds": 20, **limits})
    )


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    end = time.monotonic() + 10  # some may still be ending
    while left := [each for each in psutil.process_iter() if MARK in _words(each)]:
        assert time.monotonic() < end, left


def _words(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_command_returns_its_output(tmp_path):
    code = "import sys; print(sys.stdin.read()); print('oh', file=sys.stderr); sys.exit(3)"
    done = run(tmp_path, code, stdin=b"hello")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hello\n", "oh\n")


def test_a_memory_limit(tmp_path):
    code = "data = []\nwhile True: data.append(bytearray(b'x' * 10_000_000))"
    with pytest.raises(ToolError, match="it was stopped: it used more than 100 MB of memory"):
        run(tmp_path, code, memory_mb=100)


def test_child_processes_end_with_the_command(tmp_path):
    code = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', {MARK!r}])"
    assert run(tmp_path, code).returncode == 0


def test_an_output_limit(tmp_path):
    with pytest.raises(ToolError, match="it printed more than 10,000 bytes") as refused:
        run(tmp_path, "while True: print('x' * 1000)", output_bytes=10_000)
    assert len(str(refused.value)) < 2_000


def test_the_environment_has_no_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("ACME_API_KEY", "sk-secret-0123456789")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    done = run(tmp_path, "import os; print(sorted(os.environ), os.environ['TMPDIR'])")
    assert "ACME_API_KEY" not in done.stdout
    assert "LC_ALL" in done.stdout
    assert str(tmp_path / "work") in done.stdout


def test_cancellation_kills_the_command(tmp_path):
    """A cancelled run raises in the waiting thread."""
    started = tmp_path / "work/started"
    code = f"import pathlib, time\npathlib.Path({str(started)!r}).touch()\ntime.sleep(60)"

    async def cancelled():
        task = asyncio.create_task(run_in_thread(run, tmp_path, code))
        while not started.exists():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    while any(MARK in _words(each) for each in psutil.process_iter()):
        threading.Event().wait(0.05)
