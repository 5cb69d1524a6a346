"""The `nbagent` command.

`nbagent pull` fetches the embedded model; after that everything works offline. `nbagent mcp FILE` serves the tools of a
Python file to MCP clients.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from nbagent.errors import ConfigurationError, NbagentError
from nbagent.mcp import MISSING


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the exit status: 0, 1 for an error (printed to standard error), 130 for Ctrl-C.

    >>> main(["pull", "--quiet"])                                           # doctest: +SKIP
    0
    """
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except NbagentError as exc:
        print(f"nbagent: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("nbagent: stopped", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nbagent", description="Agents at home in Jupyter.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    pull = commands.add_parser("pull", help="fetch the embedded model (93 MB, once)", description=_pull.__doc__)
    pull.add_argument("--cache-dir", help="store it here instead of in $NBAGENT_CACHE or the user's cache directory")
    pull.add_argument("--quiet", action="store_true", help="no progress bar")
    pull.set_defaults(run=_pull)
    mcp = commands.add_parser("mcp", help="serve the tools of a Python file to MCP clients", description=_mcp.__doc__)
    mcp.add_argument("file", help="a Python file with functions decorated with @nbagent.tool")
    mcp.add_argument("--http", action="store_true", help="serve on a loopback port instead of stdin and stdout")
    mcp.add_argument("--port", type=int, metavar="N", help="the port for --http; a free one by default")
    mcp.add_argument("--tools", metavar="NAME,NAME", help="offer only these tools")
    mcp.set_defaults(run=_mcp)
    return parser


def _pull(arguments: argparse.Namespace) -> None:
    """Fetch the embedded model, check it, and print where it is."""
    from nbagent.providers.local.download import pull, verified

    path = verified(cache_dir=arguments.cache_dir)
    if path:
        print("nbagent: the embedded model is already there", file=sys.stderr)
    print(path or pull(cache_dir=arguments.cache_dir, progress=not arguments.quiet))


def _mcp(arguments: argparse.Namespace) -> None:
    """Serve the tools of a Python file to MCP clients, over stdin and stdout. What is below `if __name__ ==
    "__main__":` does not run. Needs `pip install 'nbagent[mcp]'`.
    """
    try:
        from nbagent.mcp.server import script
    except ModuleNotFoundError as error:
        raise ConfigurationError(MISSING) from error
    only = arguments.tools.split(",") if arguments.tools else None
    if arguments.port is not None and not arguments.http:
        raise ConfigurationError("--port: it belongs to --http. Add --http, or leave the port out.")
    if arguments.http:
        script.serve_http(arguments.file, partial(print, flush=True), only, port=arguments.port or 0)
        return
    if sys.stdin.isatty():
        print(f"For your client's configuration:\n{script.stdio_configuration(arguments.file)}", file=sys.stderr)
    script.serve_stdio(arguments.file, only)


if __name__ == "__main__":
    sys.exit(main())
