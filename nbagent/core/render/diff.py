"""A text change as a diff: its lines, and the lines as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path

from nbagent.core.render import markdown as render

DIFF_STYLE = render.style_html(Path(__file__).with_name("diff.css"))

#: A line with its kind: " ", "-", "+", or "…" for a note about omitted lines.
Line = tuple[str, str]
#: The element of each kind of line.
_ELEMENTS = {"-": "del", "+": "ins", " ": "span", "…": "span"}


def diff_lines(before: str, after: str) -> Iterator[Line]:
    """All lines of both texts."""
    old, new = before.splitlines(), after.splitlines()
    for _, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if old[old_start:old_end] == new[new_start:new_end]:
            yield from ((" ", line) for line in new[new_start:new_end])
        else:
            yield from (("-", line) for line in old[old_start:old_end])
            yield from (("+", line) for line in new[new_start:new_end])


def without_far_lines(lines: Iterable[Line], around: int = 3) -> Iterator[Line]:
    """The lines up to `around` lines from a change; a note replaces the others.

    >>> list(without_far_lines([(" ", "a"), (" ", "b"), (" ", "c"), ("+", "d")], 1))
    [('…', '[2 unchanged lines]'), (' ', 'c'), ('+', 'd')]
    """
    lines = list(lines)
    changed = [number for number, (kind, _) in enumerate(lines) if kind != " "]
    near = {number for each in changed for number in range(each - around, each + around + 1)}
    left_out = 0
    for number, line in enumerate([*lines, None]):
        if line is not None and number not in near:
            left_out += 1
            continue
        if left_out:
            yield "…", f"[{left_out} unchanged {'line' if left_out == 1 else 'lines'}]"
            left_out = 0
        if line is not None:
            yield line


def lines_html(lines: Iterable[Line], attributes: str = "") -> str:
    """The lines as safe HTML; `attributes` of the element are already HTML."""
    page = "".join(f"<{_ELEMENTS[kind]}>{render.escape(line)}\n</{_ELEMENTS[kind]}>" for kind, line in lines)
    return f'<pre class="nbagent-diff {render.NO_TEX}"{attributes}>{page}</pre>'
