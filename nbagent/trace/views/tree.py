"""A tree of runs, their tool calls, and the runs that these calls started."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbagent.core.render import markdown as render
from nbagent.text import shortened
from nbagent.trace.rows import Row
from nbagent.trace.views.plots import COLOURS, NOTHING, show_empty, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The characters of a prompt or tool call.
TITLE_CHARS = 60
#: The columns of `runs` that a line adds up.
_SUMS = ("n_calls", "total_tokens", "cost_usd")


@dataclass(slots=True)
class Node:
    """A run or tool call. `sums` has the totals of the columns `_SUMS` for this node and all nodes below it."""

    title: str
    kind: str
    outcome: str
    seconds: float | None
    below: list[Node] = field(default_factory=list)
    sums: dict[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> str:
        """The node's outcome, requests, tokens, cost and duration, as one line."""
        texts = [self.outcome]
        if requests := self.sums.get("n_calls"):
            texts.append(f"{requests:,} request{'s' if requests > 1 else ''}")
        texts += [f"{tokens:,} tokens"] if (tokens := self.sums.get("total_tokens")) else []
        texts += [f"${cost:.4f}"] if (cost := self.sums.get("cost_usd")) else []
        texts += [render.format_duration(self.seconds)] if self.seconds is not None else []
        return " · ".join(filter(None, texts))


class TraceTree:
    """A tree of runs and their tool calls. The runs that a run or tool call started are below it.

    `print` and notebooks show the tree as text, and `plot()` draws it. The requests, tokens and dollars of a line
    include all lines nested below it.
    """

    def __init__(self, rows: Mapping[str, Sequence[Row]], run_id: str | None = None) -> None:
        self._runs = {row["run_id"]: row for row in rows["runs"]}
        self._tools: dict[str, list[Row]] = {}
        for tool in rows["tool_calls"]:
            self._tools.setdefault(tool["run_id"], []).append(tool)
        #: Runs by the run and tool call that started them. The call is None if the run itself did, for a summary.
        self._started: dict[tuple[str, str | None], list[Row]] = {}
        for run in rows["runs"]:
            parent = run.get("parent_run_id") or ""
            if parent in self._runs:
                self._started.setdefault((parent, run.get("parent_tool_call_id")), []).append(run)
        tops = [run for run in rows["runs"] if run.get("parent_run_id") not in self._runs]
        self.roots = [self._run_node(run) for run in ([self._runs[run_id]] if run_id is not None else tops)]

    def _run_node(self, run: Row) -> Node:
        tools = self._tools.get(run["run_id"], [])
        beside = [self._run_node(child) for child in self._started.get((run["run_id"], None), [])]
        below = [*beside, *map(self._tool_node, tools)]
        kind = "error" if run["status"] in ("error", "interrupted") else "model"
        sums = _summed([run, *(node.sums for node in below)])
        return Node(run.get("prompt") or "", kind, run["status"], run.get("duration_s"), below, sums)

    def _tool_node(self, tool: Row) -> Node:
        """The node of a tool call. If it started only one run, that run is merged into it."""
        started = [self._run_node(run) for run in self._started.get((tool["run_id"], tool["tool_call_id"]), [])]
        title = render.format_call(str(tool.get("name")), json.loads(tool.get("args") or "{}"))
        failed = tool.get("is_error") is not False
        outcome = tool.get("error_type") or "failed" if failed else "✓"
        kind, sums = "error" if failed else "tool", _summed([node.sums for node in started])
        if len(started) == 1:
            (run,) = started
            started, outcome = run.below, outcome if run.outcome == "ok" else f"{outcome} {run.outcome}"
        return Node(title, kind, outcome, tool.get("duration_s"), started, sums)

    def _lines(self) -> Iterator[tuple[str, Node]]:
        """Each node, with the branches of the tree that are drawn before it."""

        def walk(nodes: Sequence[Node], lead: str) -> Iterator[tuple[str, Node]]:
            for node in nodes:
                is_last = node is nodes[-1]
                yield f"{lead}{'└─ ' if is_last else '├─ '}", node
                yield from walk(node.below, f"{lead}{'   ' if is_last else '│  '}")

        for root in self.roots:
            yield "", root
            yield from walk(root.below, "")

    def __str__(self) -> str:
        lines = [(lead + _title(node), node.facts) for lead, node in self._lines()]
        width = max((len(left) for left, _ in lines), default=0)
        return "\n".join(f"{left:<{width}}  {facts}" for left, facts in lines) or NOTHING

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return render.output_html(f'<pre class="{render.NO_TEX}">{html.escape(str(self))}</pre>')

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw a dot for each run and tool call, and a line from its parent. Requires the `plot` extra.

        >>> trace.tree(result.run_id).plot().figure.savefig("tree.png")     # doctest: +SKIP
        """
        lines = [*self._lines()]
        ax = ax or subplots(1, figsize=(9.0, 0.8 + 0.3 * max(len(lines), 1)))[0]
        open_rows: list[int] = []  # for each depth, the row of the last node
        for row, (lead, node) in enumerate(lines):
            depth = len(lead) // 3
            if depth:
                above = open_rows[depth - 1]
                ax.plot([depth - 1, depth - 1, depth], [above, row, row], color="0.6", linewidth=1, zorder=0)
            open_rows[depth:] = [row]
            ax.plot([depth], [row], marker="o", markersize=7, color=COLOURS[node.kind])
            ax.text(depth + 0.25, row, _title(node), va="center", fontsize=9, parse_math=False)
            ax.text(1.0, row, node.facts, va="center", ha="right", fontsize=8.5, transform=ax.get_yaxis_transform())
        ax.set_xlim(-0.4, 12)
        ax.set_ylim(max(len(lines), 1) - 0.4, -0.6)
        ax.set_axis_off()
        if not lines:
            show_empty(ax)
        return ax


def _title(node: Node) -> str:
    return render.printable(shortened(" ".join(node.title.split()), TITLE_CHARS))


def _summed(sums: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the known values."""
    return {name: sum(known.get(name) or 0 for known in sums) for name in _SUMS}
