"""Reads an `mcp.json`, the form in which editors and coding agents keep their MCP servers.

::

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"]},
        "tickets": {"url": "https://tickets.example.com/mcp", "headers": {"Authorization": "Bearer ${TICKETS_TOKEN}"}}
    }}
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, TypeAdapter, ValidationError, model_validator

from nbagent.checks import check_choice, problem_in
from nbagent.errors import ConfigurationError

#: `${VAR}`, `${VAR:-default}`, and `${env:VAR}` as one editor writes it.
_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def _expanded(text: str) -> str:
    """The text with the variables of the environment in it. The error names a variable, never a value."""

    def value(found: re.Match[str]) -> str:
        name = found["name"]
        text: str | None = os.environ.get(name, found["default"])
        if text is None:
            raise ValueError(f"the environment variable {name} is not set. Set it, or write ${{{name}:-default}}")
        return text

    return _VARIABLE.sub(value, text)


_Text = Annotated[str, AfterValidator(_expanded)]


class _Server(BaseModel):
    """One server of the file. The old transport `sse` is gone from the protocol."""

    type: Literal["stdio", "http", "streamable-http", "streamableHttp"] | None = None
    command: _Text | None = None
    args: list[_Text] = []
    env: dict[str, _Text] = {}
    cwd: _Text | None = None
    url: _Text | None = None
    headers: dict[str, _Text] = {}

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("expected either a command or a url")
        return self

    def arguments(self) -> dict[str, Any]:
        """Those of `MCPServer`."""
        if self.url is not None:
            return {"command": [self.url], "headers": self.headers}
        return {"command": [self.command, *self.args], "env": self.env, "cwd": self.cwd}


class _File(BaseModel):
    servers: dict[str, dict[str, Any]] = Field(validation_alias=AliasChoices("mcpServers", "servers"))


def read_config(path: str | os.PathLike[str], names: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    """The servers of a file by name, or only these: the arguments of `MCPServer`.

    Servers with `"disabled": true` are left out. Raises ConfigurationError that names the file, the server and what is
    wrong with it.
    """
    file = Path(path).expanduser()
    try:
        servers = _File.model_validate_json(file.read_bytes()).servers
        servers = {name: each for name, each in servers.items() if not each.get("disabled")}
        chosen = list(names) or list(servers)
        for name in chosen:
            check_choice("from_config()", name, servers)
        read = TypeAdapter(dict[str, _Server]).validate_python({name: servers[name] for name in chosen})
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r} can't be read: {error.strerror or type(error).__name__}.") from None
    except ValidationError as error:
        raise ConfigurationError(f"{str(file)!r}: {problem_in(error)}.") from None
    return {name: each.arguments() for name, each in read.items()}
