"""Shows a changed cell as a diff with all lines. The lines that are not marked as removed are the new code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from nbagent.core.render import markdown as render
from nbagent.core.render.diff import DIFF_STYLE, diff_lines, lines_html
from nbagent.functions.preview import TextChange

_STYLE = DIFF_STYLE + render.style_html(Path(__file__).with_name("code_diff.css"))


def code_diff(before: str, after: str, cell_id: str | None) -> dict[str, str]:
    """A collapsible block with the diff, as a mimebundle. `answer_buttons.js` adds *Accept* and *Reject* if the front
    end can run it.

    `before` is the source that ran. After a click, the script compares it with the cell's current source.
    """
    lines = list(diff_lines(before.strip(), after))
    counts = (f"{sign}{n}" for kind, sign in (("+", "+"), ("-", "−")) if (n := sum(kind == each for each, _ in lines)))
    page = _STYLE + render.details_html(
        "Corrected cell", " ".join(counts), diff_html(before, after, cell_id), is_open=True
    )
    return {"text/html": page, "text/plain": "\n".join(f"{kind} {render.printable(line)}" for kind, line in lines)}


def changes_html(changes: Iterable[tuple[str, str | None, str | None]]) -> str:
    """The diffs of several cells as one page.

    Each change has the cell's name, its earlier source and its current source. A source is None if the cell did not
    exist at that time.
    """
    parts = []
    for name, before, after in changes:
        what = "added" if before is None else "deleted" if after is None else "edited"
        heading = f'{render.escape(name or "Cell")} <span class="nbagent-quiet">{what}</span>'
        parts.append(f'<div class="nbagent-diff-of">{heading}</div>{diff_html(before or "", after or "", None)}')
    page = "".join(parts) or render.note_html("The code and text of all cells is unchanged.")
    return _STYLE + render.output_html(page, formulas=False)


def change_html(change: TextChange) -> str:
    """A change that waits for approval, as HTML with marked lines."""
    lines = change.lines()
    if change.before is None:
        lines = [("+", line) for _, line in lines]
    return _STYLE + render.output_html(lines_html(lines), formulas=False)


def diff_html(before: str, after: str, cell_id: str | None) -> str:
    """The diff alone, as safe HTML."""
    # as JSON, hidden characters are kept
    source = render.escape(json.dumps(before))
    place = f' data-nbagent-cell="{render.escape(cell_id)}" data-nbagent-before="{source}"' if cell_id else ""
    return lines_html(diff_lines(before.strip(), after), place)
