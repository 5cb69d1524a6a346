"""Opens the store at an address."""

from __future__ import annotations

from typing import Any

import platformdirs

from nbagent.checks import check_type, invalid
from nbagent.errors import ConfigurationError
from nbagent.server.conversations.redis import RedisStore
from nbagent.server.conversations.sqlite import MEMORY, SQLiteStore
from nbagent.server.conversations.store import ConversationStore

_SUFFIXES = (".sqlite", ".sqlite3", ".db")


def open_store(place: str, **options: Any) -> ConversationStore:
    """Return the store at an address. Call `await store.open()` to connect to it.

    - `"memory:"`: the memory of this process, until it ends
    - `"conversations.sqlite"` or `"sqlite:///conversations.sqlite"`: a file in the working directory; an absolute path
      has four slashes, `"sqlite:////srv/conversations.sqlite"`
    - `"redis://user:password@host:6379/0"`, `"rediss://…"` with TLS, `"unix:///path/to/redis.sock"`

    `options` are the same as for `ConversationStore`: `lease_s`, `ttl_s` and `answer_ttl_s`. Raises ConfigurationError
    for an invalid address or option.

    >>> open_store("sqlite:///conversations.sqlite", ttl_s=86_400)
    SQLiteStore('conversations.sqlite')
    """
    check_type("store", place, str)
    if place == "memory:":
        return SQLiteStore(MEMORY, **options)
    if place.startswith(("redis://", "rediss://", "unix://")):
        return RedisStore(place, **options)
    path = place.removeprefix("sqlite:///")
    if (path and path != place) or ("://" not in place and place.endswith(_SUFFIXES)):
        return SQLiteStore(path, **options)
    shown = place.rpartition("@")[2]  # without a password
    expected = "'memory:', a file such as 'conversations.sqlite', 'sqlite:///path' or 'redis://host:6379/0'"
    raise invalid("store", shown, expected)


def default_store() -> str:
    """Return the address of the user's own conversations, a file in the user's folder for application data."""
    folder = platformdirs.user_data_path("nbagent")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"Conversations can't be kept in {folder}: {error}. Name a file with --store, or pass "
            "--store memory: to keep conversations only until the server stops."
        ) from error
    return f"sqlite:///{folder / 'conversations.sqlite'}"
