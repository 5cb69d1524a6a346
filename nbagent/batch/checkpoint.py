"""A map's checkpoint: a SQLite file with an answer for each key.

A row's key is a hash of everything that determines its answer (see `rows`), so one file can keep the answers of many
maps. Each answer is saved before the next row is sent, so a killed process loses only the rows in progress. Several
processes may use one file at the same time. Each process skips the rows that were answered before it started.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from nbagent.batch.answer import Answer
from nbagent.checks import checked_path
from nbagent.core.messages import well_formed
from nbagent.errors import ConfigurationError
from nbagent.store.sqlite_file import SQLiteFormat
from nbagent.text import shortened

if TYPE_CHECKING:
    from pandas import DataFrame

#: How many characters of a prompt are kept with its answer.
PROMPT_CHARS = 200

#: Columns with text from the model or the user.
_TEXTS = frozenset({"question", "text", "error"})
_TABLES = """
CREATE TABLE answers (
    key PRIMARY KEY, question, model, answered,
    status, text, input_tokens, output_tokens, cost, seconds, error, run_id
) WITHOUT ROWID;
"""
_ADD = """
INSERT OR REPLACE INTO answers VALUES (
    :key, :question, :model, :answered,
    :status, :text, :input_tokens, :output_tokens, :cost, :seconds, :error, :run_id
)
"""
_FIND = """
SELECT key, status, text, input_tokens, output_tokens, cost, seconds, error, run_id FROM answers WHERE key = ?
"""
FORMAT = SQLiteFormat("map answers", "nbck", version=1, tables=_TABLES)


class Checkpoint:
    """Keeps answers in a file that only its owner can read. A missing file is created.

    `model` is saved with each answer. Put the file on a local disk: SQLite's locks don't work on most
    network drives. Raises `ConfigurationError` if the file is not a checkpoint, or has another format version. The
    constructor and all methods raise `StoreError` if the file can't be read or written.

    >>> with Checkpoint("greetings.sqlite", "openai:gpt-5.6-luna") as kept:         # doctest: +SKIP
    ...     kept.add(Answer("a", text="Hi"), "Say hi.")
    ...     kept.answers(["a", "b"])["a"].text
    'Hi'
    """

    def __init__(self, path: str | os.PathLike[str], model: str = "") -> None:
        self._path, self._model = checked_path(path), model
        self._database = FORMAT.open(self._path)
        # a killed process loses nothing; a power failure may lose the last answers, but not the file
        self._database.execute("PRAGMA synchronous = NORMAL")

    def add(self, answer: Answer, prompt: str = "") -> None:
        """Save an answer. Once this returns, the answer survives even if the process is killed."""
        values = {name: getattr(answer, name) for name in Answer.__slots__}
        values |= {"question": shortened(prompt, PROMPT_CHARS), "model": self._model, "answered": time.time()}
        for name in _TEXTS:
            if values[name]:
                values[name] = well_formed(values[name])
        with FORMAT.clear_errors(self._path):
            self._database.execute(_ADD, values)

    def answers(self, keys: Iterable[str]) -> dict[str, Answer]:
        """Return the saved answers, by key."""
        with FORMAT.clear_errors(self._path):
            found = (self._database.execute(_FIND, (key,)).fetchone() for key in dict.fromkeys(keys))
            return {key: Answer(key, *values) for key, *values in filter(None, found)}

    def execute(self, sql: str, *values: Any) -> list[Any]:
        """Run a statement on another module's tables in this file, and return the rows."""
        with FORMAT.clear_errors(self._path):
            return self._database.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read_checkpoint(path: str | os.PathLike[str]) -> DataFrame:
    """Return a map's checkpoint as a DataFrame with a row for each answer, in order of arrival.

    The columns are `key` (a hash of everything that determines the answer), `question` (the beginning of the prompt),
    `model`, `answered` (the time), `answer` (the model's text), and the columns of `Agent.map`. You can read the file
    while a map writes to it.

    Raises `ConfigurationError` if the file is missing or is not a checkpoint, and `StoreError` if it can't be read.

    >>> nbagent.read_checkpoint("reviews.sqlite")["cost"].sum()              # doctest: +SKIP
    """
    import pandas as pd

    from nbagent.batch.frame import COLUMNS
    from nbagent.trace.columns import TEXT

    target = checked_path(path)
    if not target.exists():
        raise ConfigurationError(f"There is no checkpoint {str(target)!r}. agent.map(..., checkpoint=path) writes one.")
    with closing(FORMAT.open(target)) as database, FORMAT.clear_errors(target):
        found = database.execute("SELECT * FROM answers ORDER BY answered")
        frame = pd.DataFrame(found, columns=[name for name, *_ in found.description])
    texts = dict.fromkeys(["key", "question", "model", "text"], TEXT)
    frame = frame.astype({**texts, **{name: kind for name, kind in COLUMNS.items() if name in frame}})
    frame["answered"] = pd.to_datetime(frame["answered"], unit="s", utc=True).dt.as_unit("us")
    return frame.rename(columns={"text": "answer"})
