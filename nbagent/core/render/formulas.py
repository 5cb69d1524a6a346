r"""Recognises formulas in Markdown and keeps them exactly as written, for the host to typeset.

`$…$`, `$$…$$`, `\(…\)`, `\[…\]` and `\begin{…}…\end{…}` are formulas, and Markdown inside them is ignored. Prices and
shell variables are not formulas. Therefore, the content of `$…$` may not start or end with a space, or end with a
slash, and no brace may follow the closing dollar sign. No letter or digit may touch either dollar sign, unless the
content is a single symbol, as in `$n$th`, `H$_2$O` or `5$\times$10`.
"""

from __future__ import annotations

import re
from typing import Any

#: Longer formulas are plain text, so that unclosed ones don't slow down parsing.
MAX_CHARS = 2_000
#: How often the parser may look for a block. Once or twice a line is usual, but quotes and lists that end early make it
#: read all lines again and again.
MAX_TRIES = 50_000
_CLOSERS = {"$$": "$$", "\\(": "\\)", "\\[": "\\]"}
#: Formulas allowed inside a word.
_SYMBOL = re.compile(r"[a-zA-Z]|[_^]?\\[a-zA-Z]+|[_^](?:[a-zA-Z0-9]|\{[^{}]*\})")
_BEGIN = re.compile(r"\\begin\{([a-zA-Z]{1,20}\*?)\}")


class TooMuchWorkError(Exception):
    """Parsing this text would take too long."""


def formula_plugin(parser: Any) -> None:
    """A markdown-it plugin that produces the tokens `formula` and `formula_block`. Their content includes the
    delimiters.
    """
    parser.inline.ruler.before("escape", "formula", _inline)
    parser.block.ruler.before(
        "fence", "formula_block", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )


def _inline(state: Any, silent: bool) -> bool:
    text, begin = state.src, state.pos
    is_dollar = text[begin] == "$" and text[begin : begin + 2] != "$$"
    end = _dollar_end(text, begin) if is_dollar else _end(text, begin)
    if not end:
        return False
    if not silent:
        state.push("formula", "", 0).content = text[begin:end]
    state.pos = end
    return True


def _dollar_end(text: str, begin: int) -> int:
    """The end of a `$…$` that starts here; 0 if none does."""
    close = text.find("$", begin + 1, begin + MAX_CHARS)
    while close > 0 and text[close - 1] == "\\":
        close = text.find("$", close + 1, begin + MAX_CHARS)
    content = text[begin + 1 : close] if close > 0 else ""
    before, after = text[begin - 1 : begin], text[close + 1 : close + 2]
    if not content or content != content.strip() or "`" in content or content.endswith("/") or after == "{":
        return 0
    is_separate = not (before.isalnum() or after.isalnum())
    return close + 1 if is_separate or _SYMBOL.fullmatch(content) else 0


def _end(text: str, begin: int) -> int:
    """The end of an environment or a formula with two-character delimiters that starts here; 0 if none does."""
    closer = _closer(text, begin)
    close = text.find(closer, begin + 2, begin + MAX_CHARS) if closer else -1
    return close + len(closer) if close > 0 and text[begin + 2 : close].strip() else 0


def _closer(text: str, begin: int) -> str:
    """The closing delimiter of the formula that starts here; `""` if none does."""
    if found := _BEGIN.match(text, begin):
        return f"\\end{{{found[1]}}}"
    return _CLOSERS.get(text[begin : begin + 2], "")


def _block(state: Any, first: int, last: int, silent: bool) -> bool:
    """A formula that fills whole lines, none of them blank. Also counts the parser's work."""
    tries = state.env["tries"] = state.env.get("tries", 0) + 1
    if tries > MAX_TRIES:
        raise TooMuchWorkError
    begin = state.bMarks[first] + state.tShift[first]
    if state.is_code_block(first) or not (closer := _closer(state.src, begin)):
        return False
    for line in range(first, last):
        start = begin + 2 if line == first else state.bMarks[line]
        if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            return False
        if closer in state.src[start : state.eMarks[line]]:
            break
    else:
        return False
    text = state.getLines(first, line + 1, state.blkIndent, False).strip()
    if _end(text, 0) != len(text):
        return False
    if not silent:
        token = state.push("formula_block", "", 0)
        token.content, token.map = text, [first, line + 1]
    state.line = line + 1
    return True
