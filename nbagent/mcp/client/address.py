"""Where a server is: the command that starts it, or its URL. It knows what must not be shown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from nbagent.core.render.control_chars import show_control_chars
from nbagent.providers.http.redaction import forms_of, is_telling
from nbagent.text import without_keys

#: Shorter values are never taken for secrets, whatever their name is; and of names that don't tell, these.
_SHORTEST, _SHORTEST_UNNAMED = 4, 8


@dataclass(frozen=True)
class Address:
    """A command with its environment, or a URL with its headers and `auth` (an `httpx2.Auth`). The repr is empty."""

    command: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Any = field(default=None, repr=False)

    def shown(self) -> str:
        """The command or the URL, for people: without passwords, queries and the values of telling options.

        >>> Address(command=("npx", "server", "--api-key", "0123456789", "--token=abcdefgh")).shown()
        'npx server --api-key *** --token=***'
        >>> Address(url="https://me:secret@example.com/mcp?key=0123456789").shown()
        'https://example.com/mcp'
        """
        if self.url:
            parts = urlsplit(self.url)
            return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        words = []
        for before, word in zip(("", *self.command), self.command, strict=False):
            option, has_value, _ = word.partition("=")
            if has_value and is_telling(option.lstrip("-")):
                words.append(f"{option}=***")
            else:
                words.append("***" if _tells(before, word) else shlex.quote(word))
        return without_keys(" ".join(words))

    def masked(self, text: str) -> str:
        """A text of the server or about it, without the secrets that it was given. Control characters are shown."""
        for secret in sorted({form for each in self._secrets() for form in forms_of(each)}, key=len, reverse=True):
            text = text.replace(secret, "***")
        return show_control_chars(without_keys(text))

    def _secrets(self) -> Iterator[str]:
        named = {**self.env, **self.headers}
        for name, value in named.items():
            if len(value) >= (_SHORTEST if is_telling(name) else _SHORTEST_UNNAMED):
                yield from {value, value.rpartition(" ")[2]} if name in self.headers else (value,)
        for before, word in zip(("", *self.command), self.command, strict=False):
            option, has_value, value = word.partition("=")
            found = value if has_value and is_telling(option.lstrip("-")) else word if _tells(before, word) else ""
            if len(found) >= _SHORTEST:
                yield found
        parts = urlsplit(self.url)
        queried = (value for _, value in parse_qsl(parts.query))
        yield from (
            value for value in (parts.password or "", parts.username or "", *queried) if len(value) >= _SHORTEST
        )


def _tells(option: str, value: str) -> bool:
    """Whether the value of an option is a secret: `--token abc`."""
    is_option = option.startswith("-") and "=" not in option
    return is_option and not value.startswith("-") and is_telling(option.lstrip("-"))
