"""Kernels as forks of one process that has imported what every kernel imports, so that this is paid once.

As a script, this file is that process. It ends with the process that started it: the connection is closed then.
"""

import atexit
import builtins
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import NoReturn

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

#: What many kernels import sooner or later. It must start no threads, and not read what differs between tests.
MODULES = [
    "pandas",
    "matplotlib.figure",
    "markdown_it.main",
    "genai_prices.data",
    "debugpy",
    "nbagent.notebook.extension",
    "nbagent.notebook.panel.panel",
    "nbagent.batch.accessor",
    "nbagent.core.json_schema",
    "nbagent.functions.validation",
    "nbagent.functions.schema.function_schema",
    "nbagent.trace.columns",
    "nbagent.providers.routing.candidates",
    "nbagent.providers.local.server",
    "nbagent.providers.prompting.provider",
    "nbagent.providers.known.openai",
    "nbagent.providers.known.claude",
    "nbagent.providers.known.gemini",
    "nbagent.providers.known.local",
    "nbagent.providers.known.scripted",
    "openai.resources.chat",
    "openai.resources.responses",
    "httpx2",
    "httpx_aiohttp.httpx2",
    "httpcore2",
    "h11",
    "truststore",
    "anyio._backends._asyncio",
    "llmock.pytest_plugin",
    "llmock.testing",
    "llmock.main",
    "uvicorn.main",
    "uvicorn.protocols.http.httptools_impl",
    "websockets.server",
]
#: What matplotlib reads when it is imported; kernels set it where nobody else has.
BACKEND = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}


def can_fork(env: dict[str, str]) -> bool:
    """Where kernels run this Python, with what it has read when it started, and nothing measures their coverage.

    Elsewhere than on Linux, libraries of the system may not survive a fork.
    """

    def read_at_start(variables):
        return {name: value for name, value in variables.items() if name.startswith(("PYTHON", "MPL"))}

    special = "NBAGENT_TEST_KERNEL" in env or "MPLBACKEND" in env or any("COVERAGE_PROCESS" in name for name in env)
    return sys.platform == "linux" and not special and read_at_start(env) == read_at_start(os.environ)


class ForkingProvisioner(LocalProvisioner):
    """Starts a kernel by a fork where that is possible. A kernel's spec names it by its entry in `METADATA`."""

    async def launch_kernel(self, cmd, *, env, cwd=None, **options):
        if not can_fork(env):
            return await super().launch_kernel(cmd, env=env, cwd=cwd, **options)
        self.process = _Fork({"argv": cmd[cmd.index("-f") :], "env": env, "cwd": str(cwd or os.getcwd())})
        self.pid = self.pgid = self.process.pid
        return self.connection_info


METADATA = {"kernel_provisioner": {"provisioner_name": "forking"}}
KernelProvisionerFactory.provisioners["forking"] = EntryPoint(
    "forking", f"{__name__}:{ForkingProvisioner.__name__}", KernelProvisionerFactory.GROUP_NAME
)


class _Fork:
    """As much of `subprocess.Popen` as provisioners use. The connection is open for as long as the kernel lives."""

    stdin = stdout = stderr = None

    def __init__(self, request: dict) -> None:
        self._connection, there = socket.socketpair()
        with there:
            socket.send_fds(_server(), [json.dumps(request).encode()], [there.fileno()])
        with self._connection.makefile() as answer:
            self.pid = int(answer.readline())

    def poll(self) -> int | None:
        return 0 if select.select([self._connection], [], [], 0)[0] else None

    def wait(self) -> int:
        self._connection.recv(1)
        self._connection.close()
        with contextlib.suppress(ProcessLookupError):
            while os.kill(self.pid, 0) is None:  # files are closed a moment earlier
                time.sleep(0.001)
        return 0

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # as Popen does: it may just have ended
            os.kill(self.pid, number)


@functools.cache
def _server() -> socket.socket:
    """The connection with the process that forks, which is started at first use. A request is one message."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-P", "-Xfrozen_modules=off", __file__, str(there.fileno())]
    options = {"stdin": subprocess.DEVNULL, "pass_fds": [there.fileno()], "start_new_session": True}
    server = subprocess.Popen(command, env=os.environ | BACKEND, **options)
    there.close()
    atexit.register(server.wait)
    atexit.register(here.close)
    return here


def _serve(requests: socket.socket) -> None:
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # with whom kernels end; ipykernel reads it when it is imported
    from ipykernel.kernelapp import launch_new_instance

    builtins.get_ipython = lambda: SimpleNamespace(kernel=True)  # pandas asks when it is imported: no terminal is here
    for module in MODULES:
        importlib.import_module(module)
    del builtins.get_ipython
    gc.freeze()  # what is here stays: no kernel needs to look at it, and thus to copy it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who ends is forgotten
    while (received := socket.recv_fds(requests, 2**20, 1))[0]:
        request, (connection,), *_ = received
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # numpy's threads survive a fork
            is_kernel = os.fork() == 0
        if is_kernel:
            requests.close()
            launch_new_instance(argv=_become(json.loads(request), connection))
            _end()
        os.close(connection)


def _become(request: dict, connection: int) -> list[str]:
    """Become the process that was asked for. Returns the arguments of its kernel."""
    os.setsid()
    os.set_inheritable(connection, False)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = os.environ["JPY_PARENT_PID"]
    os.environ.clear()
    os.environ.update(request["env"], JPY_PARENT_PID=parent)
    os.chdir(request["cwd"])
    os.write(connection, b"%d\n" % os.getpid())  # only the system closes it, at the very end
    return [*request["argv"], "--HistoryManager.hist_file=:memory:"]  # kernels of one file would meet there


def _end() -> NoReturn:
    """End as every fork of `multiprocessing` does: what is in memory is not taken apart."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
