"""`LiveNotebook`: a notebook that is open in JupyterLab or Notebook 7, as a document that its own kernel can change.

A script that the kernel starts in the page (`live.js`) changes the shared notebook model. The changes are therefore
part of the notebook's undo history, and other views and collaborators (`jupyter-collaboration`) see them. No server or
JupyterLab extension is needed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import asdict
from functools import cache
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import anywidget
from IPython.core.getipython import get_ipython

from nbagent.core.background import background_loop, call_on_main, running_loop
from nbagent.core.cells import cell_id_of, is_watched, request_of, running_shell
from nbagent.core.current import current
from nbagent.errors import ToolError
from nbagent.notebook.display.code_diff import changes_html
from nbagent.notebook.display.figures import listen_quietly
from nbagent.notebook.document.cell import OURS, NotebookCell
from nbagent.notebook.document.changes import KEPT_RUNS
from nbagent.notebook.document.document import CellChangedError, NotebookDocument, Proposal
from nbagent.notebook.document.kernel_run import KernelRunner

T = TypeVar("T")

#: Seconds that a page has to respond, or to return while it reloads.
ANSWER_S = 10.0
#: Bytes of outputs per second while a cell runs. Jupyter's server drops messages above a mean of 1,000,000.
OUTPUT_BYTES_S = 300_000

_BLOCKED = (
    "the page can't be reached while this call blocks the kernel's main thread. Use a %%agent cell without %%time, "
    "or with `await agent.chat(...)` instead of `chat_sync`."
)


class PageError(ToolError):
    """No page shows the notebook, or the page did not respond."""


class LiveNotebook(NotebookDocument):
    """A notebook that is open in a page. `live_notebook()` returns it. The page may be reloaded at any time.

    Every method raises `PageError` if no page with the notebook responds within `ANSWER_S` seconds, or immediately if
    the caller blocks the kernel's main thread.
    """

    def __init__(self, pages: NotebookPages, path: str) -> None:
        super().__init__()
        self.path = path
        #: The ids of the pages that show it. Requests go to the newest.
        self.pages: list[str] = []
        #: The newest page's connection to the kernel.
        self.session = ""
        self._host = pages
        #: The page's name for the state that was last read, and the cells in that state.
        self._known: tuple[list[Any], list[NotebookCell]] = [], []

    async def cells(self) -> list[NotebookCell]:
        """All cells, from top to bottom."""
        since, cells = self._known
        changed = await self._ask("cells", since=since)
        by_id = {cell.id: cell for cell in [*cells, *map(NotebookCell.from_nbformat, changed["cells"])]}
        start, end = changed["same"]
        ids = [cell.id for cell in cells]
        ids[start : len(ids) - end] = changed["ids"]
        self._known = changed["now"], [by_id[cell_id] for cell_id in ids]
        return list(self._known[1])

    async def _insert(self, place: int, cell: NotebookCell) -> None:
        await self._ask("insert", place=place, cell=cell.to_nbformat())

    async def _replace(self, cell: NotebookCell, expected: str) -> None:
        data = cell.to_nbformat()
        if any(before.outputs is cell.outputs for before in self._known[1]):  # they may be megabytes
            data.pop("outputs", None)
        await self._ask("replace", expected=expected, cell=data)

    async def _move(self, cell_id: str, place: int) -> None:
        await self._ask("move", id=cell_id, place=place)

    async def _delete(self, cell_id: str, expected: str) -> None:
        await self._ask("remove", id=cell_id, expected=expected)

    async def _execute(self, cell: NotebookCell, seconds: float) -> None:
        await self._ask("start", id=cell.id, expected=cell.source)
        shown = _Shown(lambda start, outputs: self._tell("show", id=cell.id, start=start, outputs=outputs))
        try:
            # on the background loop, because the main thread may run code that does not await
            outputs, number = await _on_background_loop(
                self._host.runner.run(cell.source, cell.id, seconds, shown.show, self.session)
            )
        except BaseException:  # keep the outputs so far
            self._tell("end", id=cell.id, outputs=shown.outputs, count=None)
            raise
        await self._ask("end", id=cell.id, outputs=outputs, count=number)

    async def _note(self) -> dict[str, Any]:
        note: dict[str, Any] = await self._ask("note")
        return note

    async def _set_note(self, note: dict[str, Any]) -> None:
        await self._ask("set_note", note=note)

    async def _append(self, entry: dict[str, Any]) -> None:
        await self._ask("append", entry=entry, runs=KEPT_RUNS)

    def show_proposal(self, proposal: Proposal, answer: Callable[[bool | str], None]) -> Callable[[], None]:
        """See `NotebookDocument`. All pages with the notebook show the proposal, even pages that are opened later."""
        return self._host.propose(self, proposal, answer)

    async def _ask(self, op: str, **fields: Any) -> Any:
        return await self._host.ask(self, {"op": op, **fields})

    def _tell(self, op: str, **fields: Any) -> None:
        """Send a request without waiting for a response."""
        if self.pages:
            self._host.send({"page": self.pages[-1], "op": op, **fields})


class _Shown:
    """Sends a running cell's outputs: only changed ones, and no more bytes than the server lets through."""

    def __init__(self, send: Callable[[int, list[dict[str, Any]]], None]) -> None:
        self._send = send
        self.outputs: list[dict[str, Any]] = []
        self._sent: list[dict[str, Any]] = []
        self._free_at = 0.0

    def show(self, outputs: list[dict[str, Any]]) -> None:
        """Show these outputs: all of the cell so far."""
        self.outputs = list(outputs)
        if monotonic() < self._free_at:
            return
        start = 0
        while start < min(len(self._sent), len(outputs)) and self._sent[start] == outputs[start]:
            start += 1
        self._send(start, self.outputs[start:])
        self._sent = self.outputs
        self._free_at = monotonic() + len(json.dumps(self.outputs[start:], default=str)) / OUTPUT_BYTES_S


class NotebookPages(anywidget.AnyWidget):
    """Runs `live.js` in each page that shows a notebook of this kernel. The widget is never displayed. `notebook_pages`
    returns it.

    A page sends:

    - `{"page": id, "hello": path, "session": connection_id}`, and `{"page": id, "bye": True}`
    - `{"page": id, "answer": number, "part": text, "more": True}`: a response to a request. Long JSON text is sent in
      parts, because the server closes the connection if a message reaches 10 MB
    - `{"page": id, "do": "diff", "run": run_id}` (or `undo`, `accept`) for a click
    - `{"page": id, "decide": number, "chosen": true}` (or false, or the edited text) for a proposed change

    It receives requests, `{"page": id, "ask": number, "op": name, …}`, and the results of clicks,
    `{"page": id, "did": name, …}`.
    """

    _esm = Path(__file__).with_name("live.js")
    _css = Path(__file__).with_name("live.css")

    def __init__(self) -> None:
        super().__init__()
        listen_quietly(self)
        self.runner = KernelRunner(get_ipython())
        #: By path.
        self.notebooks: dict[str, LiveNotebook] = {}
        #: By the ids of the connections to this kernel, including closed pages.
        self._by_session: dict[str, LiveNotebook] = {}
        self._numbers = count(1)
        self._waiting: dict[int, tuple[LiveNotebook, dict[str, Any], Future[Any]]] = {}
        self._parts: dict[int, str] = {}
        self._clicks: set[Future[None]] = set()
        self._proposals: dict[int, tuple[LiveNotebook, Proposal, Callable[[bool | str], None]]] = {}
        self.on_msg(lambda _, message, buffers: self._on_message(message))

    def find(self, session: str, is_cell: bool) -> LiveNotebook | None:
        """The notebook of this connection. If there is none, code outside cells gets the only open notebook."""
        shown = [notebook for notebook in self.notebooks.values() if notebook.pages]
        only = shown[0] if len(shown) == 1 and not is_cell else None
        return self._by_session.get(session) or only

    async def ask(self, notebook: LiveNotebook, request: dict[str, Any]) -> Any:
        """Send a request to the notebook's newest page. If that page is reloaded, the new page receives the same
        request.
        """
        if current.get().main_waits:
            raise PageError(_BLOCKED)
        number, answer = next(self._numbers), Future[Any]()
        self._waiting[number] = notebook, {**request, "ask": number}, answer
        waiting = asyncio.wrap_future(answer)
        try:
            self._send_to(notebook, number)
            await asyncio.wait({waiting}, timeout=ANSWER_S)
            if not waiting.done():
                await call_on_main(lambda: None)  # a cell that blocks the kernel delays responses
                await asyncio.wait({waiting}, timeout=1.0)
            if not waiting.done():
                notebook.pages[:] = [*notebook.pages[-1:], *notebook.pages[:-1]]  # next time, another page is asked
                raise PageError(
                    f"the page with {notebook.path} has not responded for {ANSWER_S:.0f} s: it is closed, or it has "
                    "lost its connection. The last request may not have been carried out: read the notebook again."
                )
            return waiting.result()
        finally:
            waiting.cancel()
            self._waiting.pop(number, None)
            self._parts.pop(number, None)

    def _send_to(self, notebook: LiveNotebook, number: int) -> None:
        if notebook.pages:
            self.send({**self._waiting[number][1], "page": notebook.pages[-1]})

    def propose(
        self, notebook: LiveNotebook, proposal: Proposal, answer: Callable[[bool | str], None]
    ) -> Callable[[], None]:
        """See `LiveNotebook.show_proposal`."""
        number = next(self._numbers)
        self._proposals[number] = notebook, proposal, answer
        for page in notebook.pages:
            self.send({"page": page, "op": "propose", "number": number, **asdict(proposal)})

        def withdraw() -> None:
            del self._proposals[number]
            for page in notebook.pages:
                self.send({"page": page, "op": "withdraw", "number": number})

        return withdraw

    # -- the pages' messages, on the main thread ----------------------------------------------------------------------

    def _on_message(self, message: dict[str, Any]) -> None:
        page = message["page"]
        if "hello" in message:
            return self._on_hello(page, message["hello"], message["session"])
        if number := message.get("answer"):
            return self._on_answer(number, message)
        notebook = next((each for each in self.notebooks.values() if page in each.pages), None)
        if notebook is None:
            return None
        if message.get("bye"):
            notebook.pages.remove(page)
        elif number := message.get("decide"):
            if number in self._proposals:
                self._proposals[number][2](message["chosen"])
        elif action := message.get("do"):
            done = self._click(notebook, page, action, message["run"])
            click = asyncio.run_coroutine_threadsafe(done, background_loop())
            self._clicks.add(click)
            click.add_done_callback(self._clicks.discard)
        return None

    def _on_hello(self, page: str, path: str, session: str) -> None:
        notebook = self.notebooks.get(path) or LiveNotebook(self, path)
        for other_path, other in list(self.notebooks.items()):
            if page in other.pages:
                other.pages.remove(page)
                if not other.pages and path not in self.notebooks:  # it was renamed
                    notebook, notebook.path = self.notebooks.pop(other_path), path
        self.notebooks[path] = self._by_session[session] = notebook
        notebook.session = session
        notebook.pages.append(page)
        for number, (where, proposal, _) in list(self._proposals.items()):
            if where is notebook:
                self.send({"page": page, "op": "propose", "number": number, **asdict(proposal)})
        for number, (waits, *_) in list(self._waiting.items()):
            if waits is notebook:
                self._parts.pop(number, None)
                self._send_to(notebook, number)

    def _on_answer(self, number: int, message: dict[str, Any]) -> None:
        if number not in self._waiting:
            return
        _, request, answer = self._waiting[number]
        text = self._parts.pop(number, "") + message["part"]
        if message["more"]:
            self._parts[number] = text
        elif not answer.done():
            said = json.loads(text)
            if "changed" in said:
                answer.set_exception(CellChangedError(said["changed"]))
            elif "failed" in said:
                answer.set_exception(PageError(f"the page could not {request['op']}: {said['failed']}"))
            else:
                answer.set_result(said["value"])

    async def _click(self, notebook: LiveNotebook, page: str, action: str, run_id: str) -> None:
        """Handle a user's click in the bar."""
        done: dict[str, Any] = {}
        try:
            if action == "diff":
                diffs = await notebook.diff(run_id)
                done["html"] = changes_html(
                    (f"Cell {each.number}" if each.number else "Cell", each.before, each.after) for each in diffs
                )
            elif action == "undo":
                done["kept"] = await notebook.undo(run_id)
            else:
                await notebook.accept(run_id)
        except ToolError as error:
            done["failed"] = str(error)
        self.send({"page": page, "did": action, "run": run_id, **done})


@cache
def notebook_pages() -> NotebookPages:
    """Return this kernel's instance. Call this function on the background loop."""
    return NotebookPages()


async def live_notebook() -> LiveNotebook:
    """The open notebook that the current code belongs to, because the notebook's page ran the cell or sent the click.

    For code that no page started, it is the kernel's only open notebook. Raises `PageError` if the notebook can't be
    determined.
    """
    shell = running_shell()
    request = request_of(shell)
    session = request.get("metadata", {}).get(OURS)  # of a cell that an agent runs
    if getattr(shell, "kernel", None) is None or not (session or is_watched(shell)):
        raise PageError("this notebook is not open in a page. Use FileNotebook(path) for a file.")
    if current.get().main_waits:
        raise PageError(_BLOCKED)
    session, is_cell = session or request.get("header", {}).get("session", ""), cell_id_of(shell) is not None
    pages = await _on_background_loop(_pages())
    until = monotonic() + ANSWER_S
    while (notebook := pages.find(session, is_cell)) is None:
        if monotonic() > until:
            raise PageError(_not_found([path for path, each in pages.notebooks.items() if each.pages], is_cell))
        await asyncio.sleep(0.05)
    return notebook


def _not_found(shown: list[str], is_cell: bool) -> str:
    if not shown:
        return "no page of JupyterLab or Notebook 7 shows this notebook: open it in one, and ask again."
    if is_cell:
        return (
            f"JupyterLab lets a kernel change only one notebook of a page, which is {shown[0]}. Open the notebook of "
            "this cell in a separate browser tab, or give it its own kernel."
        )
    return f"several notebooks are open on this kernel: {', '.join(shown)}. Ask from a cell, or a panel, of one."


async def _pages() -> NotebookPages:
    return notebook_pages()


async def _on_background_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    if running_loop() is background_loop():
        return await coroutine
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, background_loop()))
