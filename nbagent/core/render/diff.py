"""Diffs of text, as lines and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path

from nbagent.core.render import markdown as render

DIFF_STYLE = render.style_html(Path(__file__).with_name("diff.css"))

#: A line with its kind: " ", "-", "+", or "…" for a note about omitted lines.
Line = tuple[str, str]
#: The element of each kind of line.
_ELEMENTS = {"-": "del", "+": "ins", " ": "span", "…": "span"}


def diff_lines(before: str, after: str) -> Iterator[Line]:
    """Yield all lines of both texts, each marked as removed, added or unchanged."""
    old, new = before.splitlines(), after.splitlines()
    for _, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if old[old_start:old_end] == new[new_start:new_end]:
            yield from ((" ", line) for line in new[new_start:new_end])
        else:
            yield from (("-", line) for line in old[old_start:old_end])
            yield from (("+", line) for line in new[new_start:new_end])


def without_far_lines(lines: Iterable[Line], around: int = 3) -> Iterator[Line]:
    """Yield the lines within `around` lines of a change. Notes replace the other lines.

    >>> list(without_far_lines([(" ", "a"), (" ", "b"), (" ", "c"), ("+", "d")], 1))
    [('…', '[2 unchanged lines]'), (' ', 'c'), ('+', 'd')]
    """
    lines = list(lines)
    changed = [number for number, (kind, _) in enumerate(lines) if kind != " "]
    near = {number for each in changed for number in range(each - around, each + around + 1)}
    for is_near, group in groupby(enumerate(lines), lambda numbered: numbered[0] in near):
        block = [line for _, line in group]
        note = f"[{len(block)} unchanged {'line' if len(block) == 1 else 'lines'}]"
        yield from block if is_near else [("…", note)]


def lines_html(lines: Iterable[Line], attributes: str = "") -> str:
    """Return the lines as safe HTML. `attributes` are the element's attributes, already in HTML."""
    page = "".join(f"<{_ELEMENTS[kind]}>{render.escape(line)}\n</{_ELEMENTS[kind]}>" for kind, line in lines)
    return f'<pre class="nbagent-diff {render.NO_TEX}"{attributes}>{page}</pre>'
