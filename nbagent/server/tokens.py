"""The holders of tokens, from the settings and from a file that is read again when it changes.

    admins = ["ops"]                          # see everybody's costs in /metrics

    [tokens]
    ops = "…"
    ada = ["the new token", "the old one"]    # both are Ada's until the old one is removed

Conversations and budgets belong to the name, so they remain when the token changes. A token from the settings has no
name. Its conversations and budget belong to its digest.
"""

from __future__ import annotations

import hashlib
import logging
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from nbagent.checks import problem_in
from nbagent.errors import ConfigurationError
from nbagent.server.settings import ServerSettings, checked_token

log = logging.getLogger("nbagent")


@dataclass(frozen=True)
class Holder:
    """A token's holder. `owner` is safe to store; `name` is safe to log."""

    owner: str
    name: str
    is_admin: bool = False


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tokens: dict[str, SecretStr | list[SecretStr]]
    admins: list[str] = []


def owner_of(token: str) -> str:
    """Return the digest of a token, which is safe to store and log.

    >>> owner_of("a token of 16 characters or more")
    'b4db4e531616be334ea8f1f09c787155'
    """
    return hashlib.sha256(token.encode()).hexdigest()[:32]


class Tokens:
    """Finds the holder of a token. Raises `ConfigurationError` if the file is invalid when it is first read. If the
    file becomes invalid later, the error is only logged.

    >>> Tokens(ServerSettings(tokens=["a token of 16 characters or more"])).holder("another one") is None
    True
    """

    def __init__(self, settings: ServerSettings) -> None:
        texts = [checked_token(token).get_secret_value() for token in settings.tokens]
        self._given = {_digest(text): Holder(owner_of(text), owner_of(text)[:8]) for text in texts}
        self._file = Path(settings.token_file) if settings.token_file is not None else None
        self._read_at = _stamp(self._file)
        self._known = self._all()

    def holder(self, token: str) -> Holder | None:
        """Return a token's holder, or None for an unknown token."""
        if (stamp := _stamp(self._file)) != self._read_at:
            self._read_at = stamp
            try:
                self._known = self._all()
                log.info("the tokens were reloaded from %s", self._file)
            except ConfigurationError as error:
                log.error("the tokens were not reloaded: %s", error)
        return self._known.get(_digest(token))

    def _all(self) -> dict[bytes, Holder]:
        """All holders. A single holder is an admin."""
        known = self._given | (_read(self._file) if self._file is not None else {})
        if len(set(known.values())) == 1:
            return {digest: replace(holder, is_admin=True) for digest, holder in known.items()}
        return known


def _digest(token: str) -> bytes:
    """The lookup key of a token. Looking up a digest leaks nothing through timing."""
    return hashlib.sha256(token.encode()).digest()


def _stamp(file: Path | None) -> object:
    """A value that changes when the file does."""
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return "missing"
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(file: Path) -> dict[bytes, Holder]:
    try:
        content = _File.model_validate(tomllib.loads(file.read_text("utf-8")))
    except ValidationError as error:
        raise ConfigurationError(f"{file}: {problem_in(error)}.") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} can't be read: {error}.") from None
    if unknown := set(content.admins) - set(content.tokens):
        raise ConfigurationError(f"{file}: admins: {min(unknown)!r} has no token. Add one to [tokens].")
    known: dict[bytes, Holder] = {}
    for name, tokens in content.tokens.items():
        holder = Holder(owner_of(f"\0{name}"), name, name in content.admins)  # no token starts like this
        for token in tokens if isinstance(tokens, list) else [tokens]:
            digest = _digest(checked_token(token, f"{file}: {name}").get_secret_value())
            if known.setdefault(digest, holder) is not holder:
                raise ConfigurationError(f"{file}: {known[digest].name} and {name} have the same token. Change one.")
    return known
