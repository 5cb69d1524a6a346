"""Reads an `mcp.json`, the file in which editors and coding agents list MCP servers.

::

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${workspaceFolder}"]},
        "tickets": {"url": "https://tickets.example.com/mcp", "headers": {"Authorization": "Bearer ${TICKETS_TOKEN}"}}
    }}
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from getpass import getpass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from nbagent.checks import check_choice, problem_in
from nbagent.errors import ConfigurationError, missing_extra

logger = logging.getLogger("nbagent")

#: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${workspaceFolder}`, `${input:key}`.
_VARIABLE = re.compile(r"\$\{(?:(?P<kind>env|input|config|command):)?(?P<name>[\w./-]+)(?P<default>:-[^}]*)?\}")


class _Input(BaseModel):
    """A value that the user is asked for, once per file."""

    id: str
    description: str = ""
    default: str = ""
    password: bool = False
    options: list[Any] = []

    def ask(self) -> str:
        choices = f" ({', '.join(map(str, self.options))})" if self.options else ""
        default = f" [{self.default}]" if self.default else ""
        try:
            answer = (getpass if self.password else input)(f"{self.description or self.id}{choices}{default}: ")
        except (EOFError, NotImplementedError):  # no terminal, or a kernel whose client has no input box
            fix = f'Pass from_config(…, inputs={{"{self.id}": "…"}})'
            raise ValueError(f"${{input:{self.id}}} has no value, and there is nobody to ask. {fix}") from None
        return answer.strip() or self.default


class _File(BaseModel):
    servers: dict[str, Any] = Field(validation_alias=AliasChoices("mcpServers", "servers"))
    inputs: list[_Input] = []


class _Variables:
    """The values of `${…}` in a file. Errors contain a variable's name, never a value."""

    def __init__(self, file: Path, questions: Iterable[_Input], inputs: Mapping[str, str]) -> None:
        folder = file.absolute().parent
        #: Editors keep the file in a hidden folder of the workspace, such as `.vscode`.
        self.workspace = folder.parent if folder.name.startswith(".") else folder
        self._questions = {question.id: question for question in questions}
        self._inputs = dict(inputs)
        self._known = {
            "workspaceFolder": str(self.workspace),
            "workspaceFolderBasename": self.workspace.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }

    def fill(self, text: str) -> str:
        return _VARIABLE.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        kind, name, default = found["kind"], found["name"], found["default"]
        if kind == "input":
            if name not in self._inputs:
                if name not in self._questions:
                    raise ValueError(f"{found[0]} is not among the file's inputs")
                self._inputs[name] = self._questions[name].ask()
            return self._inputs[name]
        if kind in ("config", "command"):
            raise ValueError(f"only the editor knows {found[0]}. Replace it with its value")
        if kind is None and name in self._known:
            return self._known[name]
        value = os.environ.get(name, default and default[2:])
        if value is None:
            raise ValueError(f"the environment variable {name} is not set. Set it, or write ${{{name}:-default}}")
        return value


def _filled(text: str, info: ValidationInfo) -> str:
    assert isinstance(info.context, _Variables)
    return info.context.fill(text)


_Text = Annotated[str, AfterValidator(_filled)]


class _Server(BaseModel):
    """A server in the file. The old transport `sse` is no longer part of the protocol."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    type: Literal["stdio", "http", "streamable-http", "streamableHttp"] | None = None
    command: _Text | None = None
    args: list[_Text] = []
    env: dict[str, _Text] = {}
    env_file: _Text | None = Field(None, alias="envFile")
    cwd: _Text | None = None
    url: _Text | None = Field(None, validation_alias=AliasChoices("url", "serverUrl", "httpUrl"))
    headers: dict[str, _Text] = {}

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("expected either a command or a url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError("expected a url that starts with https:// or http://")
        return self

    def arguments(self, variables: _Variables) -> dict[str, Any]:
        """The arguments for `MCPServer`."""
        if self.url is not None:
            return {"command": [self.url], "headers": self.headers}
        env = self.env
        if self.env_file is not None:
            with open(variables.workspace / Path(self.env_file).expanduser(), encoding="utf-8-sig") as file:
                values = dotenv_values(stream=file, interpolate=False)
            env = {name: value for name, value in values.items() if value is not None} | env
        return {"command": [self.command, *self.args], "env": env, "cwd": self.cwd}


def read_config(
    path: str | os.PathLike[str], names: Iterable[str] = (), inputs: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the `MCPServer` arguments for each server in a file, or only for the servers in `names`.

    Comments and trailing commas are allowed. Servers with `"disabled": true` are omitted. So are servers with an error,
    which is logged. Raises ConfigurationError if a server in `names` has an error, or if every enabled server has an
    error. The message names the file, the server and the error.
    """
    try:
        import json5
    except ImportError:
        raise missing_extra("MCP", "mcp") from None
    file = Path(path).expanduser()
    try:
        content = _File.model_validate(json5.loads(file.read_text("utf-8-sig")))
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r} can't be read: {error.strerror or type(error).__name__}.") from None
    except ValidationError as error:
        raise ConfigurationError(f"{str(file)!r}: {problem_in(error)}.") from None
    except ValueError as error:
        raise ConfigurationError(f"{str(file)!r} is not JSON: {error}.") from None
    variables = _Variables(file, content.inputs, inputs or {})
    names = list(names)
    servers = {name: server if isinstance(server, dict) else {} for name, server in content.servers.items()}
    used = {name: server for name, server in servers.items() if not server.get("disabled")}
    for name in names:
        check_choice("from_config()", name, used)
    read: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for name in names or used:
        try:
            given = {key: value for key, value in used[name].items() if value is not None}
            read[name] = _Server.model_validate(given, context=variables).arguments(variables)
        except (ValidationError, OSError) as error:
            problem = problem_in(error) if isinstance(error, ValidationError) else f"envFile can't be read: {error}"
            problems.append(f"{str(file)!r}: {name}: {problem}.")
    if problems and (names or not read):
        raise ConfigurationError("\n".join(problems))
    for problem in problems:
        logger.warning("%s This server is omitted.", problem)
    return read
