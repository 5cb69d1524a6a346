"""The checkpoint of a map: a SQLite file with an answer for each key."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from dataclasses import fields
from types import TracebackType
from typing import Self

from nbagent.batch.answer import Answer

_NAMES = [field.name for field in fields(Answer)]


class Checkpoint:
    """Keeps answers. Without a path it is in memory.

    >>> with Checkpoint(None) as checkpoint:
    ...     checkpoint.add(Answer("a", text="Hi"))
    ...     checkpoint.answers(["a", "b"])["a"].text
    'Hi'
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._database = sqlite3.connect(path or ":memory:", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        columns = ", ".join(f"{name} PRIMARY KEY" if name == "key" else name for name in _NAMES)
        self._database.execute(f"CREATE TABLE IF NOT EXISTS answers ({columns}) WITHOUT ROWID")

    def add(self, answer: Answer) -> None:
        """Keep an answer; it is on the disk when this returns, as far as a killed process is concerned."""
        places = ", ".join("?" * len(_NAMES))
        row = [getattr(answer, name) for name in _NAMES]
        self._database.execute(f"INSERT OR REPLACE INTO answers VALUES ({places})", row)  # noqa: S608 - only marks

    def answers(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The answers that there are, by key."""
        wanted = set(keys)
        every = (Answer(*row) for row in self._database.execute("SELECT * FROM answers"))
        return {answer.key: answer for answer in every if answer.key in wanted}

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
