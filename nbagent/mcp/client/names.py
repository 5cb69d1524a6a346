"""Names for the tools of a server, and a server's own name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

MAX_CHARS = 64
_FOREIGN = re.compile(r"[^\w-]+")
#: Programs that start other programs, and the words by which some of them are told so.
_RUNNERS = re.compile(
    r"npx|npm|node|bunx?|deno|pnpm|yarn|uvx?|pipx|pythonw?[\d.]*|docker|podman|env|cmd|run|exec|dlx|tool", re.IGNORECASE
)
#: What the names of servers have in common.
_COMMON = re.compile(r"^(mcp[-_])?server[-_]|^mcp[-_]|[-_]mcp[-_]server$|[-_](mcp|server)$|\.(py|js|mjs|ts|exe)$", re.I)


def offered_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """The tools by the names that a model gets, which begin with the server's. Of two equal ones, one gets a suffix.

    >>> offered_names("files", ["read", "read.all", "read/all"])
    {'files_read': 'read', 'files_read_all': 'read.all', 'files_read_all_4a2b2c': 'read/all'}
    """
    names: dict[str, str] = {}
    for tool in sorted(dict.fromkeys(tools), key=lambda name: (_FOREIGN.search(name) is not None, name)):
        name = clean(f"{server}_{tool}")
        if len(name) > MAX_CHARS or name in names:
            suffix = f"_{hashlib.sha256(tool.encode()).hexdigest()[:6]}"
            name = name[: MAX_CHARS - len(suffix)] + suffix
        names.setdefault(name, tool)
    return names


def clean(name: str) -> str:
    """The name with an underscore for what is no letter, digit or hyphen."""
    return _FOREIGN.sub("_", name)


def name_of_command(command: Sequence[str]) -> str:
    """What a server is called that is started so.

    >>> name_of_command(["npx", "-y", "@modelcontextprotocol/server-filesystem@1.2", "/data"])
    'filesystem'
    >>> name_of_command(["uvx", "mcp-server-time"]), name_of_command(["python", "tools/weather.py"])
    ('time', 'weather')
    """
    words = (PurePath(word).name for word in command if not word.startswith("-"))
    word = next((word for word in words if not _RUNNERS.fullmatch(word)), PurePath(command[0]).name)
    return _short(word.partition("@")[0])


def name_of_url(url: str) -> str:
    """What a server at this address is called.

    >>> name_of_url("https://mcp.example.com/v1/mcp"), name_of_url("http://127.0.0.1:8000/mcp")
    ('example', '127_0_0_1')
    """
    host = urlsplit(url).hostname or ""
    labels = [label for label in host.split(".")[:-1] if label not in ("mcp", "api", "www")]
    return _short(host if host.replace(".", "").isdigit() or not labels else labels[-1])


def _short(word: str) -> str:
    return clean(_COMMON.sub("", _COMMON.sub("", word)))[:24].strip("_-") or "mcp"
