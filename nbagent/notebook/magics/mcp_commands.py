"""`%agent mcp`: an agent's MCP servers, with their state, tools, resources and prompts."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from nbagent.agent.agent import Agent
from nbagent.core.background import run_sync
from nbagent.core.content.images import content_as_text
from nbagent.core.render import markdown as render
from nbagent.mcp.client.resources import Prompt, Resource
from nbagent.mcp.client.server import MCPServer
from nbagent.mcp.client.tool_list import MAX_TEXT
from nbagent.notebook.magics.options import suggestion
from nbagent.notebook.panel.mentions import servers_of
from nbagent.text import shortened

if TYPE_CHECKING:
    import pandas as pd

MCP_USAGE = "[resources | prompts | prompt SERVER:NAME [KEY=VALUE …] | use FILE [NAME …] | close NAME …]"
_NONE = 'No MCP servers: agent.use(MCPServer("npx", "-y", "…")), or %agent mcp use mcp.json.'
_COLUMNS = ["server", "state", "tools", "revision", "address", "about"]


def mcp(shell: Any, agent: Agent, words: Sequence[str]) -> MCPTable | pd.DataFrame | None:
    """List the agent's MCP servers, or their resources or prompts; send a prompt; use the servers in a file; or close
    servers.
    """
    match words:
        case []:
            return mcp_table(agent)
        case ["resources" | "prompts" as kind]:
            return _offers(agent, kind)
        case ["prompt", *given]:
            run_sync(shell.magics_manager.registry["AgentMagics"].asking(prompt_text(agent, given)))
        case ["use", file, *names]:
            servers = MCPServer.from_config(file, *names)
            agent.use(*servers)
            print(f"{', '.join(server.name for server in servers)}: connecting. %agent mcp shows the state.")
        case ["close", *names] if names:
            known = servers_of(agent)
            for name in names:
                _check_known("server", name, known)
            for name in names:
                run_sync(known[name].aclose())
            print(f"{', '.join(names)}: closed. The next prompt connects again.")
        case _:
            raise UsageError(f"%agent mcp {MCP_USAGE}")
    return None


def _offers(agent: Agent, kind: str) -> pd.DataFrame:
    """The resources or prompts of all servers, one row each. Waits for servers that are connecting."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name, server in servers_of(agent).items():
        found: Sequence[Resource | Prompt]
        found = run_sync(server.resources()) if kind == "resources" else run_sync(server.prompts())
        rows += [{"server": name, **each._asdict()} for each in found]
    fields = Resource._fields if kind == "resources" else Prompt._fields
    return pd.DataFrame(rows, columns=["server", *fields]).map(_shown).set_index("server")


def _shown(value: Any) -> str:
    """A cell of the table. Optional arguments have a question mark."""
    if isinstance(value, dict):
        value = " ".join(name if needed else f"{name}?" for name, needed in value.items())
    return render.printable(shortened(value, MAX_TEXT))


def prompt_text(agent: Agent, words: Sequence[str]) -> str:
    """The text of the MCP prompt that the words `SERVER:NAME KEY=VALUE …` name. Values may be quoted."""
    name, *given = shlex.split(" ".join(words)) or [""]
    server, _, prompt = name.partition(":")
    servers = servers_of(agent)
    _check_known("server", server, servers)
    prompts = {each.name: each for each in run_sync(servers[server].prompts())}
    _check_known("prompt", prompt, prompts)
    arguments = dict(each.split("=", 1) for each in given if "=" in each)
    known = prompts[prompt].arguments
    for argument in arguments:
        _check_known("argument", argument, known)
    missing = [argument for argument, needed in known.items() if needed and argument not in arguments]
    if missing or len(arguments) < len(given):
        usage = " ".join(f"{argument}=…" if needed else f"[{argument}=…]" for argument, needed in known.items())
        raise UsageError(f"%agent mcp prompt {name} {usage}")
    return content_as_text(run_sync(servers[server].prompt(prompt, **arguments)))


def _check_known(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise UsageError(f"%agent mcp: there is no {kind} {name}{suggestion(name, known)}")


@dataclass(frozen=True, eq=False)
class MCPTable:
    """An agent's MCP servers as a table for a cell. `frame` has the data.

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
        for server in servers_of(agent).values()
    ]
    return MCPTable(pd.DataFrame(rows, columns=_COLUMNS).set_index("server"))


def _row_html(row: tuple[str, ...]) -> str:
    name, state, tools, revision, address, about = map(render.escape, row)
    quiet = '<div class="nbagent-quiet">{}</div>'.format
    listed = " ".join(f"<code>{tool}</code>" for tool in tools.split())
    facts = quiet(revision) + quiet(f'<span style="white-space: pre-wrap">{about}</span>')
    server = f'<td style="overflow-wrap: anywhere">{name}{quiet(address)}</td>'
    return f"<tr>{server}<td>{state}{facts}</td><td>{listed}</td></tr>"
