"""A trace in a few lines: its runs, models, tools and tokens. No ids, no times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nbagent.text import shortened
from nbagent.trace.tally import TOKENS, Counts

#: How many models and tools are named, the most used first, and characters of each name.
MAX_NAMES, NAME_CHARS = 8, 60


def summary_lines(counts: Counts) -> list[tuple[str, str]]:
    """Pairs of a label and a text.

    >>> summary_lines(Counter())
    [('runs', '0')]
    """
    statuses, replayed = _by_value(counts, "status"), counts["replayed run", True]
    notes = [f"{count} {status}" for status, count in statuses.items() if status != "ok"]
    notes += [f"{replayed} replayed"] if replayed else []
    lines = [("runs", f"{statuses.total():,}{_in_brackets(notes)}")]
    if models := _by_value(counts, "model"):
        lines.append(("model calls", _counted(models)))
        lines.append(("tokens", _tokens(counts)))
    if tools := _by_value(counts, "tool"):
        failed = counts["tool calls", "failed"]
        lines.append(("tool calls", _counted(tools) + _in_brackets([f"{failed} failed"] * bool(failed))))
    paid, played = counts["cost", False], counts["cost", True]
    if paid or played:
        unknown = counts["unknown cost", False]
        notes = [f"${played:.4f} replayed, not paid"] if played else []
        notes += [f"unknown for {unknown} of {models.total()} calls"] if unknown else []
        lines.append(("cost", f"${paid:.4f}{_in_brackets(notes)}"))
    return lines


def _by_value(counts: Counts, what: str) -> Counter[str]:
    return Counter({value: count for (kind, value), count in counts.items() if kind == what})


def _counted(names: Counter[str]) -> str:
    most = names.most_common(MAX_NAMES)
    more = [f"{len(names) - len(most)} more"] if len(names) > len(most) else []
    shown = [f"{shortened(str(name), NAME_CHARS)} ×{count:,}" for name, count in most]
    return f"{names.total():,}: " + ", ".join(shown + more)


def _tokens(counts: Counts) -> str:
    sums = {kind: counts["tokens", kind] for kind in TOKENS}
    cached = _in_brackets([f"{sums['cache_read']:,} from the cache"] * bool(sums["cache_read"]))
    thinking = _in_brackets([f"{sums['reasoning']:,} thinking"] * bool(sums["reasoning"]))
    return f"{sums['input']:,} in{cached}, {sums['output']:,} out{thinking}"


def _in_brackets(notes: Sequence[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""
