"""`NotebookServing`: the notebook's tools as an MCP server inside the kernel, with the approvals below its cell."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import Context
from typing import Any

from IPython.display import display

from nbagent.agent.agent import Agent
from nbagent.core.background import note_main_loop
from nbagent.core.current import set_current
from nbagent.core.render import markdown as render
from nbagent.mcp.server.http import HTTPServing
from nbagent.mcp.server.tool_server import ToolServer
from nbagent.notebook.client_forms import ClientForms
from nbagent.notebook.display.captured import watch_output
from nbagent.notebook.display.figures import showing_figures, uses_pyplot


class NotebookServing:
    """Serves from its creation to `stop()`, or until the kernel ends, and shows in the running cell how to connect.

    The token is only in that display, which loses it when the serving ends.
    """

    ended = "The MCP server has ended."

    def __init__(self, shell: Any, agent: Agent, *, port: int = 0, only: Iterable[str] | None = None) -> None:
        self._shell = shell
        if getattr(shell, "kernel", None) is not None:
            note_main_loop()
        watch_output(shell)
        _show_figures(agent)
        self._forms = ClientForms(shell)
        context = Context()  # not the cell's, which will have ended
        context.run(set_current, has_no_cell_output=True, approver=self._forms.ask)
        self._tools = ToolServer(agent, only=only, agent_name="agent")
        self._serving = HTTPServing(self._tools, port=port, context=context).start()
        self.url = self._serving.url
        self._told = display(_told(self._serving.client_configuration()), raw=True, display_id=True)
        self._forms.show()
        shell.events.register("post_run_cell", self._on_cell_end)

    @property
    def is_running(self) -> bool:
        """Whether it still serves."""
        return not self._serving.over.done()

    def stop_calls(self) -> int:
        """Stop the calls of clients that are running. Returns their number."""
        return self._serving.cancel_calls() if self.is_running else 0

    def stop(self) -> None:
        """End calls and connections, free the port, and remove the token from the notebook."""
        self._shell.events.unregister("post_run_cell", self._on_cell_end)
        self._serving.stop()
        page = render.output_html(render.note_html(self.ended))
        self._told.update({"text/plain": self.ended, "text/html": page}, raw=True)
        self._forms.close()

    def _on_cell_end(self, result: Any) -> None:
        """Serve the current agent of the variable `agent`, and notify clients of changes."""
        agent = self._shell.user_ns.get("agent")
        if isinstance(agent, Agent) and agent is not self._tools.agent:
            _show_figures(agent)
            self._tools.agent = agent
        self._serving.tell_changes()


def _show_figures(agent: Agent) -> None:
    """Let plots go into the call, unless the agent handles them itself."""
    executor = agent.tool_executor
    if executor.call_context is None:
        executor.call_context, executor.runs_exclusively = showing_figures, uses_pyplot


def _told(configuration: str) -> dict[str, str]:
    lines = (
        "The notebook's tools are an MCP server. Paste this into your client's configuration; it has a secret token:",
        configuration,
        "%agent serve --stop ends it and removes the token from the notebook.",
    )
    before, line, after = map(render.escape, lines)
    page = f'{render.note_html(before)}<pre style="white-space: pre-wrap">{line}</pre>{render.note_html(after)}'
    return {"text/plain": "\n".join(lines), "text/html": render.output_html(page)}
