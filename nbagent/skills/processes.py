"""Runs skills' commands in separate processes, with limits and without this process's secrets.

This is not a sandbox: a command can read and write whatever its user can, and use the network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from nbagent.core.browser import check_possible
from nbagent.errors import ToolError

_POLL_S = 0.1
#: Seconds allowed for stopping a command, in addition to its limit.
MORE_TIME_S = 15.0
#: The environment variables passed to a command. Others may contain keys.
_PASSED = {
    *str.split("PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM VIRTUAL_ENV CONDA_PREFIX LD_LIBRARY_PATH"),
    *str.split("SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA USERPROFILE PROGRAMFILES"),
}


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits for a skill's command: `memory_mb` for all its processes together, `output_bytes` for each stream."""

    seconds: float = 30.0
    memory_mb: int = 1_024
    output_bytes: int = 16 * 2**20


def run_limited(
    name: str, command: Sequence[str], *, cwd: Path, stdin: bytes = b"", limits: ProcessLimits
) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends, and return its output. Blocks. Raises `ToolError` if it exceeds its limits.

    If this call is interrupted, for example by a KeyboardInterrupt, the command and its child processes are killed.
    """
    check_possible("A skill's program", "another process", "Use skills with a Python entry.")
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        streams: dict[str, Any] = {"stdin": given, "stdout": out, "stderr": err}
        process = subprocess.Popen(  # noqa: S603  approved by a person
            command, **streams, cwd=cwd, env=_environment(cwd), start_new_session=True
        )
        try:
            reason = _watch(process, (out, err), limits)
        finally:
            _kill(process)
        printed = []
        for stream in (out, err):
            stream.seek(0)
            printed.append(stream.read(limits.output_bytes).decode("utf-8", "replace"))
    if reason is not None:
        ends = f"stdout: {printed[0][-1_000:]}\nstderr: {printed[1][-1_000:]}"
        raise ToolError(f"{name} was stopped: {reason}.\n{ends}")
    return subprocess.CompletedProcess(command, process.returncode, *printed)


def run_entry(name: str, call: dict[str, Any], limits: ProcessLimits) -> dict[str, Any]:
    """Call `entry.answer` in a separate process. Blocks. Raises `ToolError` if there is no usable answer."""
    command, stdin = [sys.executable, "-P", "-B", str(Path(__file__).with_name("entry.py"))], json.dumps(call).encode()
    with tempfile.TemporaryDirectory(prefix="nbagent-skill-", ignore_cleanup_errors=True) as folder:
        done = run_limited(name, command, cwd=Path(folder), stdin=stdin, limits=limits)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except (ValueError, RecursionError):
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise ToolError(f"{name} ended with exit code {done.returncode} and no usable answer: {last}") from None
    return found


def _watch(process: subprocess.Popen[bytes], printed: Sequence[IO[bytes]], limits: ProcessLimits) -> str | None:
    """Wait until the command ends. Returns the reason if it must be stopped, else None."""
    import psutil

    end = time.monotonic() + limits.seconds
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
        if any(os.fstat(stream.fileno()).st_size > limits.output_bytes for stream in printed):
            return f"it printed more than {limits.output_bytes:,} bytes"
        if process.returncode is not None:
            return None
        if time.monotonic() > end:
            return f"it took more than {limits.seconds:g} s"
        memory = 0
        for member in _family(process):
            with suppress(psutil.Error):
                memory += member.memory_info().rss
        if memory > limits.memory_mb * 2**20:
            return f"it used more than {limits.memory_mb} MB of memory"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command, its process group, and its children that left the group."""
    import psutil

    family = _family(process)
    if os.name == "posix":
        with suppress(OSError):
            os.killpg(process.pid, 9)
    for member in family:
        with suppress(psutil.Error):
            member.kill()
    process.wait()


def _family(process: subprocess.Popen[bytes]) -> list[Any]:
    """The command and its child processes."""
    import psutil

    with suppress(psutil.Error):
        command = psutil.Process(process.pid)
        return [command, *command.children(recursive=True)]
    return []


def _environment(cwd: Path) -> dict[str, str]:
    passed = {name: value for name, value in os.environ.items() if name.upper() in _PASSED or name.startswith("LC_")}
    own = {"TMPDIR": str(cwd), "TEMP": str(cwd), "TMP": str(cwd), "PYTHONUTF8": "1"}
    return {**passed, **own, "PYDANTIC_DISABLE_PLUGINS": "1"}  # looking for plugins would double the start time
