"""The panel's words in the browser's language, from the table that its script reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

#: Chinese words by the English ones, as JSON.
TABLE = Path(__file__).with_name("words.json").read_text("utf-8")


def words_in(language: str) -> Callable[[str], str]:
    """A function that translates English words into a language, given by its code. Unknown words stay English.

    >>> words_in("zh-CN")("Deny"), words_in("fr")("Deny")
    ('拒绝', 'Deny')
    """
    table: dict[str, str] = json.loads(TABLE) if language.startswith("zh") else {}
    return lambda words: table.get(words, words)
