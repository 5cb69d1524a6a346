r"""Formulas in Markdown: left as they are written, for the host to typeset.

`$…$`, `$$…$$`, `\(…\)`, `\[…\]` and `\begin{…}…\end{…}` are formulas, and Markdown makes nothing else of what is in
them. A dollar sign in front of a price or of a shell's variable is none: a formula does not begin or end with a space,
end with a slash, or have a brace behind it, and no letter or digit stands right beside it, unless it is a single sign,
as in `$n$th`, `H$_2$O` or `5$\times$10`.
"""

from __future__ import annotations

import re
from typing import Any

#: Longer ones are text: parsing time must not grow with what is never closed.
MAX_CHARS, MAX_LINES = 2_000, 50
_CLOSES = {"$$": "$$", "\\(": "\\)", "\\[": "\\]"}
#: What may stand in the middle of a word.
_SIGN = re.compile(r"[a-zA-Z]|[_^]?\\[a-zA-Z]+|[_^](?:[a-zA-Z0-9]|\{[^{}]*\})")
_BEGIN = re.compile(r"\\begin\{([a-zA-Z]{1,20}\*?)\}")


def formula_plugin(parser: Any) -> None:
    """A plugin of markdown-it: tokens `formula` and `formula_block`, with the formula and its signs as content."""
    parser.inline.ruler.before("escape", "formula", _inline)
    parser.block.ruler.before(
        "fence", "formula_block", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )


def _inline(state: Any, silent: bool) -> bool:
    text, begin = state.src, state.pos
    end = _end_in_line(text, begin) if text[begin] == "$" and text[begin : begin + 2] != "$$" else _end(text, begin)
    if not end:
        return False
    if not silent:
        state.push("formula", "", 0).content = text[begin:end]
    state.pos = end
    return True


def _end_in_line(text: str, begin: int) -> int:
    """Where `$…$` ends; 0 where it is none."""
    close = text.find("$", begin + 1, begin + MAX_CHARS)
    while close > 0 and text[close - 1] == "\\":
        close = text.find("$", close + 1, begin + MAX_CHARS)
    within = text[begin + 1 : close] if close > 0 else ""
    before, behind = text[begin - 1 : begin], text[close + 1 : close + 2]
    if not within or within != within.strip() or "`" in within or within.endswith("/") or behind == "{":
        return 0
    stands_alone = not (before.isalnum() or behind.isalnum())
    return close + 1 if stands_alone or _SIGN.fullmatch(within) else 0


def _end(text: str, begin: int) -> int:
    """Where a formula with signs of two characters, or an environment, ends; 0 where there is none."""
    closes = _closing(text, begin)
    close = text.find(closes, begin + 2, begin + MAX_CHARS) if closes else -1
    return close + len(closes) if close > 0 and text[begin + 2 : close].strip() else 0


def _closing(text: str, begin: int) -> str:
    """What ends the formula that begins here; `""` where none does."""
    if found := _BEGIN.match(text, begin):
        return f"\\end{{{found[1]}}}"
    return _CLOSES.get(text[begin : begin + 2], "")


def _block(state: Any, first: int, last: int, silent: bool) -> bool:
    """Lines from one that begins with a formula's sign to the one that ends with it; no blank line is between."""
    begin = state.bMarks[first] + state.tShift[first]
    if state.is_code_block(first) or not (closes := _closing(state.src, begin)):
        return False
    for line in range(first, min(last, first + MAX_LINES)):
        start = begin + 2 if line == first else state.bMarks[line]
        if state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            return False
        if closes in state.src[start : state.eMarks[line]]:
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
