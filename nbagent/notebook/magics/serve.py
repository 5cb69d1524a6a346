"""`%agent serve`: the notebook's tools for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import UsageError

from nbagent.agent import Agent
from nbagent.errors import ConfigurationError
from nbagent.mcp import MISSING

if TYPE_CHECKING:
    from nbagent.notebook.serving import NotebookServing

USAGE = "--mcp [--port N] [--tools NAME,NAME] | --stop"
#: The server of this kernel, if there is one.
_servings: list[NotebookServing] = []


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%agent serve {USAGE}: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(add_help=False, allow_abbrev=False)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--mcp", action="store_true")
    what.add_argument("--stop", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tools", type=lambda text: text.split(","))
    return parser


def serve(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Serve the notebook's tools to MCP clients on this machine, or stop that."""
    options = _parser().parse_args(words)
    running = next((each for each in _servings if each.is_running), None)
    if options.stop:
        print("The MCP server has ended." if running else "No server is running.")
        stop_serving()
        return
    if running:
        raise UsageError(f"%agent serve: it already serves at {running.url}; %agent serve --stop ends that")
    try:
        from nbagent.notebook.serving import NotebookServing
    except ModuleNotFoundError as error:
        raise ConfigurationError(MISSING) from error
    _servings[:] = [NotebookServing(shell, agent, port=options.port, only=options.tools)]


def stop_calls() -> int:
    """Stop the calls of MCP clients that are running. Returns their number."""
    return sum(serving.stop_calls() for serving in _servings)


def stop_serving() -> None:
    """Stop the server of this kernel, if there is one."""
    while _servings:
        _servings.pop().stop()
