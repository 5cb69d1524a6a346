"""Masks secrets in what the kernel tools tell a model: by the name of a value, at any depth, or by its form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbagent.core.messages import Content
from nbagent.functions.formatting import truncate_result
from nbagent.providers.http.named_secrets import is_secret, masked

#: Longer results are shortened before secrets are searched for.
MAX_CHARS = 20_000
#: At most so many rows are shown, and so many are looked at to find them.
_SHOWN, _LOOKED_AT = 1_000, 100_000
#: Stands for a secret.
HIDDEN = "(hidden)"


def without_secrets(content: Content, max_chars: int = MAX_CHARS) -> Content:
    """A result for a model with `(hidden)` in place of each secret, shortened first. Images stay as they are.

    >>> without_secrets("Settings(user='ann', password='hunter2', url='db://ann:hunter2@host/x')")
    "Settings(user='ann', password='(hidden)', url='db://(hidden)@host/x')"
    """
    content = truncate_result(content, max_chars)[0]
    if not isinstance(content, str):
        return [
            {**part, "text": masked(part["text"], HIDDEN)} if part.get("type") == "text" else part for part in content
        ]
    return masked(content, HIDDEN)


def secret_columns(frame: Any) -> list[Any]:
    """The columns of a data frame whose names say that they hold secrets."""
    return [name for name in frame.columns if is_secret(str(name), "")]


def without_secret_labels(table: Any) -> tuple[Any, list[Any]]:
    """A data frame or series of pandas without the levels of its index, and the rows, whose labels suggest secrets.

    Returns it with the labels that were left out. If these are rows, it is only the beginning of the table, which is
    all that a model is shown. Other values stay as they are.
    """
    index = getattr(table, "index", None) if hasattr(type(table), "reset_index") else None
    names = getattr(index, "names", None)
    if index is None or not isinstance(names, Sequence):
        return table, []
    levels = [level for level, name in enumerate(names) if name is not None and is_secret(str(name), "")]
    hidden = dict.fromkeys(names[level] for level in levels)
    if levels:
        table = table.reset_index(level=levels, drop=True)
    kept: list[int] = []
    for place, label in enumerate(table.index[:_LOOKED_AT]):
        parts = label if isinstance(label, tuple) else (label,)
        if any(isinstance(part, str) and is_secret(part, "") for part in parts):
            hidden[label] = None
        else:
            kept.append(place)
        if len(kept) == _SHOWN:
            break
    return (table if len(hidden) == len(levels) else table.iloc[kept]), list(hidden)
