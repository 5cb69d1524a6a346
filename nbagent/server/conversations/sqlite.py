"""Conversations in a SQLite file: for all processes of one machine. Or in memory: for one process, until it ends.

One thread writes and reads, so that the event loop never waits for the disk. What `save` writes is on the disk when it
returns, so that even a loss of power takes nothing; leases are written without waiting for the disk.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

from typing_extensions import override

from nbagent.checks import checked_path
from nbagent.errors import StoreError
from nbagent.server.conversations.store import (
    Change,
    Conversation,
    ConversationStore,
    Decision,
    KeptAnswer,
    Lease,
    Page,
    Spent,
    WaitingCall,
    approval_from,
    approval_to_json,
    cursor_from,
    decision_to_json,
    page_of,
    with_messages,
)
from nbagent.store.sqlite_file import SQLiteFormat

T = TypeVar("T")

#: Conversations that one `save` deletes because they are too old.
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
CREATE TABLE answers (
    owner TEXT, key TEXT, fingerprint TEXT, body TEXT, expires REAL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX answers_by_age ON answers (expires);
CREATE TABLE approvals (
    owner TEXT, id TEXT, conversation_id TEXT, body TEXT, decision TEXT, expires REAL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX approvals_by_age ON approvals (expires);
"""
#: Of those who have a turn now, so no part of the format.
_LEASES = """
CREATE TABLE IF NOT EXISTS leases (
    owner TEXT, name TEXT, ticket TEXT, until REAL, PRIMARY KEY (owner, name)
) WITHOUT ROWID
"""
_TAKE = """
INSERT INTO leases VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (owner, name) DO UPDATE SET ticket = ?3, until = ?4 WHERE until <= ?5
"""
FORMAT = SQLiteFormat("conversations of the server", "nbcv", version=1, tables=_TABLES)

#: SQLite's name for a database in memory.
MEMORY = ":memory:"

_INFO = "id, owner, title, created, updated, dollars, tokens, message_count"


class SQLiteStore(ConversationStore):
    """A store in a file, which it makes if it is missing; only its owner can read it. The file is in WAL mode.

    Put it on a local disk: SQLite's locks don't work on most network drives. `SQLiteStore(":memory:")` has no file.

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

    # -- conversations ------------------------------------------------------------------------------------------------

    @override
    async def get(self, owner: str, conversation_id: str) -> Conversation | None:
        def read(database: sqlite3.Connection) -> tuple[Conversation, list[str]] | None:
            query = f"SELECT {_INFO} FROM conversations WHERE owner = ? AND id = ? AND updated > ?"  # noqa: S608  only our own names are joined in, values are bound
            row = database.execute(query, (owner, conversation_id, self._oldest())).fetchone()
            if row is None:
                return None
            query = "SELECT body FROM messages WHERE owner = ? AND conversation_id = ? ORDER BY number"
            return _info(row), [body for (body,) in database.execute(query, (owner, conversation_id))]

        found = await self._in_thread(read)
        return found and with_messages(*found)

    @override
    async def page(self, owner: str, limit: int = 20, after: str | None = None) -> Page:
        updated, last_id = (float("inf"), "") if after is None else cursor_from(after)

        def read(database: sqlite3.Connection) -> list[Conversation]:
            query = f"""
                SELECT {_INFO} FROM conversations WHERE owner = ? AND updated > ? AND (updated, id) < (?, ?)
                ORDER BY updated DESC, id DESC LIMIT ?
            """  # noqa: S608  only our own names are joined in, values are bound
            return [_info(row) for row in database.execute(query, (owner, self._oldest(), updated, last_id, limit + 1))]

        return page_of(await self._in_thread(read), limit)

    @override
    async def spent(self, owner: str) -> Spent:
        def read(database: sqlite3.Connection) -> Spent:
            row = database.execute("SELECT dollars, tokens FROM spending WHERE owner = ?", (owner,)).fetchone()
            return Spent(*row) if row else Spent()

        return await self._in_thread(read)

    @override
    async def answer(self, owner: str, key: str) -> KeptAnswer | None:
        def read(database: sqlite3.Connection) -> KeptAnswer | None:
            query = "SELECT key, fingerprint, body FROM answers WHERE owner = ? AND key = ? AND expires > ?"
            row = database.execute(query, (owner, key, time.time())).fetchone()
            return row and KeptAnswer(*row)

        return await self._in_thread(read)

    @override
    async def _delete(self, owner: str, conversation_id: str, lease: str) -> bool:
        def write(database: sqlite3.Connection) -> bool:
            database.execute("DELETE FROM leases WHERE owner = ? AND name = ?", (owner, lease))
            query = "DELETE FROM conversations WHERE owner = ? AND id = ? AND updated > ?"
            return database.execute(query, (owner, conversation_id, self._oldest())).rowcount > 0

        return await self._in_thread(write, writes=True, durable=True)

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
            if change and not _has(database, change.lease):
                return False
            database.execute("DELETE FROM answers WHERE expires <= ?", (now,))
            if answer:
                row = (owner, answer.key, answer.fingerprint, answer.body, now + self.answer_ttl_s)
                added = database.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
                if not added.rowcount:
                    return False
            if change:
                _write_change(database, change)
            self._delete_oldest(database)
            return True

        return await self._in_thread(write, writes=True, durable=True)

    def _oldest(self) -> float:
        """The time after which a conversation must have changed to exist."""
        return float("-inf") if self.ttl_s is None else time.time() - self.ttl_s

    def _delete_oldest(self, database: sqlite3.Connection) -> None:
        if self.ttl_s is not None:
            database.execute(
                "DELETE FROM conversations WHERE (owner, id) IN "
                "(SELECT owner, id FROM conversations WHERE updated <= ? LIMIT ?)",
                (self._oldest(), _EXPIRED_AT_ONCE),
            )

    # -- approvals ----------------------------------------------------------------------------------------------------

    @override
    async def ask(self, approval: WaitingCall) -> None:
        row = (approval.owner, approval.id, approval.conversation_id, approval_to_json(approval), approval.expires)

        def write(database: sqlite3.Connection) -> None:
            database.execute("DELETE FROM approvals WHERE expires <= ?", (time.time(),))
            database.execute("INSERT INTO approvals VALUES (?, ?, ?, ?, NULL, ?)", row)

        await self._in_thread(write, writes=True)

    @override
    async def approval(self, owner: str, approval_id: str) -> WaitingCall | None:
        def read(database: sqlite3.Connection) -> WaitingCall | None:
            query = "SELECT body, decision FROM approvals WHERE owner = ? AND id = ? AND expires > ?"
            row = database.execute(query, (owner, approval_id, time.time())).fetchone()
            return row and approval_from(*row)

        return await self._in_thread(read)

    @override
    async def approvals(self, owner: str, conversation_id: str | None = None) -> list[WaitingCall]:
        def read(database: sqlite3.Connection) -> list[WaitingCall]:
            query = """
                SELECT body FROM approvals WHERE owner = ? AND decision IS NULL AND expires > ?
                AND conversation_id = coalesce(?, conversation_id) ORDER BY rowid
            """
            rows = database.execute(query, (owner, time.time(), conversation_id))
            return [approval_from(body, None) for (body,) in rows]

        return await self._in_thread(read)

    @override
    async def decide(self, owner: str, approval_id: str, decision: Decision) -> bool:
        def write(database: sqlite3.Connection) -> bool:
            query = "UPDATE approvals SET decision = ? WHERE owner = ? AND id = ? AND decision IS NULL AND expires > ?"
            row = (decision_to_json(decision), owner, approval_id, time.time())
            return database.execute(query, row).rowcount > 0

        return await self._in_thread(write, writes=True, durable=True)

    # -- leases -------------------------------------------------------------------------------------------------------

    @override
    async def _take(self, lease: Lease) -> bool:
        now = time.time()
        values = (lease.owner, lease.name, lease.ticket, now + self.lease_s, now)
        return await self._in_thread(lambda database: database.execute(_TAKE, values).rowcount > 0, writes=True)

    @override
    async def _renew(self, lease: Lease) -> bool:
        query = "UPDATE leases SET until = ? WHERE owner = ? AND name = ? AND ticket = ?"
        values = (time.time() + self.lease_s, lease.owner, lease.name, lease.ticket)
        return await self._in_thread(lambda database: database.execute(query, values).rowcount > 0, writes=True)

    @override
    async def _release(self, lease: Lease) -> None:
        query = "DELETE FROM leases WHERE owner = ? AND name = ? AND ticket = ?"
        values = (lease.owner, lease.name, lease.ticket)
        await self._in_thread(lambda database: database.execute(query, values), writes=True)

    def _opened(self) -> sqlite3.Connection:
        if str(self.path) == MEMORY:
            database = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
            database.executescript(FORMAT.tables)
        else:
            database = FORMAT.open(self.path)
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
        """Whether no other process has the file open: then all leases are those of processes that died.

        Each process shares a lock of a file beside it until it ends. Where there are none, dead leases run out.
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

    async def _in_thread(
        self, work: Callable[[sqlite3.Connection], T], *, writes: bool = False, durable: bool = False
    ) -> T:
        """Do the work in the thread, in one transaction; `durable` waits until what it writes is on the disk."""

        def run() -> T:
            with FORMAT.clear_errors(self.path):
                self._database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._database.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                with self._database:  # commits, or rolls back
                    return work(self._database)

        if self._thread is None:
            raise StoreError(f"{self.path.name!r} is not open. Call `await store.open()` first.")
        if str(self.path) == MEMORY:
            return run()  # there is no disk to wait for
        return await asyncio.get_running_loop().run_in_executor(self._thread, run)


def _info(row: tuple[Any, ...]) -> Conversation:
    conversation_id, owner, title, created, updated, dollars, tokens, message_count = row
    return Conversation(
        id=conversation_id,
        owner=owner,
        title=title,
        created=created,
        updated=updated,
        spent=Spent(dollars, tokens),
        message_count=message_count,
    )


def _has(database: sqlite3.Connection, lease: Lease) -> bool:
    query = "SELECT 1 FROM leases WHERE owner = ? AND name = ? AND ticket = ?"
    return database.execute(query, (lease.owner, lease.name, lease.ticket)).fetchone() is not None


def _has_message(database: sqlite3.Connection, info: Conversation, number: int) -> bool:
    query = "SELECT 1 FROM messages WHERE owner = ? AND conversation_id = ? AND number = ?"
    return database.execute(query, (info.owner, info.id, number)).fetchone() is not None


def _write_change(database: sqlite3.Connection, change: Change) -> None:
    info = change.info
    values = (info.title, info.created, info.updated, info.spent.dollars, info.spent.tokens, info.message_count)
    query = (
        "INSERT INTO conversations (title, created, updated, dollars, tokens, message_count, owner, id) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (owner, id) DO UPDATE "
        "SET title = ?1, created = ?2, updated = ?3, dollars = ?4, tokens = ?5, message_count = ?6"
    )
    database.execute(query, (*values, info.owner, info.id))
    query = "DELETE FROM messages WHERE owner = ? AND conversation_id = ? AND number >= ?"
    database.execute(query, (info.owner, info.id, change.kept))
    rows = [(info.owner, info.id, number, body) for number, body in enumerate(change.added, change.kept)]
    database.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", rows)
