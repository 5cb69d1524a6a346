"""Notes as a DataFrame that the user reads and edits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nbagent.errors import ConfigurationError
from nbagent.memory.store import Note, Notes, checked_note_path

if TYPE_CHECKING:
    import pandas as pd


def as_frame(notes: Iterable[Note]) -> pd.DataFrame:
    """Return a DataFrame with a row for each note."""
    import pandas as pd

    from nbagent.trace.columns import COUNT, TEXT

    columns = ["path", "text", "updated", "created", "version", "run_id"]
    frame = pd.DataFrame(list(notes), columns=list(Note._fields))[columns]
    for name in ("updated", "created"):
        frame[name] = pd.to_datetime(frame[name].astype("float64"), unit="s", utc=True).dt.as_unit("us")
    return frame.astype({"path": TEXT, "text": TEXT, "version": COUNT, "run_id": TEXT})


def apply_edits(frame: pd.DataFrame, shown: Mapping[str, Note], notes: Notes) -> None:
    """Write the changes that an edited frame makes to the notes in `shown`, which maps paths to notes.

    Raises `ConfigurationError` if one of these notes has changed in the meantime. The transaction is then rolled
    back.
    """
    edited: dict[str, str] = {}
    for given, text in zip(frame["path"], frame["text"], strict=True):
        if not isinstance(given, str) or not isinstance(text, str):
            raise ConfigurationError(f"frame: expected text in the columns path and text, got {given!r} and {text!r}.")
        path = checked_note_path(given)
        if path in edited:
            raise ConfigurationError(f"frame: two rows have the path {path!r}.")
        edited[path] = text
    changed = [path for path, text in edited.items() if path not in shown or shown[path].text != text]
    removed = [path for path in shown if path not in edited]
    for path in (*removed, *changed):
        current, read = notes.get(path), shown.get(path)
        if (current and current.version) != (read and read.version):
            raise ConfigurationError(
                f"{path} has changed since you read memory.frame. Read it again, and repeat your edits."
            )
    for path in removed:
        notes.remove(shown[path])
    for path in changed:
        notes.put(path, edited[path], run_id=None)
