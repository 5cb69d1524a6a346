"""MCP servers of our own, in each way that a client can reach one."""

import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from nbagent.mcp.client.server import MCPServer

PLAYGROUND = str(Path(__file__).with_name("mcp_playground.py"))
TOKEN = "hunter2-hunter2"


def on_stdio(*words, **options):
    options = {"name": "play", "env": {"PLAYGROUND_TOKEN": TOKEN}} | options
    return MCPServer(sys.executable, PLAYGROUND, *words, **options)


@contextmanager
def serving(application):
    options = {"port": 0, "log_level": "critical", "ws": "none", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(application, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
