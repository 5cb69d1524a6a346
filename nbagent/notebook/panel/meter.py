"""What the conversation has used so far, and how much of its budget the last run has."""

from __future__ import annotations

from typing import Any

from nbagent.agent import Agent
from nbagent.core.events import Event
from nbagent.core.messages import Usage


class Meter:
    """Tokens and dollars of an agent: what its trace holds, and from then on what its events report."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._tokens = self._run_tokens = 0
        self._cost: float | None = 0.0
        self._run_cost: float | None = 0.0
        self._run_id = ""
        if any(message.role == "assistant" for message in agent.conversation_history):
            calls = agent.trace.calls  # loads pandas, so only where there is something
            self._tokens, self._cost = _used(calls)
            last = calls["run_id"].iloc[-1:]
            self._run_id = "".join(last)
            self._run_tokens, self._run_cost = _used(calls[calls["run_id"].isin(last)])

    def count(self, run_id: str, event: Event) -> None:
        """Add a request's usage."""
        if run_id != self._run_id:
            self._run_id, self._run_tokens, self._run_cost = run_id, 0, 0.0
        cost = event.metadata.get("cost_usd")
        tokens = Usage(**{key: event.metadata.get(key) or 0 for key in Usage().to_dict()}).total_tokens
        self._tokens, self._run_tokens = self._tokens + tokens, self._run_tokens + tokens
        self._cost, self._run_cost = _sum(self._cost, cost), _sum(self._run_cost, cost)

    def html(self) -> str:
        """One line; the limits are those of a run, so a bar shows what the last one took of them."""
        shown = [f"{self._tokens:,} tokens"] if self._tokens else []
        if self._cost:
            shown.append(f"${self._cost:.4f}")
        limits = self._agent.limits
        if limits.max_cost is not None:
            spent = "?" if self._run_cost is None else f"${self._run_cost:.3f}"
            shown.append(_bar(f"{spent} of ${limits.max_cost:g}", self._run_cost or 0.0, limits.max_cost))
        if limits.max_total_tokens is not None:
            text = f"{self._run_tokens:,} of {limits.max_total_tokens:,}"
            shown.append(_bar(text, self._run_tokens, limits.max_total_tokens))
        spans = "".join(f"<span>{part}</span>" for part in shown)
        return f'<div class="nbagent-meter" title="The bar: what the last question took of its limit">{spans}</div>'


def _used(calls: Any) -> tuple[int, float | None]:
    """Tokens and dollars of some requests; None where a price is not known."""
    cost = calls["cost_usd"]
    return int(calls["total_tokens"].sum()), None if cost.isna().any() else float(cost.sum())


def _sum(total: float | None, cost: Any) -> float | None:
    return None if total is None or cost is None else total + float(cost)


def _bar(text: str, part: float, whole: float) -> str:
    share = min(100.0, 100 * part / whole) if whole else 100.0
    return f'{text}<i class="nbagent-bar"><b style="width:{share:.0f}%"></b></i>'
