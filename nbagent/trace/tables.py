"""The tables of a trace, as `Trace` shows them: all of them, of one run, or as rows."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING

from nbagent.checks import invalid
from nbagent.core.model_request import ModelRequest
from nbagent.errors import ConfigurationError
from nbagent.trace import environment
from nbagent.trace.recorder import TABLES, Recorder
from nbagent.trace.requests import Requests, system_rows
from nbagent.trace.scores import scores_that_count
from nbagent.trace.table import Row

if TYPE_CHECKING:  # what needs pandas
    from nbagent.trace.columns import TraceFrame


class TraceTables:
    """What a recorder holds, as DataFrames. pandas is loaded when somebody looks at a table."""

    recorder: Recorder

    @property
    def session_id(self) -> str:
        """The id that all rows recorded by this trace share."""
        return self.recorder.session_id

    @property
    def runs(self) -> TraceFrame:
        """One row per question.

        A run continues the `branch` of the run before it. The first run of an agent begins one, and so does the first
        after `fork`, `undo`, an edit, `clear_history`, or a turn or history that was replaced. `context.switch` goes
        back to a branch; `parent_id` of its first message says where it left another one.
        """
        return self._frame("runs")

    @property
    def calls(self) -> TraceFrame:
        """One row per model request; `request` tells what it sent."""
        return self._frame("calls")

    @property
    def messages(self) -> TraceFrame:
        """One row per message that entered the conversation, each after the one of its `parent_id`.

        Messages that were added by hand, edited, loaded or made of a summary, and those of the origin of a fork, enter
        with the first request that sends them. So do, once more, those that follow an edited message or a turn that was
        asked again: in the new branch they lead to the new text.
        """
        return self._frame("messages")

    @property
    def blocks(self) -> TraceFrame:
        """One row per block of a message. The text of a `tool_call` is its arguments."""
        return self._frame("blocks")

    @property
    def tool_calls(self) -> TraceFrame:
        """One row per tool call: arguments, result, validity, duration.

        Arguments are dicts here, and JSON text in files: a column of Polars or Arrow can't hold every dict.
        """
        return self._frame("tool_calls")

    @property
    def cells(self) -> TraceFrame:
        """One row per change of a notebook's cell by a tool, and per run of one: its source before and after.

        `cell` is the id of the cell that was changed; `cell_id`, as everywhere, that of the cell that asked.
        """
        return self._frame("cells")

    @property
    def citations(self) -> TraceFrame:
        """One row per source that an answer cites, with the part of its text that cites it.

        Tools that the vendor runs find them, such as `nbagent.web_search`.
        """
        return self._frame("citations")

    @property
    def thinking(self) -> TraceFrame:
        """One row per stretch of thinking."""
        return self._frame("thinking")

    @property
    def usage(self) -> TraceFrame:
        """Tokens and cost, summed by run, model and day. Replayed answers have rows of their own: they are not paid."""
        return self._frame("usage")

    @property
    def events(self) -> TraceFrame:
        """One row per event, except pieces of text, thinking and arguments."""
        return self._frame("events")

    @property
    def http(self) -> TraceFrame:
        """One row per HTTP exchange while `record_http` is on, failed ones too. `attempt` counts them in each call.

        Names of variables, such as `$OPENAI_API_KEY`, stand for secrets.
        """
        return self._frame("http")

    @property
    def prompts(self) -> TraceFrame:
        """One row for each text that requests share: system prompts with instructions, sets of tools as JSON."""
        return self._frame("prompts").once("hash")

    def request(self, call_id: str) -> ModelRequest:
        """What a call sent, told from the tables: its messages, the tools on offer, and the options in effect.

        >>> trace.request(trace.calls["call_id"].iloc[-1]).messages         # doctest: +SKIP
        """
        with self.recorder.lock:
            return Requests({name: self.rows(name) for name in ("calls", "messages", "prompts")}).of(call_id)

    @property
    def scores(self) -> TraceFrame:
        """One row for each judgement: what `score` was given, and the thumbs below an answer (`name` is `good`).

        A score of a run has its `run_id` only; one of a call or tool call has the ids of that and of its run.
        """
        from nbagent.trace.columns import build

        return build("scores", scores_that_count(self.rows("scores")))

    @property
    def environment(self) -> TraceFrame:
        """One row for each session: git commit, versions of Python and of imported packages, kernel, host, platform.

        It is collected when you first look at it, save the trace or stream it to a file, so that no run waits for it;
        it names no folder, machine or person.
        """
        from nbagent.trace.columns import named

        self._note_environment()
        frame = self._frame("environment").drop_duplicates("session_id", keep="last")
        return named(frame.reset_index(drop=True), "environment")

    def _note_environment(self) -> None:
        """Note what this session runs on, if it has recorded something."""
        with self.recorder.lock:
            runs = self.recorder.tables["runs"]
            newest = runs.rows or list(runs.since(max(0, len(runs) - 1)))
        if newest and newest[-1]["session_id"] == self.session_id:
            self.recorder.add_environment(environment.environment)

    def run(self, run_id: str) -> dict[str, TraceFrame]:
        """All tables of one run, by name, with the system prompt that was in force and the `prompts` that it sent.

        Raises ConfigurationError if the trace has no such run.

        >>> trace.run(result.run_id)["tool_calls"]                          # doctest: +SKIP
        """
        from nbagent.trace import columns

        self._note_environment()
        rows = self._rows_of(run_id)
        rows["scores"] = scores_that_count(rows["scores"])
        found = {name: columns.with_objects(columns.build(name, rows[name])) for name in TABLES}
        return found | {"usage": columns.usage_frame(found["calls"])}

    def rows(self, table: str) -> list[Row]:
        """Copies of a table's rows as dicts, oldest first. Not for `usage`."""
        return self.recorder.rows(table)

    def _selected(self, run_id: str | None) -> dict[str, list[Row]]:
        """Copies of the rows of one run, or of all, by table."""
        if run_id is not None:
            return self._rows_of(run_id)
        with self.recorder.lock:
            return {name: self.rows(name) for name in TABLES}

    def _rows_of(self, run_id: str) -> dict[str, list[Row]]:
        """Copies of the rows of one run, by table: see `run`."""
        with self.recorder.lock:
            tables = self.recorder.tables
            if not isinstance(run_id, str) or not any(tables["runs"].of(run_id)):
                raise unknown_run(run_id)
            rows = {name: list(table.of(run_id)) for name, table in tables.items() if table.key == "run_id"}
            hashes = dict.fromkeys(call.get(name) for name in ("system_hash", "tools_hash") for call in rows["calls"])
            rows["prompts"] = [row for each in filter(None, hashes) for row in islice(tables["prompts"].of(each), 1)]
            sessions = {run["session_id"]: None for run in rows["runs"]}
            rows["environment"] = [row for each in sessions for row in [*tables["environment"].of(each)][-1:]]
            for row in rows["messages"]:
                row["trimmed"] = row["trimmed"] or row["message_id"] in self.recorder.trimmed
        return rows | {name: [*system, *rows[name]] for name, system in system_rows(rows).items()}

    def _frame(self, name: str, wanted: Collection[str] | None = None) -> TraceFrame:
        """A table as users see it; if it is large, only its `wanted` columns."""
        from nbagent.trace import columns

        if name == "usage":
            return columns.usage_frame(self._frame("calls"))
        return columns.with_objects(self._stored(name, wanted))

    def _stored(self, name: str, wanted: Collection[str] | None = None) -> TraceFrame:
        """A table as it is written to files."""
        from nbagent.trace import columns

        with self.recorder.lock:
            frame = columns.table_frame(name, self.recorder.tables[name], wanted)
            if name == "messages" and self.recorder.trimmed:
                frame["trimmed"] |= frame["message_id"].isin(self.recorder.trimmed)
            return frame


def unknown_run(run_id: object) -> ConfigurationError:
    """The error for the id of a run that the trace does not have."""
    return invalid("run_id", run_id, "a run of this trace", "trace.runs['run_id'] lists them.")
