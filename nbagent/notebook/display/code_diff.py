"""A changed cell as a diff with all of its lines: what is not removed is the new code."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from nbagent.core.render import markdown as render

_STYLE = render.style_html(Path(__file__).with_name("code_diff.css"))
#: The element of each kind of line.
_ELEMENTS = {"-": "del", "+": "ins", " ": "span"}


def code_diff(before: str, after: str, cell_id: str | None) -> dict[str, str]:
    """The diff as a mimebundle. Where the front end can change the cell, buttons put the new code there or below it."""
    lines = list(_lines(before, after))
    page = "".join(f"<{_ELEMENTS[kind]}>{render.escape(line)}\n</{_ELEMENTS[kind]}>" for kind, line in lines)
    place = f' data-nbagent-cell="{render.escape(cell_id)}"' if cell_id else ""
    body = f'<pre class="nbagent-diff {render.NO_TEX}"{place}>{page}</pre>'
    plain = "\n".join(f"{kind} {render.printable(line)}" for kind, line in lines)
    return {"text/html": _STYLE + render.output_html(body, formulas=False), "text/plain": plain}


def _lines(before: str, after: str) -> Iterator[tuple[str, str]]:
    old, new = before.splitlines(), after.splitlines()
    for _, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if old[old_start:old_end] == new[new_start:new_end]:
            yield from ((" ", line) for line in new[new_start:new_end])
        else:
            yield from (("-", line) for line in old[old_start:old_end])
            yield from (("+", line) for line in new[new_start:new_end])
