"""Starts, shares and ends the processes that serve GGUF models (`server_process.py`)."""

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbagent.errors import LocalModelError, missing_extra

#: More threads do not speed up any model that fits on a notebook's machine.
MAX_THREADS = 8


class LlamaServer:
    """A running server process with one model.

    The constructor blocks until the model is loaded and has run once. This run fails if the processor lacks
    instructions that llama.cpp needs.
    """

    def __init__(self, path: str, name: str, n_ctx: int) -> None:
        from pydantic import SecretStr

        self.secret = SecretStr(secrets.token_urlsafe(24))
        #: The providers that use this process.
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()
        #: The number of waiting prompts, including the one being answered.
        self.prompts = 0
        self._path = path
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
            [sys.executable, "-P", str(Path(__file__).with_name("server_process.py"))],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=os.name != "nt",  # the stop button signals the kernel's whole process group
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
            | getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            settings = {"path": path, "name": name, "n_ctx": n_ctx, "threads": _available_processors()}
            settings["key"] = self.secret.get_secret_value()
            with contextlib.suppress(OSError):  # the process has already ended
                self._process.stdin.write(json.dumps(settings).encode() + b"\n")
            self.address = self._process.stdout.readline().decode().strip()
            if not self.address:
                raise self._failure()
        except BaseException:
            self.end()
            raise

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Count a prompt while it waits or is being answered."""
        self.prompts += 1
        try:
            yield
        finally:
            self.prompts -= 1

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process at once, since it has nothing to save."""
        with self._process:
            self._process.kill()
        self._log.close()

    def _failure(self) -> LocalModelError:
        """The reason why the process ended. Waits for the end, when the log is complete."""
        status = self._process.wait()
        self._log.seek(0)
        lines = [f"its process ended with status {status}", *self._log.read().decode("utf-8", "replace").splitlines()]
        with contextlib.suppress(ValueError):
            lines.append(f"its process was ended by {signal.Signals(-status).name}")
        errors = [line.split(" E ")[-1] for line in lines if " E " in line]  # llama.cpp's: the first is the cause
        reason = errors[0] if errors else lines[-1]
        return LocalModelError(
            f"llama.cpp can't load {Path(self._path).name}: {reason}. If the file is a complete GGUF model and fits "
            f"into memory, this build of llama.cpp does not run on {platform.platform()}. Install another one (pip "
            "install --force-reinstall xllamacpp), or build it here (--no-binary xllamacpp). Or use a model with a key "
            "(NBAGENT_MODEL)."
        )


#: The running processes, and a lock to start only one at a time.
_servers: dict[tuple[str, str, int], LlamaServer] = {}
_loading = threading.Lock()


def check_installed() -> None:
    """Raise `MissingDependencyError` if xllamacpp is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        otherwise = f", or use a model with a key, if xllamacpp has no wheel for {platform.platform()}"
        raise missing_extra("The embedded model", "local", otherwise)


def shared_server(path: str, name: str, n_ctx: int, user: Any) -> LlamaServer:
    """Find or start a process with this model file, and add `user` to its users. Blocks while the model loads."""
    check_installed()
    with _loading:
        server = _servers.get((path, name, n_ctx))
        if server is None or not server.alive:
            if server is not None:
                server.end()
            end_unused()
            server = LlamaServer(path, name, n_ctx)
        server.users.add(user)  # first, or another thread could end it as unused
        _servers[path, name, n_ctx] = server
        return server


def end_unused(all_of_them: bool = False) -> None:
    """End the processes that no provider uses, or all processes."""
    for key, server in list(_servers.items()):
        if all_of_them or not server.users:
            _servers.pop(key, None)
            server.end()


atexit.register(end_unused, all_of_them=True)


def _available_processors() -> int:
    """The number of processors that this process may use (by affinity and container quota), less one.

    llama.cpp's threads busy-wait for each other at every step. If one of them shares its processor with other work, all
    of them wait, and an answer takes minutes instead of seconds.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            count = min(count, max(1, round(int(quota) / int(period))))
    return max(1, min(count - 1, MAX_THREADS))
