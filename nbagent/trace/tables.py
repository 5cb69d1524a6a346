"""The rows of a recorder as DataFrames, a property for each table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbagent.errors import ConfigurationError
from nbagent.trace.recorder import MAX_BYTES, TABLES, Recorder
from nbagent.trace.rows import Row

if TYPE_CHECKING:
    from nbagent.trace.columns import TraceFrame


class TraceTables(Recorder):
    """A recorder whose tables are read as DataFrames."""

    def __init__(self, keep_results: bool = True, max_bytes: int | None = MAX_BYTES) -> None:
        super().__init__(keep_results, max_bytes)
        #: The tables as far as they change no more.
        self._frames: dict[str, TraceFrame] = {}

    @property
    def runs(self) -> TraceFrame:
        """One row per question asked.

        `branch` is the `run_id` of the run that began this line of the conversation. A run goes on with the branch of
        the one before it; the first one of an agent begins one, and so does the first one after `fork`, `undo`, an
        edit, `clear_history`, and a history that was replaced. `parent_id` of its first message says where it left
        another branch.
        """
        return self._frame("runs")

    @property
    def calls(self) -> TraceFrame:
        """One row per model request.

        `span_id` and `parent_span_id` are those of OpenTelemetry, in hex, as a tracing backend has them: of the spans
        `chat` and `invoke_agent`. They are NA where no span was sampled: see `to_otel`.
        """
        return self._frame("calls")

    @property
    def messages(self) -> TraceFrame:
        """One row per message that entered the conversation.

        `parent_id` is the `message_id` of the message before it: after a fork in the trace of the origin, NA where no
        trace recorded that one, as in a conversation that was loaded. `branch` is that of its run. `trimmed` says
        whether limits of the `ContextManager` have since taken it out of the history, so that later requests are
        without it.
        """
        return self._frame("messages")

    @property
    def blocks(self) -> TraceFrame:
        """One row per block of a message: text, thinking, redacted, tool_call, tool_result, image, refusal.

        `signature` says whether a vendor signed it; `provider_data` is what else came with it, as JSON. A `tool_call`'s
        text are its arguments. Images have their hash (of the bytes) or, in `provider_data`, their address.
        """
        return self._frame("blocks")

    @property
    def tool_calls(self) -> TraceFrame:
        """One row per tool call: arguments, result, validity, duration."""
        return self._frame("tool_calls")

    @property
    def thinking(self) -> TraceFrame:
        """One row per stretch of thinking."""
        return self._frame("thinking")

    @property
    def usage(self) -> TraceFrame:
        """Tokens and cost, summed by run and model."""
        return self._frame("usage")

    @property
    def events(self) -> TraceFrame:
        """One row per event that is not a piece of text."""
        return self._frame("events")

    @property
    def http(self) -> TraceFrame:
        """One row per HTTP exchange, failed ones too, where `record_http` is on. `attempt` counts them in each call.

        Bodies are the text that was sent and received, of each at most its first 10 MB (`truncated`); where a secret
        was stands a variable's name, such as `$OPENAI_API_KEY`. Times are in seconds.
        """
        return self._frame("http")

    def run(self, run_id: str) -> dict[str, TraceFrame]:
        """All tables of one run, by name. Raises ConfigurationError where there is no such run.

        >>> trace.run(result.run_id)["tool_calls"]                          # doctest: +SKIP
        """
        from nbagent.trace import columns as frames

        with self._lock:
            whole = {name: self._frame(name) for name in (*TABLES, "usage")}
        if run_id not in whole["runs"]["run_id"].tolist():
            raise no_run(run_id)
        return {
            name: frames.named(frame[frame["run_id"] == run_id].reset_index(drop=True), name)
            for name, frame in whole.items()
        }

    def _rows_of(self, run_id: str | None) -> dict[str, list[Row]]:
        """Copies of all rows of one run, or of all runs, by table."""
        with self._lock:
            rows = {
                name: [dict(row) for row in table.since(0) if run_id in (None, row["run_id"])]
                for name, table in self._tables.items()
            }
        if run_id is not None and not rows["runs"]:
            raise no_run(run_id)
        return rows

    def _frame(self, name: str) -> TraceFrame:
        """A table as a DataFrame. Of rows that change no more it is made once, and grows with them."""
        from nbagent.trace import columns as frames

        if name == "usage":
            return frames.usage(self._frame("calls"))
        with self._lock:
            table = self._tables[name]
            made = self._frames.get(name)
            if made is None:
                made = frames.build(name, [])
            if len(made) < table.settled:
                parts = [frames.from_columns(name, columns) for columns in table.parts(len(made))]
                made = self._frames[name] = frames.joined([made, *parts])
            whole = frames.joined([made, frames.build(name, table.rows)])
            if name == "messages" and self._trimmed:
                whole["trimmed"] |= whole["message_id"].isin(self._trimmed)
            return whole

    def _spill(self) -> None:
        """What was looked at is let go too."""
        super()._spill()
        self._frames.clear()


def no_run(run_id: object) -> ConfigurationError:
    """The error where a trace has no such run."""
    return ConfigurationError(f"this trace has no run {run_id!r}: see trace.runs['run_id']")
