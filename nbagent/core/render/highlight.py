"""Code in an answer, in colours: a few classes of tokens, so that a saved output stays small."""

from __future__ import annotations

import html
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any

#: What a code block's language is called, and pygments' name for it. Others, which may be slow to read, stay plain.
LANGUAGES = {
    **dict.fromkeys(("python", "py", "python3", "ipython"), "python"),
    **dict.fromkeys(("bash", "sh", "shell"), "bash"),
    **dict.fromkeys(("javascript", "js"), "javascript"),
    **{name: name for name in ("json", "sql", "toml", "yaml", "r")},
}
#: Longer code stays plain: it is read anew whenever it grows, and hostile code takes a time that grows with its square.
MAX_CHARS = 4_000

#: The class of a token of this type or of one below it; the first that fits counts. `output.css` has the colours.
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


@lru_cache(maxsize=32)  # the blocks of an answer that goes on
def highlight_code(code: str, language: str, _: Any = None) -> str:
    """The code as HTML with classes; `""` where the language is not known.

    >>> highlight_code("x = 1", "python")
    'x = <span class="nbagent-number">1</span>\\n'
    """
    known = LANGUAGES.get(language.strip().lower())
    if known is None or len(code) > MAX_CHARS:
        return ""
    from pygments.lexers import get_lexer_by_name

    tokens = ((_class_of(kind), text) for kind, text in get_lexer_by_name(known, stripnl=False).get_tokens(code))
    return "".join(_spans(tokens))


def _spans(tokens: Iterator[tuple[str, str]]) -> Iterator[str]:
    for name, group in groupby(tokens, key=lambda token: token[0]):
        text = html.escape("".join(text for _, text in group), quote=False)
        yield f'<span class="{name}">{text}</span>' if name else text


def _class_of(kind: Any) -> str:
    path = str(kind).removeprefix("Token.")
    return next((name for of, name in _CLASSES.items() if path == of or path.startswith(f"{of}.")), "")
