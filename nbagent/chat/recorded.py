"""Reads from the trace what messages lack: thinking, tool calls' outcomes, tokens, times and subagents' runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nbagent.core.messages import LLMMessage
from nbagent.trace.combined import rows_below
from nbagent.trace.requests import messages_of
from nbagent.trace.rows import Row
from nbagent.trace.schema import DESCRIBED, SHARED
from nbagent.trace.trace import Trace

Rows = Mapping[str, Sequence[Row]]
TABLES = ("messages", "runs", "calls", "tool_calls", "citations", "thinking", "events")
#: Columns that are not kept: the messages contain them, or panels don't show them.
_UNKEPT = {"messages": {"text", "data"}, "runs": {"prompt", "output"}, "calls": {"messages_in", "params", "tools_hash"}}


def rows_in(trace: Trace) -> Rows:
    """The trace's rows by table, including subagents' runs."""
    return rows_below(trace.recorder, None, TABLES)


def rows_to_keep(trace: Trace) -> Rows:
    """The trace's rows as JSON data that can be saved with the messages. Unknown values are left out, as are values
    that the messages contain.
    """
    rows = rows_in(trace)
    own = {row["run_id"] for row in rows["runs"] if not row.get("parent_run_id")}

    def kept(name: str, row: Row) -> Row:
        unkept = _UNKEPT.get(name, ()) if row["run_id"] in own else ()
        return {column: value for column, value in row.items() if value is not None and column not in unkept}

    return {name: [kept(name, row) for row in found] for name, found in rows.items() if found}


def kept_rows(several: Sequence[Rows]) -> Rows:
    """The inverse of `rows_to_keep`, for the data of several turns."""
    unknown = {name: dict.fromkeys([*DESCRIBED[name], *SHARED]) for name in TABLES}
    return {name: [unknown[name] | row for rows in several for row in rows.get(name, ())] for name in TABLES}


class Recorded:
    """Finds a message's rows in the trace. A row is empty if the trace did not record the message.

    `timings`: whether to show durations.
    """

    def __init__(self, recorded: Trace | Rows, *, timings: bool = True) -> None:
        rows = rows_in(recorded) if isinstance(recorded, Trace) else recorded
        self.timings = timings
        self._call_ids = {row["message_id"]: row["call_id"] for row in rows["messages"]}
        self._runs = {row["run_id"]: row for row in rows["runs"]}
        self._calls = {row["call_id"]: row for row in rows["calls"]}
        self._tools = {(row["call_id"], row["wire_id"]): row for row in rows["tool_calls"]}
        self._citations = _grouped(rows["citations"], "call_id")
        self._thinking = _grouped(rows["thinking"], "call_id")
        #: When a message entered the conversation.
        self._entered: dict[str | None, float] = {row["message_id"]: row["ts"] for row in rows["messages"]}
        self._notes = _grouped(filter(_is_note, rows["events"]), "run_id")
        #: Runs that tools started, by tool call, and their messages by run.
        self._children = _grouped(
            (run for run in rows["runs"] if run.get("parent_tool_call_id")), "parent_tool_call_id"
        )
        said = (row for row in rows["messages"] if row["role"] in ("assistant", "tool"))
        self._said = _grouped(said, "run_id")

    def run(self, turn: Sequence[LLMMessage]) -> Row:
        """The row of the turn's last run."""
        runs = [call["run_id"] for message in turn if (call := self.call(message))]
        return self._runs[runs[-1]] if runs else {}

    def call(self, message: LLMMessage) -> Row:
        """The row of the model request that this message answers."""
        return self._calls.get(self._call_ids.get(message.message_id), {})

    def thinking(self, message: LLMMessage) -> str:
        """The model's thinking before this message, if the provider shows it."""
        rows = self._thinking.get(self._call_ids.get(message.message_id, ""), ())
        return "\n\n".join(row["text"] for row in rows if row["text"])

    def citations(self, message: LLMMessage) -> list[Row]:
        """The message's citations."""
        return self._citations.get(self._call_ids.get(message.message_id, ""), [])

    def provider_tools(self, message: LLMMessage) -> list[Row]:
        """The tool calls that the provider itself ran for this answer."""
        call_id = self._call_ids.get(message.message_id)
        made = (row for (answer, _), row in self._tools.items() if answer == call_id and answer)
        return [row for row in made if str(row.get("source") or "").startswith("provider:")]

    def tool(self, message: LLMMessage, wire_id: str) -> Row:
        """The row of one of the message's tool calls."""
        return self._tools.get((self._call_ids.get(message.message_id), wire_id), {})

    def notes(self, run: Row) -> list[Row]:
        """A run's notes: for example, that the history was trimmed or summarised, or that another model was used."""
        return [*self._notes.get(run.get("run_id", ""), [])]

    def entered(self, message: LLMMessage) -> float:
        """The time at which the message entered the conversation, in seconds since the epoch; infinity if unknown."""
        return self._entered.get(message.message_id, math.inf)

    def children(self, tool: Row) -> Iterator[tuple[Row, list[LLMMessage]]]:
        """The runs that a tool call started, each with its messages. `tool` is the call's row."""
        for run in self._children.get(tool.get("tool_call_id", ""), []):
            said = self._said.get(run["run_id"], [])
            messages = [
                message.replace(message_id=row["message_id"])
                for message, row in zip(messages_of(said), said, strict=True)
            ]
            yield run, messages


def _grouped(rows: Iterable[Row], column: str) -> dict[str, list[Row]]:
    """The rows by their values in a column."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row)
    return groups


def _is_note(event: Row) -> bool:
    data = json.loads(event["data"] or "{}") if event["type"] in ("context", "retry") else {}
    return (event["type"] == "context" and not data.get("begins")) or "next" in data
