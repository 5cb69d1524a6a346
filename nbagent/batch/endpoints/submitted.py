"""A checkpoint's batches. Each is submitted once, even if the kernel dies."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nbagent.batch.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class Sent:
    """A submitted batch.

    - `tag`: nbagent's name for the batch
    - `batch_id`: the provider's id, or None if it is unknown whether the batch arrived
    - `sent_at`: seconds since 1970
    - `count`: the number of requests
    - `is_read`: whether its results are in the checkpoint
    """

    tag: str
    provider: str
    batch_id: str | None
    sent_at: float
    count: int
    is_read: bool


class Submitted:
    """The tables `batches` and `batch_rows` of a checkpoint.

    A row is added to `batch_rows` before it is submitted, and stays until it is answered. Its result is added when the
    batch is read.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._run = checkpoint.execute
        self._run(
            "CREATE TABLE IF NOT EXISTS batches "
            "(tag PRIMARY KEY, provider, batch_id, sent_at REAL, count INTEGER, is_read INTEGER) WITHOUT ROWID"
        )
        self._run("CREATE TABLE IF NOT EXISTS batch_rows (key PRIMARY KEY, tag, result, was_cancelled) WITHOUT ROWID")

    def holding(self, keys: Iterable[str]) -> list[Sent]:
        """Return the batches with any of these rows, oldest first."""
        found = self._run(
            "SELECT * FROM batches WHERE tag IN (SELECT tag FROM batch_rows WHERE key IN "
            "(SELECT value FROM json_each(?))) ORDER BY sent_at",
            json.dumps(list(keys)),
        )
        return [_sent(*row) for row in found]

    def of_provider(self, provider: str) -> list[Sent]:
        """Return a provider's batches with unread results."""
        found = self._run("SELECT * FROM batches WHERE provider = ? AND NOT is_read ORDER BY sent_at", provider)
        return [_sent(*row) for row in found]

    def batch_ids(self) -> set[str]:
        """Return the provider's ids of all batches."""
        return {batch_id for (batch_id,) in self._run("SELECT batch_id FROM batches WHERE batch_id IS NOT NULL")}

    def keys_of(self, tag: str) -> set[str]:
        """Return the keys of a batch's unanswered rows."""
        return {key for (key,) in self._run("SELECT key FROM batch_rows WHERE tag = ?", tag)}

    def announce(self, provider: str, keys: Sequence[str]) -> Sent:
        """Record a batch that is about to be submitted."""
        sent = Sent(uuid.uuid4().hex[:16], provider, None, time.time(), len(keys), False)
        # a row without its batch counts as not submitted, so a kill between the two statements is harmless
        self._run(
            "INSERT OR REPLACE INTO batch_rows SELECT value, ?, NULL, 0 FROM json_each(?)",
            sent.tag,
            json.dumps(list(keys)),
        )
        self._run("INSERT INTO batches VALUES (?, ?, NULL, ?, ?, 0)", sent.tag, provider, sent.sent_at, sent.count)
        return sent

    def accept(self, tag: str, batch_id: str) -> None:
        """Record that the provider has the batch."""
        self._run("UPDATE batches SET batch_id = ? WHERE tag = ?", batch_id, tag)

    def keep(self, tag: str, key: str, result: dict[str, Any] | None, was_cancelled: bool) -> None:
        """Save a row's result, which is None if the request failed."""
        text = None if result is None else json.dumps(result)
        self._run(
            "UPDATE batch_rows SET result = ?, was_cancelled = ? WHERE key = ? AND tag = ?",
            text,
            int(was_cancelled),
            key,
            tag,
        )

    def finish_reading(self, tag: str) -> None:
        """Record that all available results are saved."""
        self._run("UPDATE batches SET is_read = 1 WHERE tag = ?", tag)

    def result(self, key: str) -> dict[str, Any] | None:
        """Return a row's result, or None if there is none."""
        found = self._run("SELECT result FROM batch_rows WHERE key = ?", key)
        return json.loads(found[0][0]) if found and found[0][0] is not None else None

    def cancelled(self, tag: str) -> set[str]:
        """Return the keys of a batch's cancelled rows."""
        return {key for (key,) in self._run("SELECT key FROM batch_rows WHERE tag = ? AND was_cancelled", tag)}

    def forget_row(self, key: str) -> None:
        """Delete a row that is answered or must be submitted again."""
        self._run("DELETE FROM batch_rows WHERE key = ?", key)

    def forget(self, tag: str) -> None:
        """Delete a finished batch and its rows."""
        self._run("DELETE FROM batches WHERE tag = ?", tag)
        self._run("DELETE FROM batch_rows WHERE tag = ?", tag)


def _sent(tag: str, provider: str, batch_id: str | None, sent_at: float, count: int, is_read: int) -> Sent:
    return Sent(tag, provider, batch_id, sent_at, count, bool(is_read))
