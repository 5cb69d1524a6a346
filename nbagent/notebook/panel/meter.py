"""The panel's meter: what the conversation used and cost, and how near it is to a limit."""

from __future__ import annotations

from typing import Any

from nbagent.agent import Agent
from nbagent.core.events import Event
from nbagent.core.messages import Usage
from nbagent.core.render import markdown as render
from nbagent.errors import NbagentError
from nbagent.pricing import context_window


class Meter:
    """Counts the agent's tokens and dollars: first from its trace, from then on from its events.

    It also measures the last run against the agent's limits, and the history against the model's context window.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._tokens = self._run_tokens = 0
        self._cost: float | None = 0.0
        self._run_cost: float | None = 0.0
        self._run_id = ""
        if any(message.role == "assistant" for message in agent.conversation_history):
            calls = agent.trace.calls  # loads pandas, so only if there is something to count
            self._tokens, self._cost = _sums(calls)
            last = calls["run_id"].iloc[-1:]
            self._run_id = "".join(last)
            self._run_tokens, self._run_cost = _sums(calls[calls["run_id"].isin(last)])

    def count(self, run_id: str, event: Event) -> None:
        """Add the usage of a request."""
        if run_id != self._run_id:
            self._run_id, self._run_tokens, self._run_cost = run_id, 0, 0.0
        cost = 0.0 if event.metadata.get("replayed") else event.metadata.get("cost_usd")
        tokens = Usage(**{key: event.metadata.get(key) or 0 for key in Usage().to_dict()}).total_tokens
        self.add(tokens, cost)
        self._run_tokens += tokens
        self._run_cost = None if self._run_cost is None or cost is None else self._run_cost + cost

    def add(self, tokens: int, cost: float | None) -> None:
        """Add what was spent beside the conversation's runs."""
        self._tokens += tokens
        self._cost = None if self._cost is None or cost is None else self._cost + cost

    def html(self) -> str:
        """Tokens, dollars, and a bar for what is nearest to its limit. The title says all of it in words."""
        shares, lines = [], []
        for what, text, part, whole in self._limited():
            share = min(1.0, part / whole) if whole else 1.0
            shares.append((share, what))
            lines.append(f"{what}: {text} ({share:.0%})")
        cost = "an unknown price" if self._cost is None else f"${self._cost:.4f}"
        lines.append(f"Spent in all: {self._tokens:,} tokens, {cost}")
        shown = [f"{self._tokens:,} tokens"] if self._tokens else []
        shown += [cost] if self._cost else []
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
        """`(what, how much of it, part, whole)` for all that has a limit. Other limits are those of one run."""
        found: list[tuple[str, str, float, float]] = []
        if self._tokens:
            tokens, window = self._agent.context.get_tokens(), self._window()
            if window:
                found.append(("Context", f"about {tokens:,} of {window:,} tokens", tokens, window))
        limits = self._agent.limits
        if (most := limits.max_total_tokens) is not None:
            found.append(("Last run", f"{self._run_tokens:,} of {most:,} tokens", self._run_tokens, most))
        if (dollars := limits.max_cost) is not None:
            spent = "?" if self._run_cost is None else f"${self._run_cost:.4f}"
            found.append(("Cost of the last run", f"{spent} of ${dollars:g}", self._run_cost or 0.0, dollars))
        return found

    def _window(self) -> int | None:
        """Tokens that the history may have: where it is trimmed, or what the model takes."""
        if (most := self._agent.context.max_tokens) is not None:
            return most
        try:
            return context_window(self._agent.provider)
        except (NbagentError, ImportError):  # the agent has no model yet
            return None


def _sums(calls: Any) -> tuple[int, float | None]:
    """Tokens and dollars of some requests; no dollars if a price is unknown. Replayed answers were not paid."""
    cost = calls["cost_usd"].mask(calls["replayed"].fillna(False), 0.0)
    return int(calls["total_tokens"].sum()), None if cost.isna().any() else float(cost.sum())
