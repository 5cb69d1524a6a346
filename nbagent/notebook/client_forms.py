"""Asks the notebook's user, below the serving cell, to approve tool calls from clients of the kernel's server."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

from IPython.display import display

from nbagent.chat.approval import where_asked
from nbagent.core.background import call_on_main
from nbagent.core.cells import is_watched
from nbagent.core.current import current
from nbagent.core.messages import FunctionCall
from nbagent.core.render import markdown as render
from nbagent.errors import ToolDeniedError
from nbagent.functions.registry import FunctionDefinition
from nbagent.notebook.display.approval import SHOWN_WITHIN_S, Answer, ApprovalForm

NOBODY = (
    "The call needs approval, and nobody sees the form for it: it appears below the cell with `%agent serve`. "
    "Do not repeat the call; tell the user to open the notebook, or to run that cell again."
)


class ClientForms:
    """A box below the serving cell, with a form for each client call that waits for approval."""

    def __init__(self, shell: Any) -> None:
        self._box: Any = None
        self._can_ask = getattr(shell, "kernel", None) is not None and is_watched(shell)

    def show(self) -> None:
        """Display the box below the running cell, if somebody may be watching."""
        if not self._can_ask:
            return
        import ipywidgets as widgets

        self._widgets = widgets
        self._box = widgets.VBox()
        self._shown: Future[None] = Future()
        self._box._view_count = 0  # makes the front end count its views of the box
        self._box.observe(self._on_views, "_view_count")
        display({**self._box._repr_mimebundle_(), "text/plain": ""}, raw=True)

    async def ask(self, call: FunctionCall, definition: FunctionDefinition) -> Answer:
        """Return the user's decision about a client's call. Raises ToolDeniedError if no front end shows the box."""
        if self._box is None:
            raise ToolDeniedError(NOBODY, tool=call.name)
        await call_on_main(lambda: None)  # a cell that blocks the kernel also blocks clicks
        try:
            async with asyncio.timeout(SHOWN_WITHIN_S):
                await asyncio.shield(asyncio.wrap_future(self._shown))
        except TimeoutError:
            raise ToolDeniedError(NOBODY, tool=call.name) from None
        if not self._box._view_count:
            raise ToolDeniedError(NOBODY, tool=call.name)
        form = ApprovalForm(call, definition, where_asked(call, definition))
        source = current.get().call.source
        asks = render.printable(f"{'A client' if source == 'http' else source} calls a tool:")
        shown = self._widgets.VBox([self._widgets.HTML(render.output_html(render.note_html(asks))), form.box])
        self._box.children = (*self._box.children, shown)
        try:
            return await form.answer()
        finally:
            self._box.children = tuple(child for child in self._box.children if child is not shown)
            form.close()
            shown.children[0].close()
            shown.close()

    def close(self) -> None:
        """Remove the widgets."""
        if self._box is not None:
            self._box.close()

    def _on_views(self, change: dict[str, Any]) -> None:
        if change["new"] and not self._shown.done():
            self._shown.set_result(None)
