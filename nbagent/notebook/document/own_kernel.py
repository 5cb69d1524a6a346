"""A separate kernel for the cells of a file and of `verify_notebook`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from nbagent.core.tool_output import as_on_terminal
from nbagent.errors import ConfigurationError

#: Characters of all outputs of one cell. A cell with more is stopped, because no page could open the notebook.
MOST_CHARS = 10_000_000
#: The key of the widgets' state in a notebook's metadata.
WIDGET_STATES = "application/vnd.jupyter.widget-state+json"
#: Seconds that an interrupted cell has to end before its kernel is killed.
GRACE_SECONDS = 5.0


class OwnKernel:
    """A kernel that starts in `folder` when it runs its first cell. After `stop`, the next cell starts a new kernel.

    `name` is the name of an installed kernel. `jupyter kernelspec list` shows all names.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._client: Any = None
        self._chars, self._shows_too_much = 0, asyncio.Event()
        #: Why the running cell was stopped; "" if it was not.
        self._stopped = ""

    async def run(self, source: str, seconds: float) -> tuple[list[dict[str, Any]], int | None]:
        """Run code. Returns its outputs, as nbformat dicts with any error last, and its execution count.

        The code is interrupted after `seconds`, or after `MOST_CHARS` characters of output. If the kernel dies, the
        last output says so.
        """
        from nbclient.exceptions import DeadKernelError
        from nbformat.v4 import new_code_cell

        await self.start()
        client, cell = self._client, new_code_cell(source)
        client.nb.cells.append(cell)
        self._stopped, self._shows_too_much, is_dead = "", asyncio.Event(), False
        watch = asyncio.ensure_future(self._stop_after(seconds))
        try:
            await client.async_execute_cell(cell, len(client.nb.cells) - 1)
        except DeadKernelError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # nbclient mistakes our cancellation for the kernel's death
                await self.stop()
                raise asyncio.CancelledError from None
            is_dead = True
        finally:
            watch.cancel()
        for output in cell.outputs:
            if output["output_type"] == "stream":
                output["text"] = as_on_terminal(output["text"])
        if is_dead or not client.km.has_kernel:
            await self.stop()
            died = self._stopped or "the kernel died while this cell ran, perhaps because memory ran out"
            return _with_error(cell.outputs, "DeadKernelError", f"{died}; all variables are gone"), None
        if self._stopped:
            return _with_error(cell.outputs, "KeyboardInterrupt", self._stopped), cell.execution_count
        return cell.outputs, cell.execution_count

    @property
    def is_running(self) -> bool:
        """Whether the kernel has started, and has neither been stopped nor died since."""
        return self._client is not None

    async def stop(self) -> None:
        """End the kernel if it is running."""
        client, self._client = self._client, None
        if client is not None and client.km is not None:
            await client._async_cleanup_kernel()

    def widgets(self) -> dict[str, Any]:
        """The current state of all widgets, by id, as in a notebook's `metadata.widgets`."""
        self._client.set_widgets_metadata()
        saved: dict[str, Any] = self._client.nb.metadata.get("widgets", {}).get(WIDGET_STATES, {})
        return dict(saved.get("state", {}))

    async def start(self) -> None:
        """Start the kernel unless it is running. Raises ConfigurationError if the kernel is not installed or does not
        start.
        """
        if self._client is not None:
            return
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
        from nbclient import NotebookClient
        from nbformat.v4 import new_notebook

        watched = self

        class Client(NotebookClient):
            """Counts the characters of outputs."""

            def output(self, outs: Any, msg: Any, *rest: Any) -> Any:
                if not outs or self.clear_before_next_output:
                    watched._chars = 0
                room, content = MOST_CHARS - watched._chars, msg["content"]
                watched._chars += _size(content)
                if watched._chars > MOST_CHARS:
                    watched._shows_too_much.set()
                    if msg["msg_type"] not in ("stream", "error"):
                        return None
                    if "text" in content:
                        content["text"] = content["text"][: max(0, room)]
                return super().output(outs, msg, *rest)

            async def _async_poll_kernel_alive(self) -> None:
                with suppress(AssertionError):  # the kernel was ended while a cell ran
                    await super()._async_poll_kernel_alive()

        client = Client(
            new_notebook(),
            kernel_name=self.name,
            timeout=None,
            allow_errors=True,
            on_cell_error=_show_error,
            coalesce_streams=True,
            shutdown_kernel="immediate",
            resources={"metadata": {"path": str(self.folder)}},
        )
        client.create_kernel_manager()
        with TemporaryFile("w+", errors="replace") as log:  # what the process prints only matters if it fails to start
            try:
                await client.async_start_new_kernel(stdout=log, stderr=log)
                await client.async_start_new_kernel_client()
            except NoSuchKernel:
                known = ", ".join(sorted(KernelSpecManager().find_kernel_specs())) or "none"
                fix = "Install it, or name another one: kernel=… (--kernel in a shell)."
                text = f"no kernel {self.name!r} is installed here. Installed kernels: {known}. {fix}"
                raise ConfigurationError(text) from None
            except (RuntimeError, OSError) as error:
                log.seek(0)
                said = "".join(log.readlines()[-5:]).strip()
                raise ConfigurationError(f"the kernel {self.name!r} did not start: {error}\n{said}") from None
        self._client = client

    async def _stop_after(self, seconds: float) -> None:
        manager = self._client.km
        try:
            await asyncio.wait_for(self._shows_too_much.wait(), seconds)
            self._stopped = f"stopped: it showed more than {MOST_CHARS:,} characters"
        except TimeoutError:
            self._stopped = f"stopped after {seconds:g} seconds, the longest that a cell may run"
        await manager.interrupt_kernel()
        await asyncio.sleep(GRACE_SECONDS)
        await manager.shutdown_kernel(now=True)


def _show_error(cell: Any, cell_index: int, execute_reply: Any) -> None:
    """Add the error as an output if the kernel sent none. For an unknown magic, IPython only prints a message."""
    from nbformat.v4 import new_output

    raised = {key: execute_reply["content"].get(key, []) for key in ("ename", "evalue", "traceback")}
    if not any(output["output_type"] == "error" for output in cell.outputs):
        cell.outputs.append(new_output("error", **raised))


def _size(content: Any) -> int:
    """The number of characters in a message's output."""
    if isinstance(content, dict):
        return sum(map(_size, content.values()))
    return len(content) if isinstance(content, str) else 0


def _with_error(outputs: list[dict[str, Any]], name: str, text: str) -> list[dict[str, Any]]:
    """The outputs with this error at the end. Its traceback includes the stopped code's own error, if there is one."""
    from nbformat.v4 import new_output

    before: list[str] = []
    if outputs and outputs[-1]["output_type"] == "error":
        *outputs, raised = outputs
        before = raised["traceback"][:-1] if raised["ename"] == name else raised["traceback"]
    return [*outputs, new_output("error", ename=name, evalue=text, traceback=[*before, f"{name}: {text}"])]
