"""A file of notes: a SQLite table with a version for each note, and a full-text index.

Each change is one transaction, so several kernels may use one file at the same time. Versions come from one counter per
file, so no version is used twice, even if a note is deleted and written again.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from nbagent.core.messages import well_formed
from nbagent.errors import ConfigurationError
from nbagent.store.sqlite_file import SQLiteFormat
from nbagent.text import without_keys

#: The root of all notes.
ROOT = "/memories"
#: The maximum size of a scope's notes in bytes.
MAX_BYTES = 5_000_000
#: How many characters an excerpt shows before and after a match.
_EXCERPT_CHARS = 80

_TABLES = """
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, scope TEXT NOT NULL, path TEXT NOT NULL, text TEXT NOT NULL,
    version INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, run_id TEXT,
    UNIQUE (scope, path)
);
CREATE TABLE counter (last INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
CREATE VIRTUAL TABLE words USING fts5 (path, text, content = 'notes', content_rowid = 'id');
CREATE TRIGGER notes_added AFTER INSERT ON notes BEGIN
    INSERT INTO words (rowid, path, text) VALUES (new.id, new.path, new.text);
END;
CREATE TRIGGER notes_removed AFTER DELETE ON notes BEGIN
    INSERT INTO words (words, rowid, path, text) VALUES ('delete', old.id, old.path, old.text);
END;
CREATE TRIGGER notes_changed AFTER UPDATE ON notes BEGIN
    INSERT INTO words (words, rowid, path, text) VALUES ('delete', old.id, old.path, old.text);
    INSERT INTO words (rowid, path, text) VALUES (new.id, new.path, new.text);
END;
"""
FORMAT = SQLiteFormat("agents' notes", "nbme", version=2, tables=_TABLES)


def checked_note_path(path: str) -> str:
    """Return the path of a note or folder without a final `/`. Raises `ConfigurationError` if it is outside `ROOT`.

    >>> checked_note_path("/memories/team/")
    '/memories/team'
    """
    path = path.removesuffix("/")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ConfigurationError(f"path: expected a path below {ROOT}, such as {ROOT}/preferences.md, got {path!r}.")
    return path


class Note(NamedTuple):
    """A note. `run_id` is the run that last wrote the note, or None if the user did."""

    path: str
    text: str
    version: int
    created: float
    updated: float
    run_id: str | None

    @property
    def size(self) -> int:
        """The size of the text in bytes, as UTF-8."""
        return len(self.text.encode())


_ONE = """
SELECT path, text, version, created, updated, run_id FROM notes WHERE scope = :scope AND path = :path
"""
_BELOW = """
SELECT path, text, version, created, updated, run_id FROM notes
WHERE scope = :scope AND (path = :path OR substr(path, 1, length(:path) + 1) = :path || '/') ORDER BY path
"""
#: The size of the other notes in bytes, and whether one of their paths is below this path or above it.
_OTHERS = """
SELECT coalesce(sum(length(CAST(text AS BLOB))), 0),
    coalesce(max(substr(path, 1, length(:path) + 1) = :path || '/'
        OR substr(:path, 1, length(path) + 1) = path || '/'), 0)
FROM notes WHERE scope = :scope AND path != :path
"""
_PUT = """
INSERT INTO notes (scope, path, text, version, created, updated, run_id)
VALUES (:scope, :path, :text, :version, :now, :now, :run_id) ON CONFLICT (scope, path) DO UPDATE
SET text = excluded.text, version = excluded.version, updated = excluded.updated, run_id = excluded.run_id
RETURNING path, text, version, created, updated, run_id
"""


class Notes:
    """One scope's notes, inside a transaction. Callers check the paths."""

    def __init__(self, database: sqlite3.Connection | None, scope: str) -> None:
        self._database, self._scope = database, scope

    def _rows(self, sql: str, **values: object) -> list[tuple[Any, ...]]:
        if self._database is None:  # no file yet
            return []
        return self._database.execute(sql, {"scope": self._scope, **values}).fetchall()

    def all(self, folder: str = ROOT) -> list[Note]:
        """Return the notes in a folder, or the note at this path, sorted by path."""
        return [Note(*row) for row in self._rows(_BELOW, path=folder)]

    def get(self, path: str) -> Note | None:
        """Return the note at this path, or None."""
        return next((Note(*row) for row in self._rows(_ONE, path=path)), None)

    def newest(self, most: int, chars: int) -> tuple[int, list[tuple[str, str]]]:
        """Return the number of notes, and the paths and beginnings of the newest ones."""
        ((count,),) = self._rows("SELECT count(*) FROM notes WHERE scope = :scope") or [(0,)]
        query = "SELECT path, substr(text, 1, :chars) FROM notes WHERE scope = :scope ORDER BY version DESC LIMIT :most"
        return count, [(path, text) for path, text in self._rows(query, most=most, chars=chars)]

    def put(self, path: str, text: str, run_id: str | None) -> Note:
        """Write a note, replacing any note at the same path. Raises `ConfigurationError` if the note is refused."""
        text = _checked_text(path, text)
        ((size, is_nested),) = self._rows(_OTHERS, path=path)
        if is_nested or path == ROOT:
            raise ConfigurationError(f"{path} can't be a note: it is a folder, or inside a note. Choose another path.")
        if size + len(text.encode()) > MAX_BYTES:
            raise ConfigurationError(f"The notes would exceed {MAX_BYTES:,} bytes. Delete some first.")
        ((version,),) = self._rows("UPDATE counter SET last = last + 1 RETURNING last")
        values = {"path": path, "text": text, "version": version, "now": time.time(), "run_id": run_id}
        ((*note,),) = self._rows(_PUT, **values)
        return Note(*note)

    def remove(self, note: Note) -> None:
        """Delete a note."""
        self._rows("DELETE FROM notes WHERE scope = :scope AND path = :path", path=note.path)

    def search(self, query: str, limit: int) -> list[tuple[str, str]]:
        """Return the best notes for a query, each with its path and an excerpt around the match.

        A query word also matches the beginning of a word. If no word matches, the whole query is searched for, even
        inside words, because some languages don't put spaces between words.
        """
        words = re.findall(r"\w+", query)
        found = self._rows(
            "SELECT notes.path, snippet(words, 1, '', '', '…', 24) FROM words JOIN notes ON notes.id = words.rowid "
            "WHERE words MATCH :words AND scope = :scope ORDER BY rank LIMIT :limit",
            words=" OR ".join(f'"{word}"*' for word in words),
            limit=limit,
        ) if words else []  # fmt: skip
        if found:
            return [(path, text) for path, text in found]
        phrase = query.strip().casefold()
        matches = [(note, note.text.casefold().find(phrase)) for note in self.all()] if phrase else []
        return [(note.path, _excerpt(note.text, index)) for note, index in matches if index >= 0][:limit]


class NoteFile:
    """A file of notes. The first note creates the file, and only its owner can read it."""

    def __init__(self, path: Path, scope: str) -> None:
        self.path, self.scope = path, scope

    @contextmanager
    def reading(self) -> Iterator[Notes]:
        """Open the notes for reading."""
        if not self.path.exists():
            yield Notes(None, self.scope)
            return
        with self._transaction("BEGIN") as notes:
            yield notes

    @contextmanager
    def writing(self) -> Iterator[Notes]:
        """Open the notes, locked against other changes. If the block raises, its changes are rolled back."""
        with self._transaction("BEGIN IMMEDIATE") as notes:
            yield notes

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Notes]:
        with closing(FORMAT.open(self.path)) as database, FORMAT.clear_errors(self.path):
            database.execute(begin)
            with database:  # commits, or rolls back
                yield Notes(database, self.scope)


def _checked_text(path: str, text: str) -> str:
    """Return the text with `\\n` as line ends. Raises `ConfigurationError` if it contains a key."""
    text = well_formed(text).replace("\r\n", "\n")
    if without_keys(note := f"{path}\n{text}", "") != note:
        raise ConfigurationError(
            f"{path} can't be written: the text seems to contain a key, a token or a password, and notes are not "
            "encrypted. Instead, write where the secret is kept, such as the name of the environment variable."
        )
    return text


def _excerpt(text: str, index: int) -> str:
    start, end = max(index - _EXCERPT_CHARS, 0), index + _EXCERPT_CHARS
    return f"{'…' * (start > 0)}{text[start:end]}{'…' * (end < len(text))}"
