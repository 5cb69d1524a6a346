"""Names the cell that a prompt came from. If the cell exists, `answer_buttons.js` turns the name into a button."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbagent.core.render import markdown as render


def asked_in(run: Mapping[str, Any]) -> str:
    """Where a run's prompt came from, such as `cell [5]`; "" for a panel or a server. `run` is a row of `trace.runs`.

    >>> asked_in({"source": "magic", "execution_count": 5})
    'cell [5]'
    """
    if run.get("source") in (None, "panel", "http"):
        return ""
    count = run.get("execution_count")
    return f"cell [{count}]" if count else "from code"


def cell_link(run: Mapping[str, Any]) -> str:
    """The result of `asked_in` as HTML, which looks like plain text unless the script makes it a button.

    >>> cell_link({"source": "magic", "execution_count": 5, "cell_id": "b1"})
    '<small data-nbagent-asked-in="b1">cell [5]</small>'
    """
    text, cell_id = asked_in(run), run.get("cell_id")
    link = f' data-nbagent-asked-in="{render.escape(str(cell_id))}"' if cell_id else ""
    return f"<small{link}>{render.escape(text)}</small>" if text else ""
