"""`%agent mcp`: the MCP servers of an agent, their state and their tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from nbagent.agent.agent import Agent
from nbagent.core.background import run_sync
from nbagent.core.render import markdown as render
from nbagent.mcp.client.server import MCPServer
from nbagent.notebook.magics.options import suggestion

if TYPE_CHECKING:
    import pandas as pd

MCP_USAGE = "[use FILE [NAME …] | close NAME …]"
_NONE = 'No MCP servers: agent.use(MCPServer("npx", "-y", "…")), or %agent mcp use mcp.json.'
_COLUMNS = ["server", "state", "tools", "revision", "address", "about"]


def mcp(shell: Any, agent: Agent, words: Sequence[str]) -> MCPTable | None:
    """Return the agent's MCP servers as a table; use those of a file; or end the processes and connections of some."""
    match words:
        case []:
            return mcp_table(agent)
        case ["use", file, *names]:
            servers = MCPServer.from_config(file, *names)
            agent.use(*servers)
            print(f"{', '.join(server.name for server in servers)}: connecting. %agent mcp shows the state.")
        case ["close", *names] if names:
            known = {server.name: server for server in servers_of(agent)}
            if unknown := [name for name in names if name not in known]:
                raise UsageError(f"%agent mcp: there is no server {unknown[0]}{suggestion(unknown[0], known)}")
            for name in names:
                run_sync(known[name].aclose())
            print(f"{', '.join(names)}: closed. The next question connects again.")
        case _:
            raise UsageError(f"%agent mcp {MCP_USAGE}")
    return None


def servers_of(agent: Agent) -> list[MCPServer]:
    """The MCP servers that an agent uses."""
    return [toolset for toolset in agent.toolsets if isinstance(toolset, MCPServer)]


@dataclass(frozen=True, eq=False)
class MCPTable:
    """An agent's MCP servers as a cell shows them. `frame` has the data.

    >>> servers = %agent mcp                                                # doctest: +SKIP
    >>> servers.frame.query("state == 'failed'").about                      # doctest: +SKIP
    """

    frame: pd.DataFrame

    def __repr__(self) -> str:
        if self.frame.empty:
            return _NONE
        lines = []
        for name, state, tools, revision, address, about in self.frame.itertuples(name=None):
            lines.append(f"{name}: {' '.join(filter(None, (state, revision, about)))}\n  {address}")
            lines += [f"  {tools}"] if tools else []
        return render.printable("\n".join(lines))

    def _repr_html_(self) -> str:
        if self.frame.empty:
            return render.output_html(render.note_html(_NONE))
        head = "".join(f"<th>{name}</th>" for name in ("server", "state", "tools"))
        rows = "".join(map(_row_html, self.frame.itertuples(name=None)))
        body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return render.output_html(body, formulas=False)


def mcp_table(agent: Agent) -> MCPTable:
    """The MCP servers of an agent, one row each."""
    import pandas as pd

    rows = [
        {
            "server": server.name,
            "state": server.connection.state,
            "tools": " ".join(server.tools.names()),
            "revision": server.connection.revision,
            "address": server.address.shown(),
            "about": str(server.connection.problem or server.connection.restarted or server.connection.server),
        }
        for server in servers_of(agent)
    ]
    return MCPTable(pd.DataFrame(rows, columns=_COLUMNS).set_index("server"))


def _row_html(row: tuple[str, ...]) -> str:
    name, state, tools, revision, address, about = map(render.escape, row)
    quiet = '<div class="nbagent-quiet">{}</div>'.format
    listed = " ".join(f"<code>{tool}</code>" for tool in tools.split())
    facts = quiet(revision) + quiet(f'<span style="white-space: pre-wrap">{about}</span>')
    server = f'<td style="overflow-wrap: anywhere">{name}{quiet(address)}</td>'
    return f"<tr>{server}<td>{state}{facts}</td><td>{listed}</td></tr>"
