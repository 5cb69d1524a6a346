"""Masks keys in text for models: values in the format of a key, and random-looking values whose name suggests a
key.
"""

from __future__ import annotations

from nbagent.core.messages import Content
from nbagent.functions.formatting import truncate_result
from nbagent.text import without_keys

#: Longer results are shortened before they are searched for secrets.
MAX_CHARS = 20_000
#: Replaces a secret.
HIDDEN = "(hidden)"


def without_secrets(content: Content, max_chars: int = MAX_CHARS, name: str = "") -> Content:
    """Shorten a result for a model, and replace each secret with `(hidden)`. Images are not changed.

    `name` is the name of the variable that the result comes from.

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
