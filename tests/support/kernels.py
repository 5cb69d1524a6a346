"""A real Jupyter kernel for tests: run cells, watch what they publish, interrupt them.

The kernel runs this Python, or the one that the environment variable NBAGENT_TEST_KERNEL names (older hosts). Where it
can, it is forked (see `support.forked_kernels`), which takes a seventh of the CPU time of a start.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import zmq
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from support.forked_kernels import METADATA

#: In seconds; generous, for busy machines.
TIMEOUT = 300.0

#: Runs first in each kernel: a provider whose pace a test controls through a file.
PRELUDE = '''
import asyncio, os, time
import nbagent
from nbagent import Agent, FunctionCall, LLMProvider, LLMResponse, ScriptedProvider, tool
from nbagent.core.events import Text

class Gated(LLMProvider):
    """Says `first`, waits until a file exists (or forever), says `second`."""
    provider_name, model_name = "scripted", "gated"
    def __init__(self, first, second, gate=None): self.first, self.second, self.gate = first, second, gate
    def supports_function_calling(self): return True
    async def chat(self, messages, functions=None, temperature=None, **kwargs): raise AssertionError
    async def stream(self, request):
        yield Text(self.first)
        while self.gate is None or not os.path.exists(self.gate):
            await asyncio.sleep(0.01)
        yield Text(self.second)
        yield LLMResponse(self.first + self.second, None, "stop")
'''


#: A tool that needs approval, and its calls.
WIPE = """
wiped = []
@tool(approve=True)
def wipe(table: str, rows: int = 1) -> str:
    '''Delete rows.'''
    wiped.append((table, rows))
    return f'{rows} gone'
call = FunctionCall('wipe', {'table': 'cities', 'rows': 3}, 'c')
"""


def python() -> str:
    return os.environ.get("NBAGENT_TEST_KERNEL", sys.executable)


def write_spec(folder: Path) -> None:
    """Write the spec of a kernel named `tested` below this folder, which may be on JUPYTER_PATH."""
    spec = folder / "kernels" / "tested"
    spec.mkdir(parents=True)
    argv = [python(), "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": argv, "display_name": "tested", "language": "python", "metadata": METADATA}
    (spec / "kernel.json").write_text(json.dumps(about))


@dataclass
class Cell:
    """A cell that was sent, with its messages so far and its reply."""

    msg_id: str
    messages: list[dict] = field(default_factory=list)
    reply: dict | None = None

    def of(self, *types: str) -> list[dict]:
        return [m["content"] for m in self.messages if m["msg_type"] in types]

    @property
    def displays(self) -> list[dict]:
        """All mimebundles, first displays and updates, in order."""
        return [c["data"] for c in self.of("display_data", "update_display_data")]

    @property
    def shown(self) -> list[dict]:
        """What is visible below the cell: the last mimebundle of each display, in the order of the displays."""
        latest: dict = {}
        for message in self.messages:
            content = message["content"]
            display_id = content.get("transient", {}).get("display_id") or object()
            is_update = message["msg_type"] == "update_display_data" and display_id in latest  # else of another cell's
            if message["msg_type"] == "display_data" or is_update:
                latest[display_id] = content["data"]
        return list(latest.values())

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (bundle.get("text/plain") for bundle in self.shown)))

    @property
    def html(self) -> str:
        return "".join(bundle.get("text/html", "") for bundle in self.shown)

    def _stream(self, name: str) -> str:
        return "".join(c["text"] for c in self.of("stream") if c["name"] == name)

    stdout = property(lambda self: self._stream("stdout"))
    stderr = property(lambda self: self._stream("stderr"))
    status = property(lambda self: self.reply["content"]["status"])
    error = property(lambda self: self.reply["content"]["ename"])

    @property
    def result(self) -> str:
        return "".join(c["data"]["text/plain"] for c in self.of("execute_result"))

    @property
    def traceback(self) -> str:
        return "\n".join(self.reply["content"].get("traceback", []))


class Kernel:
    """Starts with `with Kernel(tmp_path) as kernel:`; the extension is loaded and PRELUDE has run."""

    def __init__(self, folder: Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
        write_spec(folder)
        specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")])
        # not TCP: another test process could take the ports before the kernel does
        self._sockets = TemporaryDirectory(prefix="kernel")
        where = {"transport": "ipc", "ip": f"{self._sockets.name}/socket"}
        self._manager = KernelManager(kernel_name="tested", kernel_spec_manager=specs, **where)
        self._start = {"env": {**os.environ, "IPYTHONDIR": str(folder / "ipython"), **(env or {})}, "cwd": cwd}
        self._patience = TIMEOUT
        self._poller = zmq.Poller()
        self.forget()

    def __enter__(self) -> Kernel:
        self._manager.start_kernel(**self._start)
        self.client = self._manager.client()
        self.client.start_channels()
        for channel in (self.client.iopub_channel, self.client.shell_channel):
            self._poller.register(channel.socket, zmq.POLLIN)
        while not self._published:  # what a kernel publishes before it knows who reads is lost
            assert self._manager.is_alive()
            self.client.kernel_info()
            self._collect()
        first = self.ok(f"%load_ext nbagent\n{PRELUDE}\n__import__('ipykernel').version_info[0] >= 7")
        #: Whether clicks arrive while a cell runs.
        self.takes_clicks = first.result == "True"
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        self._manager.shutdown_kernel()  # not killed, so that its coverage is written
        self._sockets.cleanup()

    def send(self, code: str, allow_stdin: bool = True, cell_id: str | None = None) -> Cell:
        """Queue a cell, with this id in its notebook, and return at once."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": allow_stdin, "stop_on_error": False}
        metadata = {"cellId": cell_id} if cell_id else {}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        cell = self._cells[message["header"]["msg_id"]] = Cell(message["header"]["msg_id"])
        return cell

    def run(self, code: str, **options: Any) -> Cell:
        return self.wait(self.send(code, **options))

    def ok(self, code: str | Cell, **options: Any) -> Cell:
        """Run a cell, or wait for one that was sent; it must succeed."""
        cell = self.wait(code) if isinstance(code, Cell) else self.run(code, **options)
        assert cell.status == "ok", cell.traceback
        return cell

    def value(self, code: str) -> Any:
        """The value of an expression whose repr is a literal."""
        return ast.literal_eval(self.ok(code).result)

    def widget(self, cell: Cell, **state: object) -> str:
        """Wait until the cell has created a widget with this state, and return the id of its comm."""

        def found() -> list[str]:
            opened = [content for content in cell.of("comm_open") if content["target_name"] == "jupyter.widget"]
            return [c["comm_id"] for c in opened if state.items() <= c["data"]["state"].items()]

        self.until(cell, found)
        return found()[-1]

    def widgets(self) -> dict[str, dict]:
        """The states of all widgets by comm, as a front end builds them from the messages."""
        for message in self._published[self._read :]:
            content = message["content"]
            data = content.get("data", {})
            if message["msg_type"] == "comm_open" and content["target_name"] == "jupyter.widget":
                self._widgets[content["comm_id"]] = dict(data["state"])
            elif message["msg_type"] == "comm_msg" and data.get("method") in ("update", "echo_update"):
                self._widgets.setdefault(content["comm_id"], {}).update(data["state"])
        self._read = len(self._published)
        return self._widgets

    def told(self, comm_id: str) -> list[dict]:
        """What the kernel has sent to a widget's script, in this order."""
        sent = [m["content"] for m in self.messages() if m["msg_type"] == "comm_msg"]
        return [c["data"]["content"] for c in sent if c["comm_id"] == comm_id and c["data"]["method"] == "custom"]

    def messages(self) -> list[dict]:
        """All that the kernel has published, in this order, also in answer to something other than a cell."""
        return self._published

    @property
    def elsewhere(self) -> list[dict]:
        """The messages that answer something other than a cell, such as a click."""
        return [m for m in self._published if m["parent_header"].get("msg_id") not in self._cells]

    def tell(self, comm_id: str, buffers: Sequence[bytes] = (), **data: object) -> None:
        """Send what a front end sends for a widget: `method="update", state={…}` or `method="custom", content={…}`."""
        message = self.client.session.msg("comm_msg", {"comm_id": comm_id, "data": data})
        channel = self.client.shell_channel
        self.client.session.send(channel.socket, message, buffers=list(buffers))

    def forget(self) -> None:
        """Forget all messages so far, so that a test finds its own ones."""
        self._cells: dict[str, Cell] = {}
        self._published: list[dict] = []
        #: How many of these messages `_widgets` holds, and the states that they make.
        self._read = 0
        self._widgets: dict[str, dict] = {}

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def wait(self, cell: Cell) -> Cell:
        """Wait until the cell has ended: it has its reply, and the kernel is idle."""
        idle = {"execution_state": "idle"}
        return self.until(cell, lambda: cell.reply is not None and idle in cell.of("status"))

    def until(self, cell: Cell, condition) -> Cell:
        """Collect messages until the condition holds."""
        deadline = time.monotonic() + self._patience
        while not condition():
            if time.monotonic() > deadline:
                waited, self._patience = self._patience, TIMEOUT / 10  # what held it may hold all tests of the file
                raise TimeoutError(f"after {waited} s: {cell.messages[-3:]}")
            self._collect()
        return cell

    def settle(self) -> None:
        """Read what follows at once: widgets change one after another. An answer may stream, so not for long."""
        for _ in range(20):
            if not self._collect(30):
                break

    def _collect(self, wait_ms: int = 100) -> bool:
        """Wait a moment for a message, and read all that have come. Whether there were any."""
        ready = self._poller.poll(wait_ms)
        for channel, _ in ready:
            while (message := self.client.session.recv(channel)[1]) is not None:
                self._keep(message, channel is self.client.shell_channel.socket)
        return bool(ready)

    def _keep(self, message: dict, is_reply: bool) -> None:
        cell = self._cells.get(message["parent_header"].get("msg_id"))
        if is_reply:
            if cell is not None:
                cell.reply = message
            return
        self._published.append(message)
        if cell is not None:
            cell.messages.append(message)
