"""Where `make test-all` installs what others wrote: `.venv-mcp` (MCP servers, their suite), `.venv-clients`."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2] / ".venv-mcp"
CLIENTS = HERE.with_name(".venv-clients")
NODE = str(HERE / "bin/node")


def installed(name: str) -> list[str]:
    """The command of a program in `.venv-mcp`: of PyPI, or of npm. Skips the test if `make test-all` has not run."""
    if (program := HERE / "bin" / name).exists():
        return [str(program)]
    if (program := HERE / "node_modules/.bin" / name).exists():
        return [NODE, str(program)]
    pytest.skip(f"{name} is not in {HERE.name}: `make test-all` installs it")


def conformance(*arguments: str) -> list[str]:
    """The command of the conformance suite: `conformance("server", "--url", url, "--requirements", "2026-07-28")`."""
    return [*installed("conformance"), *arguments]


def with_node() -> dict[str, str]:
    return os.environ | {"PATH": f"{HERE / 'bin'}{os.pathsep}{os.environ['PATH']}"}
