"""Runs one command under limits, and stops it with everything that it started. Runs by itself, as its own process.

It imports the standard library and psutil only. Its first argument is JSON: `{"command", "stdin", "stdout", "stderr",
"status", "cwd", "writable", "seconds", "memory_mb", "processes", "output_bytes"}`. Its standard input stays open as
long as the command is wanted: when it closes, also because the process at its other end died, the command is stopped.
What became of the command is in the file `status`: `{"exit_code", "refused", "confined"}`.

The limits do not make a sandbox. The command can read what its user can, and use the network. On Linux with Landlock it
can write only below the folders of `writable`; elsewhere `confined` is false, and it can write what its user can. On
Linux, processes that leave its session are found all the same, and on other systems as long as their parents live.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

POLL_S = 0.03
#: Address space and threads beyond what is counted: interpreters map far more than they use.
ADDRESS_SPACE_FACTOR, MORE_THREADS = 4, 64
MAX_FILE_BYTES, MAX_OPEN_FILES = 256 * 2**20, 512


def main(options: dict[str, Any]) -> None:
    """Run the command to its end, or to a limit."""
    closed = threading.Event()
    confined = _become_subreaper() and landlock_version() > 0
    with (
        open(options["stdin"], "rb") as given,
        open(options["stdout"], "wb") as out,
        open(options["stderr"], "wb") as err,
    ):
        try:
            process = subprocess.Popen(  # noqa: S603  what a person approved
                options["command"],
                stdin=given,
                stdout=out,
                stderr=err,
                cwd=options["cwd"],
                start_new_session=True,
                preexec_fn=(lambda: _restrict(options)) if os.name == "posix" else None,  # noqa: PLW1509  one thread
            )
        except (OSError, subprocess.SubprocessError) as error:
            _report(options, None, f"it could not be started: {error}", confined)
            return
    threading.Thread(target=_wait_for_end_of_input, args=(closed,), daemon=True).start()
    try:
        refused = _watch(process, options, closed)
    finally:
        _kill_all(process)
    _report(options, process.wait(), refused, confined)


def _wait_for_end_of_input(closed: threading.Event) -> None:
    while os.read(0, 1):  # not through `sys.stdin`, whose lock would hold up the end of the interpreter
        pass
    closed.set()


def _watch(process: subprocess.Popen[bytes], options: dict[str, Any], closed: threading.Event) -> str | None:
    """Wait for the end of the command. Returns why it must be stopped, or None."""
    end = time.monotonic() + options["seconds"]
    while process.poll() is None:
        if closed.wait(POLL_S):
            return "it was stopped"
        if time.monotonic() > end:
            return f"it took more than {options['seconds']:g} s"
        family = _family(process.pid)
        if len(family) > options["processes"]:
            return f"it started more than {options['processes']} processes"
        if sum(map(_memory, family)) > options["memory_mb"] * 2**20:
            return f"it took more than {options['memory_mb']} MB of memory"
        if any(os.path.getsize(options[name]) > options["output_bytes"] for name in ("stdout", "stderr")):
            return f"it printed more than {options['output_bytes']:,} bytes"
    return None


def _family(pid: int) -> list[psutil.Process]:
    """The command and its descendants, those too that left its session: this process is their reaper."""
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        for each in psutil.Process().children(recursive=True):
            if each.pid != pid and _has_ended(each):
                with contextlib.suppress(OSError, AttributeError):  # not ours to reap
                    os.waitpid(each.pid, os.WNOHANG)
            else:
                found.append(each)
    return found


def _has_ended(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def _memory(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group, at once, and then whoever left it, until nobody is there."""
    for _ in range(200):
        if os.name == "posix":
            with contextlib.suppress(OSError):
                os.killpg(process.pid, 9)
        family = [each for each in _family(process.pid) if not _has_ended(each)]
        for each in family:
            with contextlib.suppress(psutil.Error):
                each.kill()
        if process.poll() is not None and not family:
            return
        time.sleep(0.01)


def _report(options: dict[str, Any], exit_code: int | None, refused: str | None, confined: bool) -> None:
    status = {"exit_code": exit_code, "refused": refused, "confined": confined}
    Path(options["status"]).write_text(json.dumps(status), encoding="utf-8")


# -- what the command's process does before it becomes the command ----------------------------------------------------


def _restrict(options: dict[str, Any]) -> None:
    import resource

    memory = options["memory_mb"] * 2**20
    limits = {
        resource.RLIMIT_AS: memory * ADDRESS_SPACE_FACTOR,
        resource.RLIMIT_CPU: int(options["seconds"] * options["processes"]) + 1,
        resource.RLIMIT_FSIZE: MAX_FILE_BYTES,
        resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    if os.getuid():  # for root it is not a limit
        limits[resource.RLIMIT_NPROC] = _threads_of_user() + options["processes"] + MORE_THREADS
    for kind, wanted in limits.items():
        hard = resource.getrlimit(kind)[1]
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS refuses some
            resource.setrlimit(kind, (limit, limit))
    if landlock_version() > 0:
        _allow_writing_below(options["writable"])


def _threads_of_user() -> int:
    """RLIMIT_NPROC counts the threads of all processes of the user."""
    uid, count = os.getuid(), 0
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            count += each.num_threads() if each.uids().real == uid else 0
    return count


# -- Linux: https://docs.kernel.org/userspace-api/landlock.html -------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 38, 36
#: Rights to write: write a file, remove and make everything, and since versions 2 and 3 move and truncate.
_WRITE_FILE, _RIGHTS, _MOVE, _TRUNCATE = 1 << 1, sum(1 << bit for bit in (1, *range(4, 13))), 1 << 13, 1 << 14
#: Since version 6: no signals to processes outside.
_SCOPE_SIGNAL = 1 << 1


def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """The version of Landlock that the kernel has; 0 if there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, 0, 1)))


def _become_subreaper() -> bool:
    """Inherit the command's descendants if their parents end."""
    return sys.platform.startswith("linux") and not _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _allow_writing_below(folders: Sequence[str]) -> None:
    """From now on, this process and its children can write only there. Raises OSError."""
    import struct

    libc, version = _libc(), landlock_version()
    rights = _RIGHTS | (_MOVE if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    scoped = _SCOPE_SIGNAL if version >= 6 else 0
    attributes = struct.pack("QQQ", rights, 0, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = _checked(libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    file_rights = rights & (_WRITE_FILE | _TRUNCATE)
    for path, allowed in [*((folder, rights) for folder in folders), (os.devnull, file_rights)]:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", allowed, opened)
        _checked(libc.syscall(_ADD_RULE, ruleset, 1, rule, 0))
        os.close(opened)
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        raise OSError(ctypes.get_errno(), "Landlock refused")
    return result


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
