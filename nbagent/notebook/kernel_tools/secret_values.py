"""Masks what has the form of a key, or the name of one and looks random, in what a model reads of the notebook."""

from __future__ import annotations

from nbagent.core.messages import Content
from nbagent.functions.formatting import truncate_result
from nbagent.text import without_keys

#: Longer results are shortened before secrets are searched for.
MAX_CHARS = 20_000
#: Stands for a secret.
HIDDEN = "(hidden)"


def without_secrets(content: Content, max_chars: int = MAX_CHARS, name: str = "") -> Content:
    """A result for a model with `(hidden)` in place of each secret, shortened first. Images stay as they are.

    `name` is that of the variable whose value it is.

    >>> without_secrets("Settings(user='ann', password='a8Xk29sLq0pZ', url='db://ann:hunter2@host/x')")
    "Settings(user='ann', password='(hidden)', url='db://(hidden)@host/x')"
    """
    content = truncate_result(content, max_chars)[0]
    if isinstance(content, str):
        before = f"{name}=" if name else ""
        return without_keys(before + content, HIDDEN).removeprefix(before)
    return [
        {**part, "text": without_keys(part["text"], HIDDEN)} if part.get("type") == "text" else part for part in content
    ]
