"""Shortening text: the one way in which anything shown to people or models is cut."""

from __future__ import annotations


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters: what is cut off is replaced by an ellipsis.

    >>> shortened("penguins", 5)
    'peng…'
    """
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + "…"
