"""Reads an `mcp.json`, the form in which editors and coding agents keep their MCP servers.

::

    {"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"]},
        "tickets": {"url": "https://tickets.example.com/mcp", "headers": {"Authorization": "Bearer ${TICKETS_TOKEN}"}}
    }}
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbagent.checks import check_type, invalid
from nbagent.errors import ConfigurationError

#: `${VAR}`, `${VAR:-default}`, and `${env:VAR}` as one editor writes it.
_VARIABLE = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_TRANSPORTS = ("stdio", "http", "streamable-http", "streamableHttp")


def read_config(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """The servers of a file by name: the arguments of `MCPServer`. Servers with `"disabled": true` are left out.

    Raises ConfigurationError that names the file, the server and what is wrong with it.
    """
    file = Path(path).expanduser()
    try:
        data = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r} can't be read: {error.strerror or type(error).__name__}.") from None
    except ValueError as error:
        raise ConfigurationError(f"{str(file)!r} is not JSON: {error}.") from None
    servers = data.get("mcpServers", data.get("servers")) if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        example = '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"]}}}'
        raise ConfigurationError(f"{str(file)!r} has no servers: expected an object like {example}.")
    found = {}
    for name, entry in servers.items():
        check_type(f"{file.name}: {name}", entry, dict)
        if not entry.get("disabled"):
            found[name] = _arguments(f"{file.name}: {name}", entry)
    return found


def _arguments(owner: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    kind = entry.get("type", "stdio" if "command" in entry else "http")
    if kind not in _TRANSPORTS:
        fix = "The old transport is gone from the protocol: ask for the server's /mcp address." if kind == "sse" else ""
        raise invalid(f"{owner}: type", kind, "'stdio' or 'http'", fix)
    if ("command" in entry) == ("url" in entry):
        raise ConfigurationError(f"{owner}: expected either a command or a url.")
    if "url" in entry:
        return {"command": [_text(f"{owner}: url", entry["url"])], "headers": _texts(owner, entry, "headers")}
    arguments = entry.get("args", [])
    check_type(f"{owner}: args", arguments, list)
    command = [_text(f"{owner}: command", word) for word in (entry["command"], *arguments)]
    cwd = _text(f"{owner}: cwd", entry["cwd"]) if "cwd" in entry else None
    return {"command": command, "env": _texts(owner, entry, "env"), "cwd": cwd}


def _texts(owner: str, entry: Mapping[str, Any], name: str) -> dict[str, str]:
    given = entry.get(name, {})
    check_type(f"{owner}: {name}", given, dict)
    return {key: _text(f"{owner}: {name}.{key}", value) for key, value in given.items()}


def _text(where: str, value: Any) -> str:
    """The value with the variables of the environment in it. The error names a variable, never a value."""
    if not isinstance(value, str):
        raise invalid(where, value, "a string", secret=True)

    def expanded(found: re.Match[str]) -> str:
        text: str | None = os.environ.get(found["name"], found["default"])
        if text is None:
            name = found["name"]
            fix = f"Set it, or write ${{{name}:-default}}."
            raise ConfigurationError(f"{where}: the environment variable {name} is not set. {fix}")
        return text

    return _VARIABLE.sub(expanded, value)
