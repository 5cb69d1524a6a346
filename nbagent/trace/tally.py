"""What the summary of a trace counts. Rows that no longer change are counted once: a large trace has it quickly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nbagent.trace.table import Columns, Row, Table, by_column, count_of

#: By what is counted and its value: `("model", "gpt-5.6-luna")`, `("tokens", "input")`.
Counts = Counter[tuple[str, Any]]
TOKENS = ("input", "cache_read", "output", "reasoning")


class Tally:
    """The counts of the settled rows of a trace."""

    def __init__(self) -> None:
        self._counts: Counts = Counter()
        self._counted = dict.fromkeys(_COUNTERS, 0)

    def advance(self, tables: Mapping[str, Table]) -> None:
        """Count what has settled since the last time."""
        for name, start in self._counted.items():
            for columns in tables[name].parts(start):
                _add(self._counts, name, columns)
            self._counted[name] = tables[name].settled

    def total(self, tables: Mapping[str, Table]) -> Counts:
        """The counts of all rows."""
        self.advance(tables)
        return self._counts + tally_of({name: tables[name].rows for name in _COUNTERS})


def tally_of(rows: Mapping[str, Sequence[Row]]) -> Counts:
    """The counts of these rows, by table.

    >>> tally_of({"runs": [{"status": "ok"}], "calls": [], "tool_calls": []})["status", "ok"]
    1
    """
    counts: Counts = Counter()
    for name in _COUNTERS:
        _add(counts, name, by_column(rows[name]))
    return counts


def _add(counts: Counts, table: str, columns: Columns) -> None:
    number = count_of(columns)
    _COUNTERS[table](counts, lambda name: columns.get(name) or [None] * number)


def _add_runs(counts: Counts, column: Callable[[str], list[Any]]) -> None:
    _count(counts, "status", column("status"))
    _count(counts, "replayed run", filter(None, column("replayed")))


def _add_calls(counts: Counts, column: Callable[[str], list[Any]]) -> None:
    _count(counts, "model", column("model"))
    for kind in TOKENS:
        counts["tokens", kind] += sum(filter(None, column(f"{kind}_tokens")))
    for cost, replayed in zip(column("cost_usd"), column("replayed"), strict=True):
        counts["unknown cost" if cost is None else "cost", bool(replayed)] += 1 if cost is None else cost


def _add_tool_calls(counts: Counts, column: Callable[[str], list[Any]]) -> None:
    _count(counts, "tool", column("name"))
    counts["tool calls", "failed"] += sum(map(bool, column("is_error")))


def _count(counts: Counts, what: str, values: Iterable[Any]) -> None:
    counts.update({(what, value): number for value, number in Counter(values).items()})


_COUNTERS: dict[str, Callable[[Counts, Callable[[str], list[Any]]], None]] = {
    "runs": _add_runs,
    "calls": _add_calls,
    "tool_calls": _add_tool_calls,
}
