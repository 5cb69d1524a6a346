"""The server that each test of the client tries, in four ways."""

import pytest
from support.mcp_playground import app
from support.mcp_servers import on_stdio, serving

from nbagent import MCPServer
from nbagent.core.background import run_sync


@pytest.fixture(scope="module", params=["stdio-modern", "stdio-legacy", "http-modern", "http-legacy"])
def server(request):
    """The server, and whether it is a legacy one."""
    way, _, era = request.param.partition("-")
    if way == "stdio":
        found = on_stdio(*(["legacy"] * (era == "legacy")))
        yield found, era
    else:
        with serving(app(era == "legacy")) as url:
            found = MCPServer(f"{url}/mcp", name="play")
            yield found, era
            run_sync(found.aclose())
            return
    run_sync(found.aclose())
