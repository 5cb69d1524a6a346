"""The preview of a call that waits for approval, as HTML; of a long one, a beginning is shown first."""

from __future__ import annotations

from nbagent.core.render import markdown as render
from nbagent.core.render.diff import Line, lines_html
from nbagent.core.render.highlight import highlight_code
from nbagent.functions.preview import Preview

#: Characters that count as one line: a longer one takes the place of several.
LINE_CHARS = 100


def preview_html(preview: Preview, room: float) -> tuple[str, int]:
    """As many lines of it as there is room for, and how many are left."""
    page, left = "", 0
    for change in preview.changes:
        lines, shown = change.lines(), 0
        for _, line in lines:
            room -= 1 + len(line) // LINE_CHARS
            if room < 0:
                break
            shown += 1
        left += len(lines) - shown
        if shown or room >= 0:
            title = f'<div class="nbagent-quiet">{render.escape(change.title)}</div>' if change.title else ""
            page += title + _lines_html(lines[:shown], change.language)
    return page, left


def _lines_html(lines: list[Line], language: str) -> str:
    if any(kind != " " for kind, _ in lines):
        return lines_html(lines)
    text = "\n".join(line for _, line in lines)
    return f"<pre>{highlight_code(text, language) or render.escape(text)}</pre>"
