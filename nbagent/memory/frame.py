"""Notes as a DataFrame that a person reads and edits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from nbagent.errors import ConfigurationError
from nbagent.memory.store import Note, Notes, checked_note_path

if TYPE_CHECKING:
    import pandas as pd


def as_frame(notes: Iterable[Note]) -> pd.DataFrame:
    """A row for each note."""
    import pandas as pd

    from nbagent.trace.columns import COUNT, TEXT

    columns = ["path", "text", "updated", "created", "version", "run_id"]
    frame = pd.DataFrame(list(notes), columns=list(Note._fields))[columns]
    for name in ("updated", "created"):
        frame[name] = pd.to_datetime(frame[name].astype("float64"), unit="s", utc=True).dt.as_unit("us")
    return frame.astype({"path": TEXT, "text": TEXT, "version": COUNT, "run_id": TEXT})


def apply_edits(frame: pd.DataFrame, shown: Mapping[str, Note], notes: Notes) -> None:
    """Write the differences from the shown notes, by path.

    Raises `ConfigurationError` if one of these was changed meanwhile; the transaction is then rolled back.
    """
    wanted: dict[str, str] = {}
    for given, text in zip(frame["path"], frame["text"], strict=True):
        if not isinstance(given, str) or not isinstance(text, str):
            raise ConfigurationError(f"frame: expected texts in path and text, got {given!r} and {text!r}.")
        path = checked_note_path(given)
        if path in wanted:
            raise ConfigurationError(f"frame: {path} is there twice.")
        wanted[path] = text
    changed = [path for path, text in wanted.items() if path not in shown or shown[path].text != text]
    removed = [path for path in shown if path not in wanted]
    for path in (*removed, *changed):
        now, then = notes.get(path), shown.get(path)
        known = now or then
        if known and (now is None or then is None or now.version != then.version):
            raise ConfigurationError(
                f"{known.path} was changed since you read memory.frame. Read it again, and edit that."
            )
    for path in removed:
        notes.remove(shown[path])
    for path in changed:
        notes.put(path, wanted[path], run_id=None)
