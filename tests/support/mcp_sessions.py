"""Sessions of the official MCP client with servers of nbagent."""

import json
from contextlib import asynccontextmanager

from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

#: The ways to connect, by revision: as clients before 2026-07-28 do, and as later ones.
MODES = {"2025-11-25": "legacy", "2026-07-28": "auto"}


def configured(text):
    """The only server of a client's configuration, which is a line of JSON in this text."""
    line = next(line for line in text.splitlines() if line.startswith('{"mcpServers"'))
    (server,) = json.loads(line)["mcpServers"].values()
    return server


@asynccontextmanager
async def session(server, mode="auto", **options):
    """A client of a server that is configured by URL."""
    http = create_mcp_http_client(headers=server["headers"])
    async with http, Client(streamable_http_client(server["url"], http_client=http), mode=mode, **options) as client:
        yield client


def text_of(result):
    return "\n".join(block.text for block in result.content if block.type == "text")
