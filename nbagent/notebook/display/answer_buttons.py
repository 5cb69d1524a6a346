"""Buttons in cells and panels.

Answers have *Copy* and thumbs buttons, and their code blocks have *Copy* and *Insert below*. A failed cell has *Explain
and fix*, and a correction has *Accept* and *Reject*.

An answer's footer contains the id of its run. The kernel starts a script in the front end, and the script adds buttons
to the answers whose runs this kernel knows. Saved outputs therefore contain no widget, and a host that can't run the
script shows the plain answer. A thumb sets the score `good` of the run in the agent's trace to 1 or 0.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

import anywidget
from traitlets import Dict, Unicode

from nbagent.agent.agent import Agent
from nbagent.core.background import background_loop
from nbagent.core.render import markdown as render
from nbagent.notebook.display.code_diff import diff_html
from nbagent.notebook.display.figures import listen_quietly

_CHANGED = "The cell has changed meanwhile, so it was not replaced. Accept would now make this change."


class AnswerButtons(anywidget.AnyWidget):
    """Runs `answer_buttons.js`. One instance serves all answers and is never displayed. Call its methods on the
    background loop.

    The script sends:

    - `{"notebook": True}` if it can change cells
    - `{"shown": run_ids}` when answers with these runs appear
    - `{"run": run_id, "good": 1}` (or 0 or None) when a thumb is clicked
    - `{"compare": number, "cell": id, "before": source, "after": code}` if a cell has changed since it failed

    The script receives the messages of `put_code` and `enter_code`, and:

    - `{"runs": {run_id: {"good": 1, "text": "…", "cell": "…"}}}`: the score (1, 0 or None), the answer's Markdown, and
      the prompt's cell
    - `{"gone": run_id}` if the kernel no longer knows the run
    - `{"compared": number, "page": html}`: the new diff

    `newest_cell` is the id of the cell that ran last; code from a panel is inserted below it. `failed` maps the ids of
    errors that can be explained to the ids of their cells.
    """

    _esm = Path(__file__).with_name("answer_buttons.js")
    _css = Path(__file__).with_name("answer_buttons.css")

    newest_cell = Unicode().tag(sync=True)
    failed = Dict().tag(sync=True)

    def __init__(self) -> None:
        super().__init__()
        listen_quietly(self)
        self._agents: WeakSet[Agent] = WeakSet()
        #: Whether a front end can change the notebook's cells.
        self.can_change_cells = False
        #: A message for a front end that has not connected yet.
        self._to_enter: dict[str, str] = {}
        on_loop = background_loop().call_soon_threadsafe
        self.on_msg(lambda _, message, buffers: on_loop(self._on_message, message))

    def offer(self, agent: Agent, *run_ids: str) -> None:
        """Add the buttons to this agent's answers. The answers of `run_ids` are already on display."""
        self._agents.add(agent)
        self._send_runs(run_ids)

    def put_code(self, code: str, below: str, before: str | None) -> None:
        """Put code below the cell `below`: into the first cell below it whose source is `before`, or else into a new
        cell.
        """
        self.send({"put": {"code": code, "below": below, "before": before}})

    def enter_code(self, code: str, below: str) -> None:
        """Once a front end has connected, put the cursor in the first cell after `below` that contains this code."""
        self._to_enter = {"code": code, "below": below}

    def _on_message(self, message: dict[str, Any]) -> None:
        if message.get("notebook"):
            self.can_change_cells = True
            if self._to_enter:
                self.send({"enter": self._to_enter})
                self._to_enter = {}
        if number := message.get("compare"):
            diff = diff_html(message["before"], message["after"], message["cell"])
            page = f'<div class="nbagent-changed" role="status">{_CHANGED}</div>{diff}'
            self.send({"compared": number, "page": page})
        elif shown := message.get("shown"):
            self._send_runs(shown)
        elif run_id := message.get("run"):
            for agent in self._agents:
                if run_id in _runs(agent):
                    agent.trace.score(run_id, "good", message["good"])
                    return self._send_runs([run_id])
            self.send({"gone": run_id})
        return None

    def _send_runs(self, run_ids: Any) -> None:
        runs = [(agent, run) for agent in self._agents for run_id, run in _runs(agent).items() if run_id in run_ids]
        if runs:
            self.send({"runs": {run["run_id"]: _about(agent, run) for agent, run in runs}})


def _runs(agent: Agent) -> dict[str, dict[str, Any]]:
    return {row["run_id"]: row for row in agent.trace.rows("runs")}


def _about(agent: Agent, run: dict[str, Any]) -> dict[str, Any]:
    """A run's data for the script."""
    text = render.printable(run.get("output") or "")
    return {"good": _good(agent, run["run_id"]), "text": text, "cell": run.get("cell_id")}


def _good(agent: Agent, run_id: str) -> float | None:
    """The user's score of the run."""
    scores = sorted(agent.trace.rows("scores"), key=lambda row: float(row["ts"]))
    mine = [row for row in scores if (row["run_id"], row["name"], row["by"]) == (run_id, "good", "user")]
    values = [row["value"] for row in mine if not row.get("call_id") and not row.get("tool_call_id")]
    return values[-1] if values else None


@cache
def answer_buttons() -> AnswerButtons:
    """Return this kernel's instance."""
    return AnswerButtons()
