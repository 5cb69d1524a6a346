"""Starting, sharing and ending the processes that serve GGUF models (`server_process.py`), from the kernel's side."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import os
import platform
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nbagent.errors import LocalModelError, missing_extra

#: Seconds to wait for a process that could not load its model; it ends by itself.
EXIT_TIMEOUT_S = 5
#: More threads than this do not speed up any model that fits a notebook's machine.
MAX_THREADS = 8
#: Exit statuses of a process that met an instruction its processor lacks: the signal, and Windows' status.
_ILLEGAL_INSTRUCTION = (-signal.SIGILL, 0xC000001D)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server process is started with; providers with equal settings share one process."""

    path: str
    name: str
    n_ctx: int
    threads: int


class LlamaServer:
    """A running server process with one model. The constructor blocks until the model is loaded."""

    def __init__(self, settings: ServerSettings) -> None:
        from pydantic import SecretStr

        self.secret = SecretStr(secrets.token_urlsafe(24))
        #: The providers that use this process.
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
            [sys.executable, "-P", str(Path(__file__).with_name("server_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=os.name != "nt",  # the stop button signals the kernel's whole process group
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
            | getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        try:
            self.address = self._wait_for_address(settings)
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process; it holds nothing that needs saving."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def raise_if_broken(self) -> None:
        """Raise `LocalModelError` if an illegal instruction ended the process: a new one would end the same way."""
        if self._process.poll() in _ILLEGAL_INSTRUCTION:
            raise _engine_error(self._exit_reason())

    def _exit_reason(self) -> str:
        """How the process ended, in words. It has closed its output, so waiting for it is short."""
        status = self._process.wait()
        with contextlib.suppress(ValueError):
            return f"its process was ended by {signal.Signals(-status).name}"
        return f"its process ended with status {status:#x}"

    def _read_report(self) -> dict[str, Any]:
        """The next line that the process reports; empty if it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {}

    def _wait_for_address(self, settings: ServerSettings) -> str:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the process has already ended: the report below is empty
            first_line = {**asdict(settings), "key": self.secret.get_secret_value()}
            self._process.stdin.write(json.dumps(first_line).encode() + b"\n")
            self._process.stdin.flush()
        imported = self._read_report()
        if "imported" not in imported:
            raise _engine_error(imported.get("broken") or self._exit_reason())
        loaded = self._read_report() or {"error": self._exit_reason()}
        if "address" in loaded:
            return str(loaded["address"])
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_TIMEOUT_S)  # after that its log is complete
        self.raise_if_broken()
        self._log.seek(0)
        log = self._log.read().decode("utf-8", "replace").splitlines()
        errors = [line.split(" E ")[-1] for line in log if " E " in line]
        raise LocalModelError(
            f"llama.cpp can't load {Path(settings.path).name}: {errors[0] if errors else loaded['error']}. Check that "
            "the file is a complete GGUF model and fits into memory."
        )


_servers: dict[ServerSettings, LlamaServer] = {}
_loading = threading.Lock()


def check_installed() -> None:
    """Raise `MissingDependencyError` without xllamacpp."""
    if importlib.util.find_spec("xllamacpp") is None:
        otherwise = f", or use a model with a key, if xllamacpp has no wheel for {platform.platform()}"
        raise missing_extra("The embedded model", "local", otherwise)


def shared_server(settings: ServerSettings, user: Any) -> LlamaServer:
    """The running process with these settings, else a new one, which now has this user. Blocks while it loads."""
    check_installed()
    with _loading:
        server = _servers.get(settings)
        if server is None or not server.alive:
            if server is not None:
                server.end()
            end_unused()
            server = LlamaServer(settings)
        server.users.add(user)  # before others can see it without users, and end it
        _servers[settings] = server
        return server


def end_unused(all_of_them: bool = False) -> None:
    """End the processes that no provider uses any more, or all of them."""
    for settings, server in list(_servers.items()):
        if all_of_them or not server.users:
            _servers.pop(settings, None)
            server.end()


atexit.register(end_unused, all_of_them=True)


def available_processors() -> int:
    """The processors that this process may use (its affinity, and its container's quota), less one.

    llama.cpp's threads wait for each other at every step without sleeping: if one of them shares its processor with
    other work, all of them wait for it, and an answer takes minutes instead of seconds.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            count = min(count, max(1, round(int(quota) / int(period))))
    return max(1, min(count - 1, MAX_THREADS))


def _engine_error(reason: str) -> LocalModelError:
    return LocalModelError(
        f"llama.cpp (the package xllamacpp) does not run on this machine, {platform.platform()}: {reason}. Its wheel "
        "is built for another processor or system. Install another one: pip install --force-reinstall xllamacpp (or "
        "build it: --no-binary xllamacpp), use another machine, or use a model with a key (NBAGENT_MODEL)."
    )
