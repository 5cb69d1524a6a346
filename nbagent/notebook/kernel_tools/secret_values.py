"""Masks secrets in what the kernel tools tell a model: by the name of a value, at any depth, or by its form."""

from __future__ import annotations

from typing import Any

from nbagent.core.messages import Content
from nbagent.functions.formatting import truncate_result
from nbagent.providers.http.named_secrets import is_secret, masked

#: Longer results are shortened before secrets are searched for.
MAX_CHARS = 20_000
#: So many rows are looked at; fewer are shown.
_LABELS = 1_000
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

    Returns it with the labels that were left out. Other values stay as they are.
    """
    if not hasattr(type(table), "reset_index"):
        return table, []
    hidden = [name for name in table.index.names if name is not None and is_secret(str(name), "")]
    if hidden:
        table = table.reset_index(level=hidden, drop=True)
    labels: list[Any] = []
    while found := {label for label in table.index[:_LABELS] if isinstance(label, str) and is_secret(label, "")}:
        table = table.drop(index=list(found))
        labels += sorted(found)
    return table, [*hidden, *labels]
