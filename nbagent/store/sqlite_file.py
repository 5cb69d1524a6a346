"""Opens nbagent's SQLite files, which are created atomically and recognised by their headers."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from nbagent.errors import ConfigurationError, StoreError

#: Seconds to wait while another process writes.
BUSY_S = 30.0


@dataclass(frozen=True, slots=True)
class SQLiteFormat:
    """A kind of SQLite file.

    - `content`: a noun for the contents, such as "map answers", for error messages
    - `application`: the four letters in the file's header: https://www.sqlite.org/pragma.html#pragma_application_id
    - `journal`: SQLite's journal mode. "WAL" lets other processes read while one writes. "DELETE" keeps everything in
      one file and works on network drives.
    """

    content: str
    application: str
    version: int
    tables: str
    journal: str = "WAL"

    @property
    def application_id(self) -> int:
        """The letters of `application` as a number."""
        return int.from_bytes(self.application.encode())

    def open(self, path: Path) -> sqlite3.Connection:
        """Open the file, and create it if it is missing. Another program's file is not changed.

        Raises `ConfigurationError` if the file can't be created, belongs to another program or has another format
        version, and `StoreError` if it can't be read.
        """
        try:
            if not path.exists():
                self._make(path)
            if not path.is_file():
                raise OSError(errno.EISDIR, "it is not a file")
        except OSError as error:
            reason = error.strerror or error
            raise ConfigurationError(
                f"{str(path)!r} can't store {self.content}: {reason}. Name another file."
            ) from None
        return self._connect(path)

    def open_readonly(self, path: Path) -> sqlite3.Connection:
        """Open an existing file for reading. Raises `ConfigurationError` if it is missing, and the errors that `open`
        raises.
        """
        if not path.is_file():
            raise ConfigurationError(
                f"{str(path)!r} {'is a folder' if path.exists() else 'does not exist'}. Name another file."
            )
        database = self._connect(path)
        database.execute("PRAGMA query_only = 1")
        return database

    def private(self, cache_bytes: int | None) -> sqlite3.Connection:
        """Open a database for this process only. Data beyond `cache_bytes` spills to an unnamed temporary file.

        The file disappears when the process ends, even after a crash. SQLITE_TMPDIR or TMPDIR sets its folder. If
        `cache_bytes` is None, the database stays in memory.
        """
        database = sqlite3.connect(
            ":memory:" if cache_bytes is None else "", uri=True, isolation_level=None, check_same_thread=False
        )
        database.execute(f"PRAGMA cache_size = -{(cache_bytes or 0) // 1024}")
        self._write_schema(database, "MEMORY")
        return database

    def _connect(self, path: Path) -> sqlite3.Connection:
        """Return a connection. Only one thread may use it at a time."""
        address = f"{path.resolve().as_uri()}?mode=rw"
        with self.clear_errors(path):
            database = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                self._check(path, database)
            except BaseException:
                database.close()
                raise
            return database

    def _make(self, path: Path) -> None:
        """Create the file elsewhere and link it when complete, because another process may create it at the same time.

        (A process that opens and closes the file itself would lose SQLite's locks on it.)
        """
        with tempfile.TemporaryDirectory(prefix=".nbagent-", dir=path.parent) as folder:
            new = Path(folder, path.name)
            new.touch(0o600)
            with closing(sqlite3.connect(new)) as database:
                self._write_schema(database, self.journal)
            with suppress(FileExistsError):
                os.link(new, path)

    def _write_schema(self, database: sqlite3.Connection, journal: str) -> None:
        database.executescript(
            f"PRAGMA journal_mode = {journal}; {self.tables} PRAGMA application_id = {self.application_id}; "
            f"PRAGMA user_version = {self.version};"
        )

    def _check(self, path: Path, database: sqlite3.Connection) -> None:
        try:
            (application,) = database.execute("PRAGMA application_id").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname != "SQLITE_NOTADB":
                raise
            application = None
        if application != self.application_id:
            raise ConfigurationError(f"{str(path)!r} is not a file for {self.content}. Name another file.")
        if version != self.version:
            raise ConfigurationError(
                f"{str(path)!r} has format version {version}, expected {self.version}. Name another file, or "
                "use the nbagent version that wrote it."
            )

    @contextmanager
    def clear_errors(self, path: Path) -> Iterator[None]:
        """Raise SQLite's errors in this block as `StoreError`, with a remedy if one is known."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorname", "") or ""
            if code == "SQLITE_FULL":
                problem = "the disk is full. Free some space; everything saved earlier is still there."
            elif code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                problem = f"another program has locked the file for more than {BUSY_S:g} seconds. Try again later."
            elif code.startswith(("SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")):
                problem = f"{error}. Check the disk, and that the file and its folder are writable."
            else:
                problem = f"{error}."
            raise StoreError(f"The {self.content} in {str(path)!r} can't be read or written: {problem}") from error
