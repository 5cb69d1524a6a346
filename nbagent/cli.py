"""The `nbagent` command. `nbagent pull` fetches the embedded model; after that everything works offline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from nbagent.errors import NbagentError


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
    return parser


def _pull(arguments: argparse.Namespace) -> None:
    """Fetch the embedded model, check it, and print where it is."""
    from nbagent.providers.local.download import pull, verified

    path = verified(cache_dir=arguments.cache_dir)
    if path:
        print("nbagent: the embedded model is already there", file=sys.stderr)
    print(path or pull(cache_dir=arguments.cache_dir, progress=not arguments.quiet))


if __name__ == "__main__":
    sys.exit(main())
