"""Conversations in a SQLite file (for all processes on one machine) or in memory (for one process, until it ends).

One thread does all reading and writing, so the event loop never waits for the disk. When `save` returns, the data is on
disk and survives a power failure. Leases are written without waiting for the disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, Literal, TypeVar

from typing_extensions import override

from nbagent.checks import checked_path
from nbagent.errors import StoreError
from nbagent.server.conversations.store import (
    FIELDS,
    Change,
    Conversation,
    ConversationStore,
    KeptAnswer,
    Lease,
    Page,
    Spent,
    answer_name,
    cursor_from,
    info_from,
    info_values,
    page_of,
    with_messages,
)
from nbagent.store.sqlite_file import SQLiteFormat

T = TypeVar("T")

#: How many expired conversations one `save` deletes.
_EXPIRED_AT_ONCE = 20

_TABLES = """
CREATE TABLE conversations (
    owner TEXT, id TEXT, title TEXT, created REAL, updated REAL, dollars REAL, tokens INTEGER, message_count INTEGER,
    PRIMARY KEY (owner, id)
) WITHOUT ROWID;
CREATE INDEX conversations_by_change ON conversations (owner, updated, id);
CREATE INDEX conversations_by_age ON conversations (updated);
CREATE TABLE messages (
    owner TEXT, conversation_id TEXT, number INTEGER, body TEXT,
    PRIMARY KEY (owner, conversation_id, number),
    FOREIGN KEY (owner, conversation_id) REFERENCES conversations ON DELETE CASCADE
);
CREATE TABLE spending (owner TEXT PRIMARY KEY, dollars REAL, tokens INTEGER) WITHOUT ROWID;
CREATE TABLE notes (owner TEXT, name TEXT, text TEXT, expires REAL, PRIMARY KEY (owner, name));
CREATE INDEX notes_by_age ON notes (expires);
"""
#: Only for current turns, so not part of the file format.
_LEASES = """
CREATE TABLE IF NOT EXISTS leases (
    owner TEXT, name TEXT, ticket TEXT, until REAL, PRIMARY KEY (owner, name)
) WITHOUT ROWID
"""
_TAKE = """
INSERT INTO leases VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (owner, name) DO UPDATE SET ticket = ?3, until = ?4 WHERE until <= ?5
"""
FORMAT = SQLiteFormat("conversations of the server", "nbcv", version=2, tables=_TABLES)

#: SQLite's name for a database in memory.
MEMORY = ":memory:"

_FIELDS = ", ".join(FIELDS)
_SELECT = f"SELECT id, {_FIELDS} FROM conversations WHERE owner = ? AND updated > ?"  # noqa: S608  the fields are constants of `store`
_WRITE = f"""
    INSERT INTO conversations (owner, id, {_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (owner, id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in FIELDS)}
"""  # noqa: S608  the fields are constants of `store`


class SQLiteStore(ConversationStore):
    """A store in a file in WAL mode. A missing file is created. Only the file's owner can read it.

    Use a local disk, since SQLite's locks don't work on most network drives. `SQLiteStore(":memory:")` needs no file.

    >>> store = SQLiteStore("conversations.sqlite", ttl_s=30 * 86_400)
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        super().__init__(**options)
        self.path = checked_path(path)
        self._thread: ThreadPoolExecutor | None = None
        self._shared = ExitStack()

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r})"

    @override
    async def open(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nbagent-conversations")
        try:
            self._database = await asyncio.get_running_loop().run_in_executor(self._thread, self._opened)
        except BaseException:
            self._thread.shutdown(wait=False)
            self._thread = None
            raise

    @override
    async def aclose(self) -> None:
        if self._thread:
            thread, self._thread = self._thread, None
            await asyncio.get_running_loop().run_in_executor(thread, self._database.close)
            thread.shutdown(wait=False)
            self._shared.close()

    @override
    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        found = await self._in_thread(lambda database: self._stored(database, owner, conversation_id), begin="DEFERRED")
        return found and with_messages(*found)

    def _stored(
        self, database: sqlite3.Connection, owner: str, conversation_id: str
    ) -> tuple[Conversation, list[str]] | None:
        row = database.execute(f"{_SELECT} AND id = ?", (owner, self._oldest(), conversation_id)).fetchone()
        if row is None:
            return None
        query = "SELECT body FROM messages WHERE owner = ? AND conversation_id = ? ORDER BY number"
        bodies = [body for (body,) in database.execute(query, (owner, conversation_id))]
        return info_from(owner, conversation_id, row[1:]), bodies

    @override
    async def page(self, owner: str, limit: int = 20, after: str | None = None) -> Page:
        updated, last_id = (float("inf"), "") if after is None else cursor_from(after)

        query = f"{_SELECT} AND (updated, id) < (?, ?) ORDER BY updated DESC, id DESC LIMIT ?"
        rows = await self._rows(query, owner, self._oldest(), updated, last_id, limit + 1)
        return page_of([info_from(owner, row[0], row[1:]) for row in rows], limit)

    @override
    async def spent(self, owner: str) -> Spent:
        rows = await self._rows("SELECT dollars, tokens FROM spending WHERE owner = ?", owner)
        return Spent(*rows[0]) if rows else Spent()

    @override
    async def _delete(self, owner: str, conversation_id: str, lease: str) -> bool:
        def write(database: sqlite3.Connection) -> bool:
            database.execute("DELETE FROM leases WHERE owner = ? AND name = ?", (owner, lease))
            query = "DELETE FROM conversations WHERE owner = ? AND id = ? AND updated > ?"
            return database.execute(query, (owner, conversation_id, self._oldest())).rowcount > 0

        return await self._in_thread(write, begin="IMMEDIATE")

    @override
    async def _save(self, owner: str, spent: Spent, change: Change | None, answer: KeptAnswer | None) -> bool | None:
        def write(database: sqlite3.Connection) -> bool | None:
            now = time.time()
            if change and change.kept and not _has_message(database, change.info, change.kept - 1):
                return None
            database.execute(
                "INSERT INTO spending VALUES (?, ?, ?) ON CONFLICT (owner) "
                "DO UPDATE SET dollars = dollars + excluded.dollars, tokens = tokens + excluded.tokens",
                (owner, spent.dollars, spent.tokens),
            )
            if change and not _ended(database, change.lease):
                return False
            if answer:
                text = json.dumps(asdict(answer))
                if not _add_note(database, owner, answer_name(answer.key), text, now + self.answer_ttl_s):
                    return False
            if change:
                _write_change(database, change)
            self._delete_oldest(database)
            return True

        return await self._in_thread(write, begin="IMMEDIATE")

    def _oldest(self) -> float:
        """The time before which unchanged conversations count as deleted."""
        return float("-inf") if self.ttl_s is None else time.time() - self.ttl_s

    def _delete_oldest(self, database: sqlite3.Connection) -> None:
        if self.ttl_s is not None:
            database.execute(
                "DELETE FROM conversations WHERE (owner, id) IN "
                "(SELECT owner, id FROM conversations WHERE updated <= ? LIMIT ?)",
                (self._oldest(), _EXPIRED_AT_ONCE),
            )

    @override
    async def _add_note(self, owner: str, name: str, text: str, expires: float) -> bool:
        return await self._in_thread(
            lambda database: _add_note(database, owner, name, text, expires), begin="IMMEDIATE"
        )

    @override
    async def _note(self, owner: str, name: str) -> str | None:
        query = "SELECT text FROM notes WHERE owner = ? AND name = ? AND expires > ?"
        rows = await self._rows(query, owner, name, time.time())
        return str(rows[0][0]) if rows else None

    @override
    async def _notes(self, owner: str, prefix: str) -> list[str]:
        query = "SELECT text FROM notes WHERE owner = ? AND name >= ? AND name < ? AND expires > ?"
        rows = await self._rows(query, owner, prefix, f"{prefix}\U0010ffff", time.time())
        return [text for (text,) in rows]

    @override
    async def _take(self, lease: Lease) -> bool:
        now = time.time()
        values = (lease.owner, lease.name, lease.ticket, now + self.lease_s, now)

        def write(database: sqlite3.Connection) -> tuple[bool, tuple[Conversation, list[str]] | None]:
            is_taken = database.execute(_TAKE, values).rowcount > 0
            is_turn = is_taken and lease.conversation_id
            return is_taken, self._stored(database, lease.owner, lease.conversation_id) if is_turn else None

        is_taken, found = await self._in_thread(write)
        lease.conversation = found and with_messages(*found)
        return is_taken

    @override
    async def _renew(self, lease: Lease) -> bool:
        query = "UPDATE leases SET until = ? WHERE owner = ? AND name = ? AND ticket = ?"
        values = (time.time() + self.lease_s, lease.owner, lease.name, lease.ticket)
        return await self._in_thread(lambda database: database.execute(query, values).rowcount > 0)

    @override
    async def _release(self, lease: Lease) -> None:
        await self._in_thread(lambda database: _ended(database, lease))

    def _opened(self) -> sqlite3.Connection:
        database = FORMAT.private(None) if str(self.path) == MEMORY else FORMAT.open(self.path)
        with FORMAT.clear_errors(self.path):
            try:
                is_alone = str(self.path) != MEMORY and self._is_alone()
                database.execute("PRAGMA foreign_keys = ON")
                database.execute(_LEASES)
                database.execute("DELETE FROM leases WHERE until <= ? OR ?", (time.time(), is_alone))
            except BaseException:
                database.close()
                self._shared.close()
                raise
        return database

    def _is_alone(self) -> bool:
        """Whether no other process has the file open. Then all leases belong to dead processes.

        Until it ends, each process has a shared lock on a second file. On systems without locks, dead leases expire.
        """
        if sys.platform == "win32":
            return False
        import fcntl

        beside = os.open(f"{self.path}-open", os.O_CREAT | os.O_RDWR, 0o600)
        self._shared.callback(os.close, beside)
        try:
            fcntl.flock(beside, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_alone = True
        except OSError:
            is_alone = False
        fcntl.flock(beside, fcntl.LOCK_SH)
        return is_alone

    # -- the thread ---------------------------------------------------------------------------------------------------

    async def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._in_thread(lambda database: database.execute(query, values).fetchall())

    async def _in_thread(
        self, work: Callable[[sqlite3.Connection], T], begin: Literal["DEFERRED", "IMMEDIATE"] | None = None
    ) -> T:
        """Do the work in the thread, with `begin` in one transaction. IMMEDIATE waits until data is on disk."""

        def run() -> T:
            with FORMAT.clear_errors(self.path):
                self._database.execute(f"PRAGMA synchronous = {'FULL' if begin == 'IMMEDIATE' else 'NORMAL'}")
                if begin is None:
                    return work(self._database)
                self._database.execute(f"BEGIN {begin}")
                with self._database:  # commits, or rolls back
                    return work(self._database)

        if self._thread is None:
            raise StoreError(f"{self.path.name!r} is not open. Call `await store.open()` first.")
        if str(self.path) == MEMORY:
            return run()  # no disk to wait for
        return await asyncio.get_running_loop().run_in_executor(self._thread, run)


def _add_note(database: sqlite3.Connection, owner: str, name: str, text: str, expires: float) -> bool:
    database.execute("DELETE FROM notes WHERE expires <= ?", (time.time(),))
    query = "INSERT INTO notes VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    return database.execute(query, (owner, name, text, expires)).rowcount > 0


def _ended(database: sqlite3.Connection, lease: Lease) -> bool:
    """End a lease; return False if another process has it."""
    query = "DELETE FROM leases WHERE owner = ? AND name = ? AND ticket = ?"
    return database.execute(query, (lease.owner, lease.name, lease.ticket)).rowcount > 0


def _has_message(database: sqlite3.Connection, info: Conversation, number: int) -> bool:
    query = "SELECT 1 FROM messages WHERE owner = ? AND conversation_id = ? AND number = ?"
    return database.execute(query, (info.owner, info.id, number)).fetchone() is not None


def _write_change(database: sqlite3.Connection, change: Change) -> None:
    info = change.info
    database.execute(_WRITE, (info.owner, info.id, *info_values(info)))
    if change.kept < change.before:
        query = "DELETE FROM messages WHERE owner = ? AND conversation_id = ? AND number >= ?"
        database.execute(query, (info.owner, info.id, change.kept))
    rows = [(info.owner, info.id, number, body) for number, body in enumerate(change.added, change.kept)]
    database.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", rows)
