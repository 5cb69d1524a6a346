"""What a trace knows of turns that are over and the messages don't say: thinking, how calls went, tokens and times."""

from __future__ import annotations

from collections.abc import Sequence

from nbagent.core.messages import LLMMessage
from nbagent.trace.table import Row
from nbagent.trace.trace import Trace


class Recorded:
    """A trace's rows, found by messages; there are none for messages that it did not record.

    `timings`: whether to show how long things took.
    """

    def __init__(self, trace: Trace | None = None, *, timings: bool = True) -> None:
        def rows(table: str) -> list[Row]:
            return trace.rows(table) if trace is not None else []

        self.timings = timings
        self._messages = {row["message_id"]: row["call_id"] for row in rows("messages")}
        self._runs = {row["run_id"]: row for row in rows("runs")}
        self._calls = {row["call_id"]: row for row in rows("calls")}
        self._tools = {(row["call_id"], row["wire_id"]): row for row in rows("tool_calls")}
        self._thoughts: dict[str, list[str]] = {}
        for row in rows("thinking"):
            self._thoughts.setdefault(row["call_id"], []).append(row["text"])

    def run(self, turn: Sequence[LLMMessage]) -> Row:
        """The run that a turn is of."""
        runs = [self.call(message).get("run_id") for message in turn if self.call(message)]
        return self._runs[runs[-1]] if runs else {}

    def call(self, message: LLMMessage) -> Row:
        """The request that a message is the answer to."""
        return self._calls.get(self._messages.get(message.message_id), {})

    def thought(self, message: LLMMessage) -> str:
        """What the model thought before it said this, as far as that was shown."""
        return "\n\n".join(filter(None, self._thoughts.get(self._messages.get(message.message_id, ""), ())))

    def tool(self, message: LLMMessage, wire_id: str) -> Row:
        """How one of the calls went that a message made."""
        return self._tools.get((self._messages.get(message.message_id), wire_id), {})
