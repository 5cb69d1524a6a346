"""Names for a server and its tools."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from urllib.parse import urlsplit

from nbagent.functions.registry import clean_name

#: Programs that run other programs, and some of their subcommands.
_RUNNERS = re.compile(
    r"npx|npm|node|bunx?|deno|pnpm|yarn|uvx?|pipx|pythonw?[\d.]*|docker|podman|env|cmd|run|exec|dlx|tool", re.IGNORECASE
)
#: Parts that many servers' names have in common.
_COMMON = re.compile(r"^(mcp[-_])?server[-_]|^mcp[-_]|[-_]mcp[-_]server$|[-_](mcp|server)$|\.(py|js|mjs|ts|exe)$", re.I)


def fitting_names(wanted: Iterable[str], limit: int, given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Map names that the registry accepts to the original names. If two names clash, one receives a suffix.

    `given` is an earlier result. Its names stay mapped to the same original names.

    >>> fitting_names(["files_read.all", "files_read/all", "文件_读.全部"], limit=64)
    {'files_read_all': 'files_read.all', 'files_read_all_d00fff': 'files_read/all', '文件_读_全部': '文件_读.全部'}
    """
    names = dict(given or {})
    known = set(names.values())
    for original in sorted(set(wanted) - known, key=lambda name: (clean_name(name) != name, name)):
        name = clean_name(original)
        if len(name) > limit or name in names:
            suffix = f"_{hashlib.sha256(original.encode()).hexdigest()[:6]}"
            name = name[: limit - len(suffix)] + suffix
        names.setdefault(name, original)
    return names


def name_of_command(command: Sequence[str]) -> str:
    """Derive a server's name from its command.

    >>> name_of_command(["npx", "-y", "@modelcontextprotocol/server-filesystem@1.2", "/data"])
    'filesystem'
    >>> name_of_command(["uvx", "mcp-server-time"]), name_of_command(["python", "tools/weather.py"])
    ('time', 'weather')
    """
    words = (PurePath(word).name for word in command if not word.startswith("-"))
    word = next((word for word in words if not _RUNNERS.fullmatch(word)), PurePath(command[0]).name)
    return _short(word.partition("@")[0])


def name_of_url(url: str) -> str:
    """Derive a server's name from its URL.

    >>> name_of_url("https://mcp.example.com/v1/mcp"), name_of_url("http://127.0.0.1:8000/mcp")
    ('example', '127_0_0_1')
    """
    host = urlsplit(url).hostname or ""
    labels = [label for label in host.split(".")[:-1] if label not in ("mcp", "api", "www")]
    return _short(host if host.replace(".", "").isdigit() or not labels else labels[-1])


def _short(word: str) -> str:
    return clean_name(_COMMON.sub("", _COMMON.sub("", word)))[:24].strip("_-") or "mcp"
