"""Renders a plan as a checklist of done, current, pending and dropped steps, for cells and panels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nbagent.agent.plan import UPDATE_PLAN, Step, checked_steps
from nbagent.core.render import markdown as render

#: The mark of each status.
MARKS = {"pending": "○", "doing": "→", "done": "✓", "dropped": "✗"}


def checklist_html(steps: Sequence[Step]) -> str:
    """The plan as HTML. Screen readers announce each step's status."""
    items = ""
    for each in steps:
        note = f' <span class="nbagent-quiet">{render.escape(each.note)}</span>' if each.note else ""
        mark = f'<span role="img" aria-label="{each.status}">{MARKS[each.status]}</span>'
        items += f'<li class="nbagent-{each.status}">{mark} <span>{render.escape(each.step)}</span>{note}</li>'
    title = f'<div class="nbagent-quiet">{render.escape(_title(steps))}</div>'
    return f'<div class="nbagent-plan {render.NO_TEX}">{title}<ul>{items}</ul></div>'


def checklist_lines(steps: Sequence[Step]) -> Iterator[str]:
    """The plan as lines of text."""
    yield _title(steps)
    for each in steps:
        yield f"  {MARKS[each.status]} {each.step}" + (f" ({each.note})" if each.note else "")


def plan_of_call(name: str | None, arguments: Mapping[str, Any] | None) -> list[Step]:
    """The plan that a call would write. Empty for other calls, or if the checklist can't show the whole plan."""
    if name != UPDATE_PLAN or arguments is None or arguments.keys() != {"steps"}:
        return []
    try:
        given, steps = arguments["steps"], checked_steps(arguments["steps"])
        shown = [{**asdict(step), **each, "status": step.status} for each, step in zip(given, steps, strict=True)]
    except (ValueError, TypeError, AttributeError):
        return []
    return steps if shown == list(map(asdict, steps)) else []


def plan_name(steps: Sequence[Step]) -> str:
    """The summary of a call that would write this plan.

    >>> plan_name([Step("Load the data"), Step("Plot it")])
    'plan of 2 steps'
    """
    return f"plan of {len(steps)} step{'' if len(steps) == 1 else 's'}"


def _title(steps: Sequence[Step]) -> str:
    counts = {status: sum(each.status == status for each in steps) for status in ("done", "dropped")}
    dropped = f", {counts['dropped']} dropped" if counts["dropped"] else ""
    return f"Plan: {counts['done']} of {len(steps) - counts['dropped']} done{dropped}"
