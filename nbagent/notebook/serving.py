"""`NotebookServing`: the notebook's tools as an MCP server inside the kernel, with the approvals below its cell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from contextvars import Context
from typing import Any

from IPython.display import display

from nbagent.agent.agent import Agent
from nbagent.chat.approval import where_asked
from nbagent.core.background import call_on_main, note_main_loop
from nbagent.core.cells import is_watched
from nbagent.core.current import current, set_current
from nbagent.core.messages import FunctionCall
from nbagent.core.render import markdown as render
from nbagent.errors import ToolDeniedError
from nbagent.functions.registry import FunctionDefinition
from nbagent.mcp.server.http import HTTPServing
from nbagent.mcp.server.tool_server import ToolServer
from nbagent.notebook.display.approval import SHOWN_WITHIN_S, Answer, ApprovalForm
from nbagent.notebook.display.captured import watch_output
from nbagent.notebook.display.figures import showing_figures, uses_pyplot

NOBODY = (
    "The call needs approval, and nobody sees the form for it: it appears below the cell with `%agent serve --mcp`. "
    "Do not repeat the call; tell the user to open the notebook, or to run that cell again."
)


class NotebookServing:
    """Serves from its creation to `stop()`, or until the kernel ends, and shows in the running cell how to connect.

    The token stands in that display only, which loses it when the serving ends.
    """

    ended = "The MCP server has ended."

    def __init__(self, shell: Any, agent: Agent, *, port: int = 0, only: Iterable[str] | None = None) -> None:
        self._shell = shell
        if getattr(shell, "kernel", None) is not None:
            note_main_loop()
        watch_output(shell)
        _show_figures(agent)
        context = Context()  # not the cell's, which will have ended
        context.run(set_current, has_no_cell_output=True, approver=self._ask)
        self._tools = ToolServer(agent, only=only, agent_name="agent")
        self._serving = HTTPServing(self._tools, port=port, context=context).start()
        self.url = self._serving.url
        self._told = display(_told(self._serving.client_configuration()), raw=True, display_id=True)
        self._forms = _Forms() if getattr(shell, "kernel", None) is not None and is_watched(shell) else None
        shell.events.register("post_run_cell", self._on_cell_end)

    @property
    def is_running(self) -> bool:
        """Whether it still serves."""
        return not self._serving.over.done()

    def stop_calls(self) -> int:
        """Stop the calls of clients that are running. Returns their number."""
        return self._serving.cancel_calls() if self.is_running else 0

    def stop(self) -> None:
        """End calls and connections, free the port, and take the token out of the notebook."""
        self._shell.events.unregister("post_run_cell", self._on_cell_end)
        self._serving.stop()
        page = render.output_html(render.note_html(self.ended))
        self._told.update({"text/plain": self.ended, "text/html": page}, raw=True)
        if self._forms is not None:
            self._forms.close()

    def _on_cell_end(self, result: Any) -> None:
        """Serve the agent that the variable `agent` holds now, and tell clients what has changed."""
        agent = self._shell.user_ns.get("agent")
        if isinstance(agent, Agent) and agent is not self._tools.agent:
            _show_figures(agent)
            self._tools.agent = agent
        self._serving.tell_changes()

    async def _ask(self, call: FunctionCall, definition: FunctionDefinition) -> Answer:
        """Ask in a form below the cell. Raises ToolDeniedError if nobody can see it."""
        if self._forms is None:
            raise ToolDeniedError(NOBODY, tool=call.name)
        return await self._forms.ask(call, where_asked(call, definition))


class _Forms:
    """A box below the running cell that shows a form for each call that waits for approval."""

    def __init__(self) -> None:
        import ipywidgets as widgets

        self._widgets = widgets
        self._box = widgets.VBox()
        self._shown: Future[None] = Future()
        self._box._view_count = 0  # makes the front end count its views of the box
        self._box.observe(self._on_views, "_view_count")
        display({**self._box._repr_mimebundle_(), "text/plain": ""}, raw=True)

    async def ask(self, call: FunctionCall, where: str) -> Answer:
        """The person's answer. Raises ToolDeniedError if no front end shows the box."""
        await call_on_main(lambda: None)  # a kernel that is busy with a cell takes no clicks: the client is told
        try:
            async with asyncio.timeout(SHOWN_WITHIN_S):
                await asyncio.shield(asyncio.wrap_future(self._shown))
        except TimeoutError:
            raise ToolDeniedError(NOBODY, tool=call.name) from None
        if not self._box._view_count:
            raise ToolDeniedError(NOBODY, tool=call.name)
        form = ApprovalForm(call, where)
        asks = render.printable(f"{current.get().call.source} calls a tool:")
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
        self._box.close()

    def _on_views(self, change: dict[str, Any]) -> None:
        if change["new"] and not self._shown.done():
            self._shown.set_result(None)


def _show_figures(agent: Agent) -> None:
    """Let plots go into the call, unless the agent handles them itself."""
    executor = agent.tool_executor
    if executor.call_context is None:
        executor.call_context, executor.runs_exclusively = showing_figures, uses_pyplot


def _told(configuration: str) -> dict[str, str]:
    lines = (
        "The notebook's tools are an MCP server. Paste this into your client's configuration; it holds a secret token:",
        configuration,
        "%agent serve --stop ends it and takes the token out of the notebook.",
    )
    before, line, after = map(render.escape, lines)
    page = f'{render.note_html(before)}<pre style="white-space: pre-wrap">{line}</pre>{render.note_html(after)}'
    return {"text/plain": "\n".join(lines), "text/html": render.output_html(page)}
