"""The panel's words in the language of a browser, by the table that its script has, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

#: Chinese words by the English ones, as JSON.
TABLE = Path(__file__).with_name("words.json").read_text("utf-8")


def words_in(language: str) -> Callable[[str], str]:
    """What says English words in a language, by its code; those that the table lacks stay.

    >>> words_in("zh-CN")("Deny"), words_in("fr")("Deny")
    ('拒绝', 'Deny')
    """
    table: dict[str, str] = json.loads(TABLE) if language.startswith("zh") else {}
    return lambda words: table.get(words, words)
