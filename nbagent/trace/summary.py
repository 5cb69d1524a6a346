"""A trace in a few lines: its runs, models, tools and tokens. No ids, no times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nbagent.text import shortened
from nbagent.trace.table import Columns, Table, by_column, count_of

#: By what is counted and its value: `("model", "gpt-5.6-luna")`, `("tokens", "input")`.
Counts = Counter[tuple[str, Any]]
#: How many models and tools are named, the most used first, and characters of each name.
MAX_NAMES, NAME_CHARS = 8, 60


class Summary:
    """Counts the rows of a trace. Those that no longer change are counted once: a large trace has it quickly.

    >>> Summary().lines({name: Table() for name in ("runs", "calls", "tool_calls")})
    [('runs', '0')]
    """

    def __init__(self) -> None:
        self._settled: Counts = Counter()
        #: How many rows of each table these counts hold.
        self._counted = dict.fromkeys(("runs", "calls", "tool_calls"), 0)

    def advance(self, tables: Mapping[str, Table]) -> None:
        """Count what has settled since the last time."""
        for name, start in self._counted.items():
            for columns in tables[name].parts(start):
                _count(self._settled, name, columns)
            self._counted[name] = tables[name].settled

    def lines(self, tables: Mapping[str, Table]) -> list[tuple[str, str]]:
        """Pairs of a label and a text."""
        self.advance(tables)
        counts = self._settled.copy()
        for name in self._counted:
            _count(counts, name, by_column(tables[name].rows))
        statuses, models, tools = (_of(counts, what) for what in ("status", "model", "tool"))
        notes = [f"{count} {status}" for status, count in statuses.items() if status != "ok"]
        notes += [f"{replayed} replayed"] if (replayed := counts["replayed run", True]) else []
        lines = [("runs", f"{statuses.total():,}{_in_brackets(notes)}")]
        if models:
            lines += [("model calls", _named(models)), ("tokens", _tokens(_of(counts, "tokens")))]
        if tools:
            failed = counts["tool calls", "failed"]
            lines.append(("tool calls", _named(tools) + _in_brackets([f"{failed} failed"] * bool(failed))))
        paid, played = counts["cost", False], counts["cost", True]
        if paid or played:
            unknown = counts["unknown cost", False]
            notes = [f"${played:.4f} replayed, not paid"] if played else []
            notes += [f"unknown for {unknown} of {models.total()} calls"] if unknown else []
            lines.append(("cost", f"${paid:.4f}{_in_brackets(notes)}"))
        return lines


def _count(counts: Counts, table: str, columns: Columns) -> None:
    """Add what these rows of a table hold."""

    def column(name: str) -> list[Any]:
        return columns.get(name) or [None] * count_of(columns)

    def add(what: str, values: Iterable[Any]) -> None:
        counts.update({(what, value): number for value, number in Counter(values).items()})

    if table == "runs":
        add("status", column("status"))
        add("replayed run", filter(None, column("replayed")))
    elif table == "tool_calls":
        add("tool", column("name"))
        counts["tool calls", "failed"] += sum(map(bool, column("is_error")))
    else:
        add("model", column("model"))
        for kind in ("input", "cache_read", "output", "reasoning"):
            counts["tokens", kind] += sum(filter(None, column(f"{kind}_tokens")))
        for cost, replayed in zip(column("cost_usd"), column("replayed"), strict=True):
            counts["unknown cost" if cost is None else "cost", bool(replayed)] += 1 if cost is None else cost


def _of(counts: Counts, what: str) -> Counter[str]:
    return Counter({value: count for (kind, value), count in counts.items() if kind == what})


def _named(names: Counter[str]) -> str:
    most = names.most_common(MAX_NAMES)
    more = [f"{len(names) - len(most)} more"] if len(names) > len(most) else []
    shown = [f"{shortened(str(name), NAME_CHARS)} ×{count:,}" for name, count in most]
    return f"{names.total():,}: " + ", ".join(shown + more)


def _tokens(sums: Counter[str]) -> str:
    cached = _in_brackets([f"{sums['cache_read']:,} from the cache"] * bool(sums["cache_read"]))
    thinking = _in_brackets([f"{sums['reasoning']:,} thinking"] * bool(sums["reasoning"]))
    return f"{sums['input']:,} in{cached}, {sums['output']:,} out{thinking}"


def _in_brackets(notes: Sequence[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""
