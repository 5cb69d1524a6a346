"""A server for tests of the client: over stdio without a handshake, and over HTTP with one."""

import pytest
from support.mcp_playground import legacy_app
from support.mcp_servers import on_stdio, serving

from nbagent import MCPServer
from nbagent.core.background import run_sync


@pytest.fixture(scope="module", params=["modern", "legacy"])
def server(request):
    """The server, and whether it is a legacy one."""
    with serving(legacy_app()) as url:
        found = on_stdio() if request.param == "modern" else MCPServer(f"{url}/mcp", name="play")
        yield found, request.param
        run_sync(found.aclose())
