"""A trace in a few lines: its runs, models, tools and tokens. No ids, no times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nbagent.text import shortened
from nbagent.trace.table import Row

#: How many models and tools are named, the most used first, and characters of each name.
MAX_NAMES, NAME_CHARS = 8, 60


def summary_lines(tables: Mapping[str, Sequence[Row]]) -> list[tuple[str, str]]:
    """Pairs of a label and a text.

    >>> summary_lines({"runs": [], "calls": [], "tool_calls": []})
    [('runs', '0')]
    """
    runs, calls, tools = tables["runs"], tables["calls"], tables["tool_calls"]
    replayed = sum(bool(run.get("replayed")) for run in runs)
    statuses = Counter(run["status"] for run in runs)
    notes = [f"{count} {status}" for status, count in statuses.items() if status != "ok"]
    notes += [f"{replayed} replayed"] if replayed else []
    lines = [("runs", f"{len(runs):,}{_in_brackets(notes)}")]
    if calls:
        lines.append(("model calls", _counted(call["model"] for call in calls)))
        lines.append(("tokens", _tokens(calls)))
    if tools:
        failed = sum(bool(call.get("is_error")) for call in tools)
        note = _in_brackets([f"{failed} failed"] * bool(failed))
        lines.append(("tool calls", _counted(call["name"] for call in tools) + note))
    costs = [call.get("cost_usd") for call in calls]
    known = [cost for cost in costs if cost is not None]
    if any(known):
        unknown = len(costs) - len(known)
        lines.append(
            (
                "cost",
                f"${sum(known):.4f}{_in_brackets([f'unknown for {unknown} of {len(costs)} calls'] * bool(unknown))}",
            )
        )
    return lines


def _counted(names: Iterable[object]) -> str:
    counts = Counter(shortened(str(name), NAME_CHARS) for name in names)
    most = counts.most_common(MAX_NAMES)
    more = [f"{len(counts) - len(most)} more"] if len(counts) > len(most) else []
    return f"{counts.total():,}: " + ", ".join([f"{name} ×{count:,}" for name, count in most] + more)


def _tokens(calls: Sequence[Row]) -> str:
    kinds = ("input", "cache_read", "output", "reasoning")
    sums = {kind: sum(call.get(f"{kind}_tokens") or 0 for call in calls) for kind in kinds}
    cached = _in_brackets([f"{sums['cache_read']:,} from the cache"] * bool(sums["cache_read"]))
    thinking = _in_brackets([f"{sums['reasoning']:,} thinking"] * bool(sums["reasoning"]))
    return f"{sums['input']:,} in{cached}, {sums['output']:,} out{thinking}"


def _in_brackets(notes: Sequence[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""
