"""A server's address (the command that starts it, or its URL), with its secrets masked for display."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from nbagent.core.render.control_chars import show_control_chars
from nbagent.providers.http.redaction import Redactor, is_secret_name
from nbagent.text import without_keys


@dataclass(frozen=True)
class Address:
    """A server's command and environment, or its URL, headers and `auth` (an `httpx2.Auth`).

    Its repr shows only `cwd`.
    """

    command: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Any = field(default=None, repr=False)

    def shown(self) -> str:
        """The command or URL for display, without passwords, the URL's query, or the values of secret options.

        >>> Address(command=("npx", "server", "--api-key", "0123456789", "--token=abcdefgh")).shown()
        'npx server --api-key *** --token=***'
        >>> Address(url="https://me:secret@example.com/mcp?key=0123456789").shown()
        'https://example.com/mcp'
        """
        if self.url:
            parts = urlsplit(self.url)
            return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        return without_keys(" ".join(shown for shown, _ in _words(self.command)))

    def masked(self, text: str) -> str:
        """Mask secrets in a text that the server wrote or that describes it, and make control characters visible."""
        keys = [secret for _, secret in _words(self.command) if secret]
        keys += [value for name, value in self.env.items() if is_secret_name(name)]
        return show_control_chars(without_keys(Redactor(keys, "SECRET", self.url, self.headers).text(text)))


def _words(command: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each word for display, with its secret: `--token=abc`, `--token abc`."""
    before = ""
    for word in command:
        option, _, value = word.partition("=")
        if value and is_secret_name(option.lstrip("-")):
            yield f"{option}=***", value
        elif before.startswith("-") and not word.startswith("-") and "=" not in before and is_secret_name(before):
            yield "***", word
        else:
            yield shlex.quote(word), ""
        before = word
