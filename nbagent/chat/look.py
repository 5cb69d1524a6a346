"""The panel's script, style sheets and words, for the notebook and for the server's page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from nbagent.core.render import markdown as render
from nbagent.core.render.diff import DIFF_STYLE

_FOLDER = Path(__file__).parent
#: Chinese words by the English ones, as JSON. Words without a translation stay English.
_WORDS = (_FOLDER / "words.json").read_text("utf-8")
SCRIPT = f'const WORDS = navigator.language.startsWith("zh") ? {_WORDS} : {{}};\n' + (_FOLDER / "panel.js").read_text(
    "utf-8"
)
#: The style of the approval form. The panel uses the same colours.
APPROVAL_STYLE = render.STYLE + DIFF_STYLE + render.style_html(_FOLDER / "approval.css")
PANEL_STYLE = APPROVAL_STYLE + render.style_html(_FOLDER / "panel.css")


def translator(language: str) -> Callable[[str], str]:
    """Return a function that translates English words into the language with this code.

    >>> translator("zh-CN")("Deny"), translator("fr")("Deny")
    ('拒绝', 'Deny')
    """
    table: dict[str, str] = json.loads(_WORDS) if language.startswith("zh") else {}
    return lambda words: table.get(words, words)
