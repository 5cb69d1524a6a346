"""Code in an answer -> HTML in which keywords, texts, numbers and comments have a class each. `render.STYLE` has the
colours.
"""

from __future__ import annotations

import html
from typing import Any

#: Names that models give to languages, and Pygments' lexer of each. Others are shown as they are, nothing is guessed;
#: those that Pygments reads slowly where the code is hostile are left out.
LEXERS = {
    **dict.fromkeys(("python", "py", "python3", "pycon", "ipython"), "python"),
    **dict.fromkeys(("javascript", "js", "jsx", "typescript", "ts", "tsx"), "javascript"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console"), "bash"),
    **{name: name for name in ("sql", "json", "toml", "ini", "r", "julia", "html", "xml", "css", "go", "rust", "lua")},
}
#: Characters of code from which on it is shown plain.
LONGEST = 4_000
#: The classes: keyword, function or class, text, number, comment.
CLASSES = {"k", "f", "s", "m", "c"}


def highlighted(code: str, language: str) -> str:
    """The code as escaped HTML, its words in `<span class="k">` and the like.

    >>> highlighted("def f(): return 1", "python")
    '<span class="k">def</span> <span class="f">f</span>(): <span class="k">return</span> <span class="m">1</span>'
    """
    known = LEXERS.get(language.lower())
    if known is None or len(code) > LONGEST:
        return html.escape(code, quote=False)
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(known, stripnl=False, ensurenl=False)
    parts: list[tuple[str, str]] = []
    for kind, text in lexer.get_tokens(code):
        name = _class(kind)
        if parts and (parts[-1][0] == name or (name and not text.strip())):
            parts[-1] = (parts[-1][0], parts[-1][1] + text)
        else:
            parts.append((name, text))
    escaped = ((name if text.strip() else "", html.escape(text, quote=False)) for name, text in parts)
    return "".join(f'<span class="{name}">{text}</span>' if name else text for name, text in escaped)


def _class(kind: Any) -> str:
    """The class of a Pygments token type, or none."""
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    for name, kinds in (
        ("k", (Keyword, Operator.Word, Name.Tag)),
        ("f", (Name.Function, Name.Class, Name.Decorator)),
        ("s", (String,)),
        ("m", (Number,)),
        ("c", (Comment,)),
    ):
        if any(kind in each for each in kinds):
            return name
    return ""
