"""The `nbagent` command: `nbagent pull`, `nbagent write report.ipynb TASK`, `nbagent serve app.py:agent` and others."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from nbagent.errors import ConfigurationError, NbagentError, missing_extra
from nbagent.providers.larger_models import LARGER_MODELS
from nbagent.text import did_you_mean


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit status.

    The exit status is 0 for success, 1 for an error (printed to standard error) or a failed notebook, and 130 for
    Ctrl-C. Wrong arguments raise `SystemExit(2)`.

    >>> main(["pull", "--quiet"])                                           # doctest: +SKIP
    0
    """
    arguments = _parser().parse_args(argv)
    try:
        status: int | None = arguments.run(arguments)
    except NbagentError as exc:
        print(f"nbagent: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("nbagent: stopped", file=sys.stderr)
        return 130
    return status or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nbagent", description="Agents at home in Jupyter.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    pull = commands.add_parser(
        "pull", help="fetch the embedded model (93 MB, once), or a larger one", description=_pull.__doc__
    )
    larger = ", ".join(f"{each.name} ({each.size})" for each in LARGER_MODELS.values())
    pull.add_argument("name", nargs="?", metavar="NAME", help=f"the embedded model by default, or {larger}")
    pull.add_argument("--quiet", action="store_true", help="no progress bar")
    pull.set_defaults(run=_pull)
    doctor = commands.add_parser(
        "doctor", help="show versions, keys, servers and models on this machine", description=_doctor.__doc__
    )
    doctor.set_defaults(run=_doctor)
    _add_notebooks(commands)
    _add_serve(commands)
    _add_acp(commands)
    mcp = commands.add_parser("mcp", help="serve the tools of a Python file to MCP clients", description=_mcp.__doc__)
    mcp.add_argument("file", help="a Python file with functions decorated with @nbagent.tool")
    mcp.add_argument("--http", action="store_true", help="serve on a loopback port instead of stdin and stdout")
    mcp.add_argument("--port", type=int, metavar="N", help="the port for --http; by default a free one")
    mcp.add_argument("--tools", metavar="NAME,NAME", help="offer only these tools")
    mcp.set_defaults(run=_mcp)
    return parser


def _add_notebooks(commands: Any) -> None:
    write = commands.add_parser("write", help="let an agent write a notebook", description=_write.__doc__)
    fix = commands.add_parser("fix", help="let an agent repair a notebook", description=_fix.__doc__)
    verify = commands.add_parser("verify", help="check that a notebook reproduces", description=_verify.__doc__)
    for command, run in ((write, _write), (fix, _fix), (verify, _verify)):
        command.add_argument("file", help="a notebook, such as report.ipynb")
        command.set_defaults(run=run)
    write.add_argument("task", help="what to find out, in words")
    for command in (write, fix):
        command.add_argument("--model", metavar="PROVIDER:MODEL", help="by default the model that Agent() uses")
        command.add_argument("--budget", type=float, metavar="DOLLARS", help="maximum total cost of the model")
    for command in (write, fix, verify):
        command.add_argument("--kernel", metavar="NAME", help="an installed kernel; by default the notebook's")
        command.add_argument("--seconds", type=float, default=60.0, metavar="N", help="per cell; 60 by default")


def _add_acp(commands: Any) -> None:
    acp = commands.add_parser("acp", help="serve an agent to an editor or Jupyter AI", description=_acp.__doc__)
    acp.add_argument(
        "agent",
        nargs="?",
        default=os.environ.get("NBAGENT_AGENT"),
        help="app.py:agent or module:function; by default $NBAGENT_AGENT, else Agent()",
    )
    acp.add_argument("--store", metavar="ADDRESS", help="where sessions are kept, as for serve; by default a file")
    acp.add_argument(
        "--model", action="append", default=[], metavar="PROVIDER:MODEL", help="sessions may choose it; repeatable"
    )
    acp.set_defaults(run=_acp)


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="serve an agent over HTTP",
        description=_serve.__doc__,
        epilog="Each option has an environment variable, such as NBAGENT_SERVE_MAX_COST for --max-cost. Separate the "
        "values of repeatable options with commas. 1 turns on an option without a value.",
    )
    serve.add_argument(
        "agent",
        nargs="*",
        help="app.py:agent or module:function; by default Agent(). Several agents are listed at /v1/models",
    )
    where = _Options(serve.add_argument_group("where it serves, and what it keeps"))
    where.add("--host", default="127.0.0.1", help="the address to listen on; 127.0.0.1 by default")
    where.add_number("--port", 8000, "the port; 0 chooses a free one")
    where.add_number("--workers", 1, "processes")
    where.add("--store", metavar="ADDRESS", help="memory:, sqlite:///FILE or redis://…; by default a file")
    where.add("--keep-days", type=float, metavar="N", help="delete a conversation N days after its last turn")
    where.add_number("--grace", 10.0, "time for runs to end when the server stops", "SECONDS")
    who = _Options(serve.add_argument_group("who may use it"))
    who.add("--token-file", metavar="FILE", help="a TOML file of named tokens; changes apply immediately")
    who.add(
        "--allow-host", action="append", default=[], metavar="NAME", help="a host name that clients use; repeatable"
    )
    who.add("--origin", action="append", default=[], help="a web page that may send requests (CORS); repeatable")
    who.add("--model", action="append", default=[], metavar="PROVIDER:MODEL", help="requests may choose it; repeatable")
    most = _Options(serve.add_argument_group("limits"))
    most.add("--max-cost", type=float, metavar="DOLLARS", help="budget of each request")
    most.add("--max-cost-per-conversation", type=float, metavar="DOLLARS", help="budget of each conversation")
    most.add("--max-cost-per-token", type=float, metavar="DOLLARS", help="budget of each token")
    most.add_number("--requests-per-minute", 600, "per token, 0 for no limit")
    most.add_number("--max-concurrent", 64, "simultaneous runs per token, 0 for no limit")
    most.add_number("--max-connections", 1000, "open connections of all clients")
    most.add_number("--max-body-bytes", 10 * 2**20, "the largest request body")
    most.add_number("--body-seconds", 30.0, "time for a request body to arrive", "SECONDS")
    most.add_number("--approval-seconds", 300.0, "time for a person to approve a call", "SECONDS")
    logs = _Options(serve.add_argument_group("logs, on standard error"))
    logs.add("--log-level", default="info", choices=["debug", "info", "warning", "error"], help="info by default")
    logs.add("--log-json", action="store_true", help="write each entry as a line of JSON")
    logs.add("--access-log", action="store_true", help="log each request with its id")
    serve.set_defaults(run=_serve)


class _Options:
    """Options whose defaults come from the environment."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def add(self, name: str, **options: Any) -> None:
        """Add an option. argparse parses a default that is text as if it were typed."""
        text = os.environ.get(f"NBAGENT_SERVE_{name.removeprefix('--').replace('-', '_').upper()}")
        if text is not None:
            default = {"append": text.split(","), "store_true": text == "1"}.get(options.get("action", ""), text)
            options["default"] = default
        self._group.add_argument(name, **options)

    def add_number(self, name: str, default: float, about: str, metavar: str = "N") -> None:
        """Add an option for numbers of its default's type. Its help names the default."""
        self.add(name, type=type(default), default=default, metavar=metavar, help=f"{about}; {default:.12g} by default")


def _pull(arguments: argparse.Namespace) -> None:
    """Fetch the embedded model or a larger one, check it, and print its path. `Agent("local:NAME")` uses a larger one.
    If the download of a larger one is interrupted, the same command continues it.
    """
    from nbagent.providers.local.download import SMOLLM2, pull

    name = arguments.name or SMOLLM2.name
    model = SMOLLM2 if name == SMOLLM2.name else LARGER_MODELS.get(name)
    if model is None:
        hint = did_you_mean(name, LARGER_MODELS) or "."
        raise ConfigurationError(f"pull: there is no model {name!r}{hint} The models are {', '.join(LARGER_MODELS)}.")
    print(pull(model, progress=not arguments.quiet))


def _doctor(arguments: argparse.Namespace) -> None:
    """Print versions, extras, names of keys, local servers, models, and the model that `Agent()` would use."""
    from nbagent.doctor import report

    print(report())


def _write(arguments: argparse.Namespace) -> int:
    """Let an agent do a task in a notebook, cell by cell, until the notebook runs in a fresh kernel. The code runs with
    your permissions and without approval. Existing cells are kept, so the same command continues after an interruption.
    The exit status is 0 if the notebook runs.
    """
    from nbagent.notebook.analyst import terminal

    return terminal.write(arguments)


def _fix(arguments: argparse.Namespace) -> int:
    """Run a notebook from top to bottom, let an agent repair failing cells, and print the diff. The exit status is 0 if
    the notebook then runs.
    """
    from nbagent.notebook.analyst import terminal

    return terminal.fix(arguments)


def _verify(arguments: argparse.Namespace) -> int:
    """Run a notebook from top to bottom in a fresh kernel, and compare its outputs with the saved ones. It does not
    change the notebook and calls no model. The exit status is 0 if no cell fails and no output differs.
    """
    from nbagent.notebook.analyst import terminal

    return terminal.verify(arguments)


def _mcp(arguments: argparse.Namespace) -> None:
    """Serve the tools of a Python file to MCP clients, over stdin and stdout. Code below `if __name__ == "__main__":`
    does not run. Needs the `mcp` extra.
    """
    try:
        from nbagent.mcp.server import script
    except ModuleNotFoundError as error:
        raise missing_extra("MCP", "mcp") from error
    only = arguments.tools.split(",") if arguments.tools else None
    if arguments.port is not None and not arguments.http:
        raise ConfigurationError("--port requires --http. Add --http, or omit --port.")
    if arguments.http:
        script.serve_http(arguments.file, partial(print, flush=True), only, port=arguments.port or 0)
        return
    if sys.stdin.isatty():
        print(f"For your client's configuration:\n{script.stdio_configuration(arguments.file)}", file=sys.stderr)
    script.serve_stdio(arguments.file, only)


def _acp(arguments: argparse.Namespace) -> None:
    """Serve an agent over stdin and stdout (Agent Client Protocol) to the program that starts this command, such as an
    editor. Needs the `acp` extra.
    """
    try:
        from nbagent.acp import stdio
    except ModuleNotFoundError as error:
        raise missing_extra("The Agent Client Protocol", "acp") from error
    from nbagent.loading import load_agent

    stdio.serve_stdio(partial(load_agent, arguments.agent), arguments.store, arguments.model)


def _serve(arguments: argparse.Namespace) -> None:
    """Serve an agent over HTTP, behind tokens (`NBAGENT_SERVE_TOKEN` or `--token-file`), until Ctrl-C. Needs the
    `server` extra.
    """
    try:
        from nbagent.server import running
    except ModuleNotFoundError as error:
        raise missing_extra("The server", "server") from error
    running.serve(arguments, partial(print, flush=True))


if __name__ == "__main__":
    sys.exit(main())
