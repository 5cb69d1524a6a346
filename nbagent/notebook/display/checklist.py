"""A plan as a checklist, in cells and panels: what is done, what is being done, and what was dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nbagent.core.render import markdown as render
from nbagent.plan import Step

#: What stands for a status.
MARKS = {"pending": "○", "doing": "→", "done": "✓", "dropped": "✗"}


def checklist_html(steps: Sequence[Step]) -> str:
    """The plan as HTML. Screen readers say the status."""
    items = "".join(
        f'<li class="nbagent-{each.status}"><span role="img" aria-label="{each.status}">{MARKS[each.status]}</span> '
        f"<span>{render.escape(each.step)}</span>{_note_html(each)}</li>"
        for each in steps
    )
    title = f'<div class="nbagent-quiet">{render.escape(_title(steps))}</div>'
    return f'<div class="nbagent-plan {render.NO_TEX}">{title}<ul>{items}</ul></div>'


def checklist_lines(steps: Sequence[Step]) -> Iterator[str]:
    """The plan as lines of text."""
    yield _title(steps)
    for each in steps:
        yield f"  {MARKS[each.status]} {each.step}" + (f" ({each.note})" if each.note else "")


def _title(steps: Sequence[Step]) -> str:
    counts = {status: sum(each.status == status for each in steps) for status in ("done", "dropped")}
    dropped = f", {counts['dropped']} dropped" if counts["dropped"] else ""
    return f"Plan: {counts['done']} of {len(steps) - counts['dropped']} done{dropped}"


def _note_html(step: Step) -> str:
    return f' <span class="nbagent-quiet">{render.escape(step.note)}</span>' if step.note else ""
