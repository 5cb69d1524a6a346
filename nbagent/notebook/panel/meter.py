"""The panel's meter: the tokens and cost of the conversation, and how close the nearest limit is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbagent.agent.agent import Agent
from nbagent.core.events import UsageReport
from nbagent.core.render import markdown as render
from nbagent.errors import NbagentError
from nbagent.pricing import context_window


@dataclass(slots=True)
class _Sum:
    """The usage of some requests. `is_least`: the real price is higher, because an answer was stopped or broke off."""

    tokens: int = 0
    dollars: float = 0.0
    is_least: bool = False

    def add(self, tokens: int, dollars: float | None, is_least: bool) -> None:
        self.tokens += tokens
        self.dollars += dollars or 0.0
        self.is_least = self.is_least or is_least or dollars is None

    @property
    def text(self) -> str:
        """The price in words."""
        if self.is_least:
            return f"at least ${self.dollars:.4f}" if self.dollars else "an unknown price"
        return f"${self.dollars:.4f}"


class Meter:
    """Adds up the agent's tokens and cost, first from its trace and then from its events.

    The meter also compares the last run with the agent's limits, and the history with the model's context window.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._all, self._run, self._run_id = _Sum(), _Sum(), ""
        if any(message.role == "assistant" for message in agent.conversation_history):
            for row in agent.trace.rows("calls"):
                self._add(row["run_id"], row["total_tokens"] or 0, {**row, "estimated": row["usage_estimated"]})

    def count(self, run_id: str, event: UsageReport) -> None:
        """Add a request's usage."""
        self._add(run_id, event.usage.total_tokens, event.metadata)

    def _add(self, run_id: str, tokens: int, about: Mapping[str, Any]) -> None:
        if run_id != self._run_id:
            self._run_id, self._run = run_id, _Sum()
        cost = 0.0 if about.get("replayed") else about.get("cost_usd")  # replayed answers cost nothing
        for total in (self._all, self._run):
            total.add(tokens, cost, bool(about.get("estimated") and cost))

    def html(self) -> str:
        """The meter's HTML: tokens, dollars, and a bar for the value that is closest to its limit. The title describes
        all values in words.
        """
        shares, lines = [], []
        for what, text, part, whole in self._limited():
            share = min(1.0, part / whole) if whole else 1.0
            shares.append((share, what))
            lines.append(f"{what}: {text} ({share:.0%})")
        spent = self._all
        lines.append(f"Spent in all: {spent.tokens:,} tokens, {spent.text}")
        shown = [f"{spent.tokens:,} tokens"] if spent.tokens else []
        shown += [spent.text] if spent.dollars else []
        spans = "".join(f"<span>{part}</span>" for part in shown)
        if shares:
            share, what = max(shares)
            spans += f'<i class="nbagent-bar"><b style="width:{share:.0%}"></b></i>'
            lines.append(f"The bar: {what.lower()}")
        if not spans:
            return '<div class="nbagent-meter"></div>'
        about = render.escape("\n".join(lines))
        return f'<div class="nbagent-meter" role="img" tabindex="0" title="{about}" aria-label="{about}">{spans}</div>'

    def _limited(self) -> list[tuple[str, str, float, float]]:
        """`(name, description, amount, limit)` of each value that has a limit."""
        found: list[tuple[str, str, float, float]] = []
        if self._all.tokens:
            tokens, window = self._agent.context.get_tokens(), self._window()
            if window:
                found.append(("Context", f"about {tokens:,} of {window:,} tokens", tokens, window))
        limits = self._agent.limits
        if (most := limits.max_total_tokens) is not None:
            found.append(("Last run", f"{self._run.tokens:,} of {most:,} tokens", self._run.tokens, most))
        if (dollars := limits.max_cost) is not None:
            found.append(("Cost of the last run", f"{self._run.text} of ${dollars:g}", self._run.dollars, dollars))
        return found

    def _window(self) -> int | None:
        """The most tokens that the history may have: its trimming limit, or the model's context window."""
        if (most := self._agent.context.max_tokens) is not None:
            return most
        try:
            return context_window(self._agent.provider)
        except (NbagentError, ImportError):  # the agent has no model yet
            return None
