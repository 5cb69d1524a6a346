"""`HTTPNotebookServing`: the notebook's agent over HTTP, served by the kernel."""

from __future__ import annotations

from contextvars import Context
from typing import Any

from IPython.display import display

from nbagent.agent.agent import Agent
from nbagent.core.background import note_main_loop
from nbagent.core.current import set_current
from nbagent.core.render import markdown as render
from nbagent.notebook.client_forms import ClientForms
from nbagent.notebook.display.captured import watch_output
from nbagent.server.app import create_app
from nbagent.server.running import Serving, with_token
from nbagent.server.settings import ServerSettings
from nbagent.thread_server import LOOPBACK, listening

#: Seconds that runs have to end when the server stops.
_GRACE_S = 2.0


class HTTPNotebookServing:
    """Serves from its creation to `stop()`, or until the kernel ends, and shows in the running cell how to connect.

    Each conversation is a fork of the variable's current agent, with the notebook's tools. Calls that need approval
    wait for the notebook's user, or with `clients_approve` for the clients. The token is only in that display, which
    loses it when the serving ends.
    """

    ended = "The server has ended."

    def __init__(self, shell: Any, agent: Agent, *, port: int = 0, clients_approve: bool = False) -> None:
        self._shell = shell
        if getattr(shell, "kernel", None) is not None:
            note_main_loop()
        watch_output(shell)
        self._forms = ClientForms(shell)
        context = Context()  # not the cell's, which will have ended
        context.run(set_current, has_no_cell_output=True, approver=None if clients_approve else self._forms.ask)
        settings, told = with_token(ServerSettings(grace_seconds=_GRACE_S))
        self._serving = Serving(create_app(agent, settings), listening(LOOPBACK, port), context).start()
        self.url = self._serving.url
        self._told = display(_shown(self.url, told[0], clients_approve), raw=True, display_id=True)
        if not clients_approve:
            self._forms.show()
        shell.events.register("post_run_cell", self._on_cell_end)

    @property
    def is_running(self) -> bool:
        """Whether it still serves."""
        return not self._serving.over.done()

    def stop_calls(self) -> int:
        """Stop the clients' running runs. Returns their number."""
        return self._serving.cancel_runs() if self.is_running else 0

    def stop(self) -> None:
        """End runs and connections, free the port, and remove the token from the notebook."""
        self._shell.events.unregister("post_run_cell", self._on_cell_end)
        self._serving.stop()
        page = render.output_html(render.note_html(self.ended))
        self._told.update({"text/plain": self.ended, "text/html": page}, raw=True)
        self._forms.close()

    def _on_cell_end(self, result: Any) -> None:
        """Serve the current agent of the variable `agent`."""
        agent = self._shell.user_ns.get("agent")
        if isinstance(agent, Agent):
            self._serving.host.agents = {"": agent}


def _shown(url: str, token: str, clients_approve: bool) -> dict[str, str]:
    asked = "They decide on" if clients_approve else "You are asked below about"
    lines = (
        "The agent is served to programs on this machine that know the secret token:",
        f"{url}\n{token}",
        f"{asked} calls that need approval. %agent serve --stop ends it and removes the token from the notebook.",
    )
    before, address, after = map(render.escape, lines)
    page = f'{render.note_html(before)}<pre style="white-space: pre-wrap">{address}</pre>{render.note_html(after)}'
    return {"text/plain": "\n".join(lines), "text/html": render.output_html(page)}
