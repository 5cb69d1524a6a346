"""Syntax highlighting of code in answers. There are only a few CSS classes, to keep outputs small. `output.css` defines
their colours.
"""

from __future__ import annotations

import html
from functools import lru_cache
from itertools import groupby
from typing import Any

#: Pygments' names of supported languages. Other languages, which may be slow, stay plain.
LANGUAGES = {
    **dict.fromkeys(("python", "py", "python3", "ipython"), "python"),
    **dict.fromkeys(("bash", "sh", "shell"), "bash"),
    **dict.fromkeys(("javascript", "js"), "javascript"),
    **{name: name for name in ("json", "sql", "toml", "yaml", "r")},
}
#: Longer code stays plain: it is highlighted again whenever it grows, and hostile code may take quadratic time.
MAX_CHARS = 4_000

#: The class of a token of this type or of a subtype; the first match counts.
_CLASSES = {
    "Comment": "nbagent-comment",
    "Keyword": "nbagent-keyword",
    "Operator.Word": "nbagent-keyword",
    "Literal.String": "nbagent-string",
    "Literal.Number": "nbagent-number",
    "Name.Function": "nbagent-name",
    "Name.Class": "nbagent-name",
    "Name.Decorator": "nbagent-name",
    "Name.Tag": "nbagent-name",
}
CLASSES = frozenset(_CLASSES.values())


@lru_cache(maxsize=32)  # for the blocks of an answer that is streaming
def highlight_code(code: str, language: str, _: Any = None) -> str:
    """Return the code as HTML with classes, or `""` for unsupported languages and long code.

    >>> highlight_code("x = 1", "python")
    'x = <span class="nbagent-number">1</span>\\n'
    """
    known = LANGUAGES.get(language.strip().lower())
    if known is None or len(code) > MAX_CHARS:
        return ""
    from pygments.lexers import get_lexer_by_name

    tokens = get_lexer_by_name(known, stripnl=False).get_tokens(code)
    spans = []
    for name, group in groupby(tokens, key=lambda token: _class_of(token[0])):
        text = html.escape("".join(text for _, text in group), quote=False)
        spans.append(f'<span class="{name}">{text}</span>' if name else text)
    return "".join(spans)


def _class_of(kind: Any) -> str:
    path = str(kind).removeprefix("Token.")
    return next((name for of, name in _CLASSES.items() if path == of or path.startswith(f"{of}.")), "")
