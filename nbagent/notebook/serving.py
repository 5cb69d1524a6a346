"""Serves the notebook's agent over HTTP, or its tools to MCP clients, from inside the kernel: `%agent serve`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextvars import Context
from typing import Any

from IPython.display import display

from nbagent.agent.agent import Agent
from nbagent.core.background import note_main_loop
from nbagent.core.current import set_current
from nbagent.core.render import markdown as render
from nbagent.errors import missing_extra
from nbagent.notebook.client_forms import ClientForms
from nbagent.notebook.display.figures import show_figures_of

#: Seconds that runs have to end when the server stops.
_GRACE_S = 2.0


class NotebookServing(ABC):
    """Serves from its creation until `stop()` is called or the kernel ends. The running cell shows how to connect.

    The token appears only in that cell's output, and is removed from it when the server stops.
    """

    #: The server, which a subclass starts in `_context`.
    _server: Any
    #: The message after it has stopped.
    ended: str

    def __init__(self, shell: Any, *, clients_approve: bool = False) -> None:
        self._shell = shell
        if getattr(shell, "kernel", None) is not None:  # this cell may have loaded the extension
            note_main_loop()
        self._forms = None if clients_approve else ClientForms(shell)
        self._context = Context()  # not the cell's, which will have ended
        approver = None if self._forms is None else self._forms.ask
        self._context.run(set_current, has_no_cell_output=True, approver=approver)

    def _show(self, before: str, address: str, after: str) -> None:
        """Show how to connect, and the forms below. From now on, follow the notebook's agent after each cell."""
        first, pre, last = map(render.escape, (before, address, after))
        page = f'{render.note_html(first)}<pre style="white-space: pre-wrap">{pre}</pre>{render.note_html(last)}'
        bundle = {"text/plain": f"{before}\n{address}\n{after}", "text/html": render.output_html(page)}
        self._shown = display(bundle, raw=True, display_id=True)
        if self._forms is not None:
            self._forms.show()
        self._shell.events.register("post_run_cell", self._on_cell_end)

    @property
    def url(self) -> str:
        """The server's address."""
        return str(self._server.url)

    @property
    def is_running(self) -> bool:
        """Whether the server is still running."""
        return not self._server.over.done()

    @abstractmethod
    def stop_calls(self) -> int:
        """Stop the clients' running calls or runs. Returns the number of stopped calls or runs."""

    @abstractmethod
    def _follow(self, agent: Agent) -> None:
        """Serve this agent from now on. It is called after each cell with the notebook's current agent."""

    def stop(self) -> None:
        """End calls and connections, free the port, and remove the token from the notebook."""
        self._shell.events.unregister("post_run_cell", self._on_cell_end)
        self._server.stop()
        page = render.output_html(render.note_html(self.ended))
        self._shown.update({"text/plain": self.ended, "text/html": page}, raw=True)
        if self._forms is not None:
            self._forms.close()

    def _on_cell_end(self, result: Any) -> None:
        if isinstance(agent := self._shell.user_ns.get("agent"), Agent):
            self._follow(agent)


class MCPServing(NotebookServing):
    """Serves the notebook's tools, or `only` some of them, to MCP clients. The notebook's user approves their calls."""

    ended = "The MCP server has ended."

    def __init__(self, shell: Any, agent: Agent, *, port: int = 0, only: Iterable[str] | None = None) -> None:
        try:
            from nbagent.mcp.server.http import HTTPServing
            from nbagent.mcp.server.tool_server import ToolServer
        except ModuleNotFoundError as error:
            raise missing_extra("MCP", "mcp") from error
        super().__init__(shell)
        show_figures_of(agent)
        self._server = HTTPServing(
            ToolServer(agent, only=only, agent_name="agent"), port=port, context=self._context
        ).start()
        self._show(
            "The notebook's tools are an MCP server. Paste this into your client's configuration; it has a secret "
            "token:",
            self._server.client_configuration(),
            "%agent serve --stop ends it and removes the token from the notebook.",
        )

    def stop_calls(self) -> int:
        """Stop the clients' running calls. Returns the number of stopped calls."""
        return self._server.cancel_calls() if self.is_running else 0

    def _follow(self, agent: Agent) -> None:
        show_figures_of(agent)
        self._server.tools.agent = agent

    def _on_cell_end(self, result: Any) -> None:
        super()._on_cell_end(result)
        self._server.notify_changes()


class AgentServing(NotebookServing):
    """Serves the agent over HTTP. Each conversation is a fork of the notebook's current agent and has its tools.

    Calls that need approval wait for the notebook's user or, with `clients_approve`, for the clients.
    """

    ended = "The server has ended."

    def __init__(self, shell: Any, agent: Agent, *, port: int = 0, clients_approve: bool = False) -> None:
        try:
            from nbagent.server.app import create_app
            from nbagent.server.running import Serving, with_token
            from nbagent.server.settings import ServerSettings
            from nbagent.thread_server import LOOPBACK, listening
        except ModuleNotFoundError as error:
            raise missing_extra("The server", "server") from error
        super().__init__(shell, clients_approve=clients_approve)
        settings, (token,) = with_token(ServerSettings(grace_seconds=_GRACE_S))
        self._server = Serving(create_app(agent, settings), listening(LOOPBACK, port), self._context).start()
        asked = "They decide on" if clients_approve else "You are asked below about"
        self._show(
            "The agent is served to programs on this machine that know the secret token:",
            f"{self.url}\n{token}",
            f"{asked} calls that need approval. %agent serve --stop ends it and removes the token from the notebook.",
        )

    def stop_calls(self) -> int:
        """Stop the clients' runs. Returns the number of stopped runs."""
        return self._server.cancel_runs() if self.is_running else 0

    def _follow(self, agent: Agent) -> None:
        self._server.host.agents = {"": agent}
