"""What the trace knows about past turns and the messages don't say: thinking, outcomes of calls, tokens and times."""

from __future__ import annotations

from collections.abc import Sequence

from nbagent.core.messages import LLMMessage
from nbagent.trace.table import Row
from nbagent.trace.trace import Trace


class Recorded:
    """Finds the trace's rows for messages; a row is empty if the trace did not record the message.

    `timings`: whether to show how long things took.
    """

    def __init__(self, trace: Trace | None = None, *, timings: bool = True) -> None:
        def rows(table: str) -> list[Row]:
            return trace.rows(table) if trace is not None else []

        self.timings = timings
        self._call_ids = {row["message_id"]: row["call_id"] for row in rows("messages")}
        self._runs = {row["run_id"]: row for row in rows("runs")}
        self._calls = {row["call_id"]: row for row in rows("calls")}
        self._tools = {(row["call_id"], row["wire_id"]): row for row in rows("tool_calls")}
        self._citations: dict[str, list[Row]] = {}
        for row in rows("citations"):
            self._citations.setdefault(row["call_id"], []).append(row)
        self._thinking: dict[str, list[str]] = {}
        for row in rows("thinking"):
            self._thinking.setdefault(row["call_id"], []).append(row["text"])

    def run(self, turn: Sequence[LLMMessage]) -> Row:
        """The run that the turn belongs to."""
        runs = [call["run_id"] for message in turn if (call := self.call(message))]
        return self._runs[runs[-1]] if runs else {}

    def call(self, message: LLMMessage) -> Row:
        """The request that the message answers."""
        return self._calls.get(self._call_ids.get(message.message_id), {})

    def thinking(self, message: LLMMessage) -> str:
        """What the model thought before this message, as far as the vendor shows it."""
        return "\n\n".join(filter(None, self._thinking.get(self._call_ids.get(message.message_id, ""), ())))

    def citations(self, message: LLMMessage) -> list[Row]:
        """What the message cites."""
        return self._citations.get(self._call_ids.get(message.message_id, ""), [])

    def vendor_tools(self, message: LLMMessage) -> list[Row]:
        """The calls of tools that the vendor ran for this answer."""
        call_id = self._call_ids.get(message.message_id)
        made = (row for (answer, _), row in self._tools.items() if answer == call_id and answer)
        return [row for row in made if str(row.get("source") or "").startswith("vendor:")]

    def tool(self, message: LLMMessage, wire_id: str) -> Row:
        """One of the tool calls in the message."""
        return self._tools.get((self._call_ids.get(message.message_id), wire_id), {})
