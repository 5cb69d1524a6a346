"""A changed cell as a diff with all of its lines: what is not removed is the new code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from nbagent.core.render import markdown as render

_STYLE = render.style_html(Path(__file__).with_name("code_diff.css"))
#: The element of each kind of line.
_ELEMENTS = {"-": "del", "+": "ins", " ": "span"}


def code_diff(before: str, after: str, cell_id: str | None) -> dict[str, str]:
    """A folding block with the diff, as a mimebundle. `answer_buttons.js` adds *Accept* and *Reject* where it can.

    `before` is the cell as it ran, with which the script compares what is in the cell at a click.
    """
    lines = list(_lines(before.strip(), after))
    counts = (f"{sign}{n}" for kind, sign in (("+", "+"), ("-", "−")) if (n := sum(kind == each for each, _ in lines)))
    page = _STYLE + render.details_html(
        "Corrected cell", " ".join(counts), diff_html(before, after, cell_id), is_open=True
    )
    return {"text/html": page, "text/plain": "\n".join(f"{kind} {render.printable(line)}" for kind, line in lines)}


def diff_html(before: str, after: str, cell_id: str | None) -> str:
    """The diff alone, as safe HTML."""
    lines = _lines(before.strip(), after)
    page = "".join(f"<{_ELEMENTS[kind]}>{render.escape(line)}\n</{_ELEMENTS[kind]}>" for kind, line in lines)
    # as JSON, hidden characters are kept
    source = render.escape(json.dumps(before))
    place = f' data-nbagent-cell="{render.escape(cell_id)}" data-nbagent-before="{source}"' if cell_id else ""
    return f'<pre class="nbagent-diff {render.NO_TEX}"{place}>{page}</pre>'


def _lines(before: str, after: str) -> Iterator[tuple[str, str]]:
    old, new = before.splitlines(), after.splitlines()
    for _, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if old[old_start:old_end] == new[new_start:new_end]:
            yield from ((" ", line) for line in new[new_start:new_end])
        else:
            yield from (("-", line) for line in old[old_start:old_end])
            yield from (("+", line) for line in new[new_start:new_end])
