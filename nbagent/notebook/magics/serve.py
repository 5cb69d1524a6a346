"""`%agent serve`: serves the notebook's agent, or with `--mcp` its tools, to other programs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from IPython.core.error import UsageError

from nbagent.agent.agent import Agent
from nbagent.core.browser import check_possible
from nbagent.notebook.serving import AgentServing, MCPServing, NotebookServing

USAGE = "[--port N] [--clients-approve] | --mcp [--port N] [--tools NAME,NAME] | --stop"
#: The server of this kernel, if there is one.
_servings: list[NotebookServing] = []


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%agent serve {USAGE}: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--mcp", action="store_true")
    what.add_argument("--stop", action="store_true")
    parser.add_argument("--clients-approve", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tools", type=lambda text: text.split(","))
    return parser


def serve(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Serve the notebook's agent to programs on this machine, serve its tools to MCP clients, or stop serving."""
    check_possible("%agent serve", "sockets", "Serve the agent from a kernel on your machine.")
    options = _parser().parse_args(words)
    running = next((each for each in _servings if each.is_running), None)
    if options.stop:
        print(running.ended if running else "No server is running.")
        stop_serving()
        return
    if running:
        raise UsageError(f"%agent serve: a server is already running at {running.url}; %agent serve --stop stops it")
    if options.tools and not options.mcp:
        raise UsageError("%agent serve: --tools requires --mcp")
    if options.clients_approve and options.mcp:
        raise UsageError("%agent serve: with --mcp, you approve calls; omit --clients-approve")
    if options.mcp:
        _servings[:] = [MCPServing(shell, agent, port=options.port, only=options.tools)]
    else:
        _servings[:] = [AgentServing(shell, agent, port=options.port, clients_approve=options.clients_approve)]


def stop_calls() -> int:
    """Stop the clients' running calls and runs. Returns the number of stopped calls and runs."""
    return sum(serving.stop_calls() for serving in _servings)


def stop_serving() -> None:
    """Stop this kernel's server, if it is running."""
    while _servings:
        _servings.pop().stop()
