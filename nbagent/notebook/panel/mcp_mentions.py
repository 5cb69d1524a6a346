"""`@server:address` in a question attaches a resource of an MCP server that the agent uses: `@docs:notes://today`.

A resource's own address or its name may follow the server's name, and a filled-in template too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbagent.agent.agent import Agent
from nbagent.chat.attachments import Attachment
from nbagent.core.background import run_sync
from nbagent.errors import MCPServerError
from nbagent.mcp.client.server import MCPServer
from nbagent.notebook.panel.attachments import from_resource, not_attached
from nbagent.notebook.panel.mentions import MAX_SUGGESTED, Suggestion, suggestion


def servers_of(agent: Agent) -> dict[str, MCPServer]:
    """The MCP servers that an agent uses, by name."""
    return {each.name: each for each in agent.toolsets if isinstance(each, MCPServer)}


def resource(agent: Agent, word: str) -> Attachment | None:
    """What a mention names, or None. Waits for the server. Raises `ConfigurationError` if it has no such resource."""
    name, colon, wanted = word.strip('"').partition(":")
    if not (colon and wanted and (server := servers_of(agent).get(name))):
        return None
    try:
        known = [] if re.match(r"\w[\w.+-]*:", wanted) else run_sync(server.resources())
        uri = next((each.uri for each in known if each.name == wanted), wanted)
        return from_resource(f"@{name}:{wanted}", run_sync(server.read(uri)))
    except MCPServerError as error:
        raise not_attached(f"@{name}:{wanted}", str(error)) from None


def suggest(agent: Agent, typed: str) -> Iterator[Suggestion]:
    """What can complete `typed`: servers, and after the colon the resources of one that is connected."""
    name, colon, begun = typed.lstrip('"').partition(":")
    servers = {each: server for each, server in servers_of(agent).items() if server.connection.state == "connected"}
    if not colon:
        for server in servers:
            if server.lower().startswith(name.lower()):
                yield Suggestion(f"@{server}:", "resources of an MCP server")
        return
    if name not in servers:
        return
    try:
        found = run_sync(servers[name].resources())
    except MCPServerError:
        return
    fitting = [each for each in found if each.uri.startswith(begun) or each.name.lower().startswith(begun.lower())]
    for each in fitting[:MAX_SUGGESTED]:
        yield suggestion(f"{name}:{each.uri}", each.description or each.name, quoted=typed.startswith('"'))
