"""Serves the tools in a Python file, for `nbagent mcp`, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from contextvars import copy_context
from pathlib import Path

from mcp.server.stdio import stdio_server

from nbagent.agent.agent import Agent
from nbagent.core.background import run_sync
from nbagent.functions.live import live
from nbagent.loading import run_file
from nbagent.mcp.server.http import HTTPServing
from nbagent.mcp.server.tool_server import ToolServer
from nbagent.providers.scripted import ScriptedProvider


def serve_stdio(path: str, only: Iterable[str] | None = None) -> None:
    """Serve the file's tools over stdio until the client disconnects. The file's own output goes to stderr."""
    with redirect_stdout(sys.stderr):
        server = ToolServer(load(path), only=only).server

    async def serve() -> None:
        async with stdio_server() as (read, write):
            with redirect_stdout(sys.stderr):  # buffered output must not reach the client at the end
                await server.run(read, write, server.create_initialization_options())

    run_sync(serve())


def serve_http(path: str, announce: Callable[[str], None], only: Iterable[str] | None = None, *, port: int = 0) -> None:
    """Serve the file's tools on a loopback port until Ctrl-C. `announce` receives the configuration for clients."""
    tools = ToolServer(load(path), only=only)

    async def serve() -> None:
        serving = HTTPServing(tools, port=port, context=copy_context()).start()
        announce(serving.client_configuration(Path(path).stem))
        try:
            await asyncio.wrap_future(serving.over)
        finally:
            await asyncio.to_thread(serving.stop)

    run_sync(serve())


def stdio_configuration(path: str) -> str:
    """The configuration, as one line of JSON, for clients that run the file themselves."""
    file = Path(path).resolve()
    command = {"command": sys.executable, "args": ["-m", "nbagent.cli", "mcp", str(file)]}
    return json.dumps({"mcpServers": {file.stem: command}})


def load(path: str) -> Agent:
    """Run the file as a module. Returns its variable `agent` if that is an agent, otherwise an agent with the live
    tools.

    Raises ConfigurationError if there is no such file, and any error that the file itself raises.
    """
    module = run_file(path)
    agent = getattr(module, "agent", None)
    return agent if isinstance(agent, Agent) else Agent(ScriptedProvider([]), tools=live)
