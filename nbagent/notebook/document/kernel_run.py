"""Runs code as a cell of this kernel, and returns its outputs instead of showing them in the running cell.

IPython runs the code like any cell: with history, `Out`, magics, top-level `await` and plots. The code's outputs belong
to a request that no page has sent, so no page shows them. This module subscribes to the kernel's IOPub channel, as
pages do, and collects the outputs (https://jupyter-client.readthedocs.io/en/stable/messaging.html).
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from nbagent.chat.throttle import Throttle
from nbagent.core.background import await_on_main
from nbagent.core.current import Current, context_with
from nbagent.core.interrupting import GRACE_S
from nbagent.core.tool_output import as_on_terminal
from nbagent.notebook.document.cell import OURS
from nbagent.notebook.kernel_tools.alarm import CellTimeoutError, alarm

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient
    from jupyter_client.connect import KernelConnectionInfo

#: Characters that are kept of consecutive text on one stream.
STREAM_CHARS = 1_000_000
#: Our message on IOPub after all outputs of a request. Pages ignore unknown types.
_END = "nbagent_end"
#: Seconds between two test messages until the subscription works.
_AGAIN_S = 0.05

Output = dict[str, Any]


class KernelRunner:
    """Runs cells in a shell, one at a time.

    >>> outputs, _ = await KernelRunner(get_ipython()).run("1 + 1", "a1", seconds=60)   # doctest: +SKIP
    >>> outputs[0]["data"]["text/plain"]                                                # doctest: +SKIP
    '2'
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._listener: _Listener | None = None
        #: Acquired only on the kernel's loop.
        self._running = asyncio.Lock()

    async def run(
        self,
        source: str,
        cell_id: str,
        seconds: float,
        on_outputs: Callable[[list[Output]], None] | None = None,
        session: str = "",
    ) -> tuple[list[Output], int | None]:
        """Run code on the main thread as the cell `cell_id`, and wait until it ends. Returns the cell's outputs and its
        execution count.

        `on_outputs` is called with all outputs so far, at most 15 times a second, and at the end. The code is stopped
        after `seconds`, or when this call is cancelled. The notebook's stop button stops the code and cancels the
        caller. If the kernel is busy with another cell, the code starts when that cell awaits something or ends.
        """
        loop = asyncio.get_running_loop()
        if self._listener is None:
            self._listener = await asyncio.to_thread(_Listener, self._shell.kernel)
        request = self._shell.kernel.session.msg("execute_request", {"code": source, "allow_stdin": False})
        request["metadata"] = {"cellId": cell_id, OURS: session}
        ended, outputs = asyncio.Event(), Outputs()

        def tell() -> int:
            if on_outputs is not None:
                on_outputs(outputs.copy())
            return 0

        throttle = Throttle(tell)

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] == _END:
                loop.call_soon_threadsafe(ended.set)
            else:
                outputs.add(message)
                loop.call_soon_threadsafe(throttle.request)

        with self._listener.hearing(request["header"]["msg_id"], hear):
            cell = _CellRun(self._shell, source, request, seconds)
            try:
                await await_on_main(partial(cell.run, self._running), cell.stop)
            finally:
                self._listener.end(request)
                await ended.wait()
                if cell.late is not None:
                    outputs.end_with(cell.late)
                tell()
        if cell.is_interrupted:
            raise asyncio.CancelledError
        return outputs.copy(), cell.execution_count


class _CellRun:
    """One run of a cell on the main thread."""

    def __init__(self, shell: Any, source: str, request: dict[str, Any], seconds: float) -> None:
        self._shell, self._source, self._request, self._seconds = shell, source, request, seconds
        self.execution_count: int | None = None
        #: Whether the user pressed Stop.
        self.is_interrupted = False
        #: The error of an exceeded time limit.
        self.late: CellTimeoutError | None = None

    async def run(self, turn: asyncio.Lock) -> None:
        """Run the code as a separate cell that belongs to no agent's run."""
        async with turn:
            context = context_with(**Current()._asdict())
            task = asyncio.get_running_loop().create_task(self._run(), context=context)
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait({task}, timeout=GRACE_S)
                raise
            task.result()

    def stop(self) -> None:
        """Interrupt it from any thread, as Ctrl-C does."""
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)

    async def _run(self) -> None:
        shell, kernel = self._shell, self._shell.kernel
        before, ident, asks = kernel.get_parent(), kernel._parent_ident["shell"], kernel._allow_stdin
        kernel.set_parent(ident, self._request)
        kernel._allow_stdin = False  # no page would show the prompt of `input()`
        # while a cell runs, older versions of IPython would give its number to the next one
        shell.execution_count = max(shell.execution_count, len(shell.history_manager.input_hist_raw))
        try:
            with self._stoppable():
                result = await self._run_code()
            shell.events.trigger("post_execute")
            shell.events.trigger("post_run_cell", result)
            self.execution_count = result.execution_count
        except (KeyboardInterrupt, CellTimeoutError):  # not in the code itself
            pass
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            kernel._allow_stdin = asks
            kernel.set_parent(ident, before)

    async def _run_code(self) -> Any:
        problem = None
        try:
            code = self._shell.transform_cell(self._source)
        except Exception:  # noqa: BLE001  a transformer may raise anything; IPython reports it below
            code, problem = self._source, sys.exc_info()
        return await self._shell.run_cell_async(
            self._source, store_history=True, transformed_cell=code, preprocessing_exc_tuple=problem
        )

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """In this block, the stop button and the time limit raise an error in the code, or cancel it if it awaits."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(error: BaseException) -> None:
            if asyncio.current_task(loop) is task:
                raise error
            loop.call_soon_threadsafe(task.cancel)  # also wakes the loop

        def on_interrupt(*_: object) -> None:
            self.is_interrupted = True
            stop(KeyboardInterrupt())

        def on_timeout() -> None:
            self.late = CellTimeoutError(f"the cell was stopped: it ran longer than {self._seconds:g} s")
            stop(self.late)

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            with alarm(self._seconds, on_timeout):
                yield
        finally:
            signal.signal(signal.SIGINT, before)


class Outputs:
    """Collects the outputs of one cell from IOPub messages. One thread adds the messages, and any other thread can read
    the outputs.
    """

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._displays: dict[str, list[Output]] = {}
        self._clears = False
        self._lock = threading.Lock()

    def add(self, message: dict[str, Any]) -> None:
        """Add one IOPub message. Messages without outputs change nothing."""
        content, kind = message["content"], message["msg_type"]
        with self._lock:
            if kind == "clear_output":
                self._clears = content["wait"]
                if not self._clears:
                    self._clear()
                return
            if kind == "update_display_data":
                for output in self._displays.get(content["transient"]["display_id"], ()):
                    output |= {"data": content["data"], "metadata": content["metadata"]}
                return
            if kind not in ("stream", "display_data", "execute_result", "error"):
                return
            if self._clears:
                self._clear()
            last = self._outputs[-1] if self._outputs else {}
            if kind == "stream" and last.get("name") == content["name"]:
                more = content["text"][: max(0, STREAM_CHARS - len(last["text"]))]
                last["text"] = as_on_terminal(last["text"][:STREAM_CHARS] + more)
                return
            output = {"output_type": kind, **{key: value for key, value in content.items() if key != "transient"}}
            if kind == "stream":
                output["text"] = as_on_terminal(output["text"])
            self._outputs.append(output)
            if display_id := content.get("transient", {}).get("display_id"):
                self._displays.setdefault(display_id, []).append(output)

    def end_with(self, error: BaseException) -> None:
        """Add this error at the end. If the code raised an error, replace that error."""
        name, text = type(error).__name__, str(error)
        with self._lock:
            if self._outputs and self._outputs[-1]["output_type"] == "error":
                self._outputs.pop()
            output = {"output_type": "error", "ename": name, "evalue": text, "traceback": [f"{name}: {text}"]}
            self._outputs.append(output)

    def copy(self) -> list[Output]:
        """A copy of the outputs so far."""
        with self._lock:
            return deepcopy(self._outputs)

    def _clear(self) -> None:
        self._outputs.clear()
        self._displays.clear()
        self._clears = False


class _Listener:
    """Receives the messages that this kernel publishes. Once created, it misses none."""

    def __init__(self, kernel: Any) -> None:
        from ipykernel.connect import get_connection_info
        from jupyter_client.blocking.client import BlockingKernelClient

        self._kernel = kernel
        self._hearers: dict[str, Callable[[dict[str, Any]], None]] = {}
        client: BlockingKernelClient = BlockingKernelClient()
        client.load_connection_info(cast("KernelConnectionInfo", get_connection_info(unpack=True)))
        client.iopub_channel.start()
        threading.Thread(target=self._listen, args=(client,), name="nbagent-iopub", daemon=True).start()
        begun, request = threading.Event(), kernel.session.msg("execute_request", {})
        with self.hearing(request["header"]["msg_id"], lambda _: begun.set()):
            while not begun.wait(_AGAIN_S):  # messages before the subscription are lost
                self.end(request)

    @contextmanager
    def hearing(self, msg_id: str, hear: Callable[[dict[str, Any]], None]) -> Iterator[None]:
        """In this block, `hear` is called in a thread with the messages that belong to a request."""
        self._hearers[msg_id] = hear
        try:
            yield
        finally:
            del self._hearers[msg_id]

    def end(self, request: dict[str, Any]) -> None:
        """Publish that a request has no further outputs."""
        self._kernel.session.send(self._kernel.iopub_socket, _END, {}, parent=request)

    def _listen(self, client: BlockingKernelClient) -> None:
        while True:
            message = client.get_iopub_msg()
            if hear := self._hearers.get(message["parent_header"].get("msg_id", "")):
                hear(message)
