"""A summary of a trace in a few lines: its runs, models, tools, tokens and cost, without ids or times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from nbagent.text import shortened
from nbagent.trace.store import TraceStore

#: How many models and tools are named, the most used first; and the characters of a name.
MAX_NAMES, NAME_CHARS = 8, 60
_TOKENS = ("input", "cache_read", "output", "reasoning")


def summary_lines(store: TraceStore) -> list[tuple[str, str]]:
    """Return the lines of the summary, each as a label and a text."""
    statuses = Counter(dict(store.get("SELECT status, count(*) FROM runs GROUP BY status ORDER BY min(n)")))
    ((replayed_runs,),) = store.get("SELECT count(*) FROM runs WHERE replayed")
    models = Counter(dict(store.get("SELECT model, count(*) FROM calls GROUP BY model ORDER BY min(n)")))
    sums = ", ".join(f"coalesce(sum({name}_tokens), 0)" for name in _TOKENS)
    (tokens,) = store.get(f"SELECT {sums} FROM calls")  # noqa: S608  only our own names are joined in
    tools = Counter(dict(store.get("SELECT name, count(*) FROM tool_calls GROUP BY name ORDER BY min(n)")))
    ((failed,),) = store.get("SELECT count(*) FROM tool_calls WHERE is_error")
    costs = store.get("SELECT coalesce(replayed, 0), total(cost_usd), count(*) - count(cost_usd) FROM calls GROUP BY 1")
    paid, played = (sum(cost for flag, cost, _ in costs if flag == replayed) for replayed in (0, 1))
    unknown = sum(count for replayed, _, count in costs if not replayed)

    notes = [f"{count} {status}" for status, count in statuses.items() if status != "ok"]
    notes += [f"{replayed_runs} replayed"] if replayed_runs else []
    lines = [("runs", f"{statuses.total():,}{_in_parentheses(notes)}")]
    if models:
        lines += [("model calls", _named(models)), ("tokens", _tokens(dict(zip(_TOKENS, tokens, strict=True))))]
    if tools:
        lines.append(("tool calls", _named(tools) + _in_parentheses([f"{failed} failed"] * bool(failed))))
    if paid or played:
        notes = [f"${played:.4f} replayed, not paid"] if played else []
        notes += [f"unknown for {unknown} of {models.total()} calls"] if unknown else []
        lines.append(("cost", f"${paid:.4f}{_in_parentheses(notes)}"))
    return lines


def _named(names: Counter[str]) -> str:
    most = names.most_common(MAX_NAMES)
    more = [f"{len(names) - len(most)} more"] if len(names) > len(most) else []
    shown = [f"{shortened(str(name), NAME_CHARS)} ×{count:,}" for name, count in most]
    return f"{names.total():,}: " + ", ".join(shown + more)


def _tokens(sums: Mapping[str, int]) -> str:
    cached = _in_parentheses([f"{sums['cache_read']:,} from the cache"] * bool(sums["cache_read"]))
    thinking = _in_parentheses([f"{sums['reasoning']:,} thinking"] * bool(sums["reasoning"]))
    return f"{sums['input']:,} in{cached}, {sums['output']:,} out{thinking}"


def _in_parentheses(notes: Sequence[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""
