"""`ServerSettings`: a server's access rules, models and limits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import SecretStr

from nbagent.checks import check_number, check_type, invalid
from nbagent.core.limits import Limits

#: The minimum characters of a token, so that it can't be guessed.
MIN_TOKEN_CHARS = 16
#: The host names of a server on loopback.
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """A server's settings. A limit of None means no limit.

    - `tokens`: the access tokens; each gives access only to its own data
    - `token_file`: a TOML file with more tokens, by name; see `nbagent.server.tokens`
    - `hosts`: the host names by which clients reach the server, without a port; `"*"` allows any name
    - `origins`: web pages of other servers that may send requests from a browser (CORS), such as
      `"https://chat.example.org"`
    - `models`: models that a request may choose, in addition to the agent's own, such as `"openai:gpt-5.6-luna"`
    - `limits`: the limits of each request; a request can lower but not raise them
    - `max_cost_per_conversation`, `max_cost_per_token`: budgets in US dollars
    - `max_body_bytes`, `body_seconds`: the maximum size of a request's body, and the time within which it must arrive
    - `requests_per_minute`, `max_concurrent`: limits per token and server process; for `max_concurrent`, requests that
      only read data, stop a run, or approve or deny a call are counted separately
    - `approval_seconds`: how long a call waits for a person's decision before it is denied
    - `grace_seconds`: how long runs may take to finish when the server stops
    - `access_log`: whether the logger `nbagent.access` writes a line for each request

    >>> ServerSettings(tokens=["a token of 16 characters or more"], models=["openai:gpt-5.6-luna"]).models
    ('openai:gpt-5.6-luna',)
    """

    tokens: Iterable[str | SecretStr] = field(default=(), repr=False)
    token_file: str | os.PathLike[str] | None = None
    hosts: Iterable[str] = LOOPBACK_HOSTS
    origins: Iterable[str] = ()
    models: Iterable[str] = ()
    limits: Limits = field(default_factory=Limits)
    max_cost_per_conversation: float | None = None
    max_cost_per_token: float | None = None
    max_body_bytes: int = 10 * 2**20
    body_seconds: float = 30.0
    requests_per_minute: int | None = 600
    max_concurrent: int | None = 64
    approval_seconds: float = 300.0
    grace_seconds: float = 10.0
    access_log: bool = False

    def __post_init__(self) -> None:
        for name in ("tokens", "hosts", "origins", "models"):
            values = getattr(self, name)
            if isinstance(values, str):
                raise invalid(name, values, "a list of strings", "Put the string into a list.", secret=name == "tokens")
            object.__setattr__(self, name, tuple(values))
        object.__setattr__(self, "tokens", tuple(map(checked_token, self.tokens)))
        for model in self.models:
            if ":" not in model:
                raise invalid(
                    "models", model, "names such as 'openai:gpt-5.6-luna'", "Put the provider before the model."
                )
        check_type("limits", self.limits, Limits, fix="Pass Limits(...).")
        for name in ("max_cost_per_conversation", "max_cost_per_token"):
            check_number(name, getattr(self, name), minimum=0, optional=True, fix="Pass US dollars.")
        for name in ("requests_per_minute", "max_concurrent"):
            check_number(name, getattr(self, name), whole=True, minimum=1, optional=True)
        check_number("max_body_bytes", self.max_body_bytes, whole=True, minimum=1)
        for name in ("body_seconds", "approval_seconds", "grace_seconds"):
            check_number(name, getattr(self, name), above=0, fix="Pass seconds.")


def checked_token(token: str | SecretStr, name: str = "tokens") -> SecretStr:
    """Return the token. Raises `ConfigurationError` if it is too short, or contains characters other than printable
    ASCII.
    """
    text = token if isinstance(token, str) else token.get_secret_value()
    if len(text) < MIN_TOKEN_CHARS or not text.isascii() or not text.isprintable():
        expected = f"{MIN_TOKEN_CHARS} or more printable ASCII characters"
        fix = "`python -c 'import secrets; print(secrets.token_urlsafe(32))'` creates one."
        raise invalid(name, text, expected, fix, secret=True)
    return SecretStr(text)
