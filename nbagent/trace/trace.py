"""`Trace`: what happened in the runs of agents, as DataFrames. pandas is loaded when somebody looks at a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nbagent.checks import check_number, invalid
from nbagent.core import events as kinds
from nbagent.core.atomic_files import atomic_write
from nbagent.core.events import Event
from nbagent.core.http_exchange import collect_exchanges
from nbagent.core.messages import well_formed
from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.trace.export import http
from nbagent.trace.recorder import MAX_BYTES, TABLES, Recorder
from nbagent.trace.storage.journal import Journal
from nbagent.trace.table import Columns, Row, as_json, by_column, count_of
from nbagent.trace.views.summary import summary_lines

if TYPE_CHECKING:  # what needs pandas, matplotlib or OpenTelemetry
    import os

    import pandas as pd
    from matplotlib.axes import Axes
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from nbagent.trace.columns import TraceFrame
    from nbagent.trace.export.otel import Telemetry
    from nbagent.trace.views.transcript import TraceTranscript


class Trace:
    """What happened in the runs of one or more agents, as tables.

    The tables are `runs`, `calls`, `messages`, `blocks`, `tool_calls`, `thinking`, `usage`, `events` and `http`. All
    have `run_id`, `session_id` and `ts`. Join them by `run_id`, `call_id`, `tool_call_id` and `message_id`; these are
    unique in `runs`, `calls`, `tool_calls` and `messages`. `parent_run_id` is the `run_id` of the run whose tool
    started this one, `parent_id` the `message_id` of the message before. A table has all its columns even when it is
    empty. Several agents, in several threads, may share one trace.

    With `record_http=True` the trace also keeps each HTTP request and response, secrets removed, for `http`, `curl()`
    and `save_har()`. Switch it at any time (`trace.record_http = True`); it applies to runs that begin later.

    The trace keeps the values that tools returned for `results()`, unless `keep_results=False`.

    Rows take about `max_bytes` of memory. Beyond that, older rows move to a temporary file at the end of a turn, and
    the values that their tools returned are dropped; tables stay complete. The file has no name and disappears with the
    process; it lies in the folder of `tempfile` (set `TMPDIR` for another). None keeps everything in memory.

    >>> trace = Trace()
    >>> list(trace.tool_calls.columns)[:3]
    ['tool_call_id', 'wire_id', 'call_id']
    """

    #: Makes the widget of `explore()`. The notebook's part of nbagent sets it; nothing here depends on that part.
    explorer: ClassVar[Callable[[Trace], Any] | None] = None

    def __init__(self, record_http: bool = False, keep_results: bool = True, max_bytes: int | None = MAX_BYTES) -> None:
        self.record_http = record_http
        self.recorder = Recorder(keep_results)
        self.max_bytes = max_bytes
        #: Takes one event of a run; agents call it for every event.
        self.record: Callable[[Event], None] = self.recorder.record
        #: Called with this trace and each event, once it is recorded, of runs that begin from now on. They must not
        #: raise.
        self.observers: list[Callable[[Trace, Event], None]] = []

    @property
    def session_id(self) -> str:
        """The id that all rows recorded by this trace share."""
        return self.recorder.session_id

    @property
    def keep_results(self) -> bool:
        """Whether the values that tools return are kept for `results()`."""
        return self.recorder.keep_results

    @keep_results.setter
    def keep_results(self, keep: bool) -> None:
        self.recorder.keep_results = keep

    @property
    def max_bytes(self) -> int | None:
        """About how much memory the rows may take; None for no limit."""
        return self.recorder.max_bytes

    @max_bytes.setter
    def max_bytes(self, limit: int | None) -> None:
        check_number("max_bytes", limit, whole=True, minimum=0, optional=True, fix="None keeps all rows in memory.")
        self.recorder.max_bytes = limit

    # -- tables -------------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> TraceFrame:
        """One row per question.

        `branch` is the `run_id` of the run that began this line of the conversation. A run continues the branch of the
        run before it. The first run of an agent begins a branch, and so does the first one after `fork`, `undo`, an
        edit, `clear_history`, and a history that was replaced. `parent_id` of its first message says where it left
        another branch.
        """
        return self._frame("runs")

    @property
    def calls(self) -> TraceFrame:
        """One row per model request.

        `span_id` and `parent_span_id` are the OpenTelemetry ids, in hex, of the spans `chat` and `invoke_agent`. They
        are NA where no span was sampled: see `to_otel`.
        """
        return self._frame("calls")

    @property
    def messages(self) -> TraceFrame:
        """One row per message that entered the conversation.

        `parent_id` is the `message_id` of the message before it. After a fork that one is in the trace of the origin;
        it is NA where no trace recorded it, as in a conversation that was loaded. `branch` is that of the run.
        `trimmed` says whether the limits of the `ContextManager` have since removed the message from the history, so
        that later requests leave it out.
        """
        return self._frame("messages")

    @property
    def blocks(self) -> TraceFrame:
        """One row per block of a message: text, thinking, redacted, tool_call, tool_result, image, refusal.

        `signature` says whether the vendor signed it; `provider_data` is what else came with it, as JSON. The text of a
        `tool_call` is its arguments. Images have the hash of their bytes or, in `provider_data`, their address.
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
        """One row per event, except pieces of text, thinking and arguments."""
        return self._frame("events")

    @property
    def http(self) -> TraceFrame:
        """One row per HTTP exchange while `record_http` is on, failed ones too. `attempt` counts them in each call.

        Bodies are the text that was sent and received, up to 10 MB of each (`truncated`). A secret is replaced by
        the name of a variable, such as `$OPENAI_API_KEY`. Times are in seconds.
        """
        return self._frame("http")

    def run(self, run_id: str) -> dict[str, TraceFrame]:
        """All tables of one run, by name. Raises ConfigurationError if the trace has no such run.

        >>> trace.run(result.run_id)["tool_calls"]                          # doctest: +SKIP
        """
        from nbagent.trace import columns

        with self.recorder.lock:
            whole = {name: self._frame(name) for name in (*TABLES, "usage")}
        if run_id not in whole["runs"]["run_id"].tolist():
            raise _unknown_run(run_id)
        return {
            name: columns.named(frame[frame["run_id"] == run_id].reset_index(drop=True), name)
            for name, frame in whole.items()
        }

    def rows(self, table: str) -> list[Row]:
        """Copies of a table's rows as dicts, oldest first. Not for `usage`."""
        with self.recorder.lock:
            return [dict(row) for row in self.recorder.tables[table].since(0)]

    def _rows_of(self, run_id: str | None) -> dict[str, list[Row]]:
        """Copies of the rows of one run, or of all runs, by table."""
        with self.recorder.lock:
            rows = {name: self.rows(name) for name in TABLES}
        if run_id is None:
            return rows
        if not any(row["run_id"] == run_id for row in rows["runs"]):
            raise _unknown_run(run_id)
        return {name: [row for row in table if row["run_id"] == run_id] for name, table in rows.items()}

    def _frame(self, name: str) -> TraceFrame:
        from nbagent.trace import columns

        if name == "usage":
            return columns.usage_frame(self._frame("calls"))
        with self.recorder.lock:
            frame = columns.table_frame(name, self.recorder.tables[name])
            if name == "messages" and self.recorder.trimmed:
                frame["trimmed"] |= frame["message_id"].isin(self.recorder.trimmed)
            return frame

    # -- views --------------------------------------------------------------------------------------------------------

    def args(self, tool: str) -> pd.DataFrame:
        """The arguments of each call of one tool, a column for each argument; the index is that of `tool_calls`.

        >>> trace.tool_calls.join(trace.args("mean_by").add_prefix("arg_"))     # doctest: +SKIP
        """
        from nbagent.trace.views.tool_arguments import tool_arguments

        return tool_arguments(self.rows("tool_calls"), tool)

    def results(self, tool: str) -> Any:
        """The values that one tool returned: a Series with the index of `tool_calls`, without failed calls.

        If all of them are DataFrames, the result is one DataFrame, and the first level of its index, `call`, is the
        index in `tool_calls`. Values are kept in memory only: after `load` there is `tool_calls["result_text"]`.

        >>> trace.results("load_sales").droplevel("call")                   # doctest: +SKIP
        """
        from nbagent.trace.views.tool_arguments import tool_results

        with self.recorder.lock:
            return tool_results(self.rows("tool_calls"), tool, self.recorder.results)

    def diff(self, run_a: str, run_b: str) -> pd.DataFrame:
        """The differences between two runs: messages, tool calls, models, tokens, cost, seconds, status.

        One row for each value that differs: its `table` and `column`, the `place` of its row in the run (from 0), the
        `name` of the tool or role, the values `a` and `b` (None if a run has no such row), and for numbers the
        `change`. A call or message that only one run has does not shift the others. Ids and times are not compared. To
        compare runs of two traces, use `Trace.concat` of both. Raises ConfigurationError for an unknown run.

        >>> trace.diff(*trace.runs["run_id"].tail(2))                       # doctest: +SKIP
        """
        from nbagent.trace.views.diff import diff, with_system_message

        if run_a is None or run_b is None:  # `_rows_of` takes None for all runs
            raise _unknown_run(None)
        runs = self._rows_of(run_a), self._rows_of(run_b)
        system = [row for row in self.rows("messages") if row["role"] == "system"]
        for rows in runs:
            rows["messages"] = with_system_message(rows["messages"], system)
        return diff(*runs)

    def timeline(self, run_id: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw when each model call and tool ran and how long it took; tools that ran in parallel overlap.

        For one run, or for all, without the pauses between them. Needs matplotlib: `pip install 'nbagent[plot]'`.

        >>> agent.trace.timeline(result.run_id).figure.savefig("run.png")   # doctest: +SKIP
        """
        from nbagent.trace.views import timeline

        tables = {"calls": self.calls, "tool_calls": self.tool_calls} if run_id is None else self.run(run_id)
        return timeline.draw(tables["calls"], tables["tool_calls"], ax)

    def plot_usage(self, ax: Axes | None = None) -> Axes:
        """Draw the input and output tokens of each run, and above them the dollars, where known and not 0."""
        from nbagent.trace.views import plots

        return plots.plot_usage(self.usage, ax)

    def plot_tools(self, axes: Sequence[Axes] | None = None) -> list[Axes]:
        """Draw how often each tool was called and how often it failed, and beside that how long its calls took.

        Two axes side by side; pass two `axes` to draw on your own. Calls that never ran, because their arguments were
        invalid or they were denied, count as failed and took no time.
        """
        from nbagent.trace.views.plots import plot_tools
        from nbagent.trace.views.tool_stats import seconds_by_tool, tool_stats

        calls = self.tool_calls
        stats = tool_stats(calls).sort_values("calls", ascending=False, kind="stable")
        return plot_tools(stats, seconds_by_tool(calls), axes)

    def transcript(self, run_id: str | None = None) -> TraceTranscript:
        """The conversation of one run, or of all, message by message, with thinking, tool calls and costs.

        A notebook displays it as cleaned HTML; `print` gives plain text.

        >>> agent.trace.transcript(result.run_id)                           # doctest: +SKIP
        """
        from nbagent.trace.views.transcript import TraceTranscript

        return TraceTranscript(self._rows_of(run_id))

    def to_text(self, view: str = "summary", run_id: str | None = None) -> str:
        """A view of one run, or of all, as plain text: summary, timeline, usage, tools or transcript.

        Needs no matplotlib. Raises ConfigurationError for another view or an unknown run.

        >>> print(agent.trace.to_text("timeline"))                          # doctest: +SKIP
        claude-sonnet-5  ····████████████                                             1.1 s
          mean_by()                      ████                                         304 ms
        """
        from nbagent.trace.views.text import text_view

        return text_view(view, self._rows_of(run_id))

    def explore(self) -> Any:
        """A widget for notebooks that browses runs, calls, tool calls, messages and blocks, with filters.

        The same as `nbagent.TraceExplorer(trace)`. Raises ConfigurationError unless a notebook has loaded nbagent.
        """
        if Trace.explorer is None:
            raise ConfigurationError("explore() needs a notebook. Run %load_ext nbagent first.")
        return Trace.explorer(self)

    def __repr__(self) -> str:
        names = ("runs", "calls", "tool_calls", "events")
        counts = ", ".join(f"{len(self.recorder.tables[name])} {name}" for name in names)
        return f"<Trace: {counts.replace('_', ' ')}>"

    def _repr_html_(self) -> str:
        """What a notebook displays: models, tools, tokens and cost, summed up."""
        from nbagent.core.render.key_values import key_values_html

        return key_values_html(summary_lines({name: self.rows(name) for name in ("runs", "calls", "tool_calls")}))

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tables to a file that `Trace.load`, or any other tool, reads. The suffix names the format:

        - `.sqlite`: one SQLite database
        - `.parquet`: a folder with one Parquet file for each table; needs `pip install 'nbagent[parquet]'`
        - `.jsonl`: one JSON object a line, `{"table": "runs", "n": 0, "row": {...}}`

        The file is written completely or not at all. It holds neither the values that tools returned nor `usage`, which
        is computed from `calls`. A run in progress is saved as far as it got.
        """
        from nbagent.trace.storage import files

        files.save({name: self._frame(name) for name in TABLES}, Path(path).expanduser())

    def stream_to(self, path: str | os.PathLike[str] | None) -> None:
        """Append to a `.jsonl` file from now on: first the rows so far, then new ones after each turn.

        The file can be read while it grows; it is an empty trace from the start. After a crash it holds the run up to
        its last turn. Raises ConfigurationError for a file with other content, and leaves that alone. None ends it.

        >>> agent.trace.stream_to("monday.jsonl")                           # doctest: +SKIP
        """
        self.recorder.append_to(None)
        if path is not None:
            path = Path(path).expanduser()
            if path.suffix != ".jsonl":
                raise invalid("path", path.name, "a name that ends with .jsonl", "Other formats can't be appended to.")
            self.recorder.append_to(Journal(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """The trace in a saved file, equal to what was saved; agents can continue recording into it.

        >>> Trace.load("monday.sqlite").runs                                # doctest: +SKIP
        """
        from nbagent.trace.storage import files

        return cls._from_tables(files.load(Path(path).expanduser()))

    @classmethod
    def concat(cls, traces: Iterable[Trace]) -> Trace:
        """One trace made of several, in their order. A run in more than one of them is taken from the last.

        >>> Trace.concat([Trace.load(path) for path in sorted(folder.glob("*.sqlite"))]).usage      # doctest: +SKIP
        """
        every = list(traces)
        last = {row["run_id"]: number for number, trace in enumerate(every) for row in trace.rows("runs")}

        def rows(name: str) -> list[Row]:
            numbered = ((number, row) for number, trace in enumerate(every) for row in trace.rows(name))
            return [row for number, row in numbered if last.get(row["run_id"], number) == number]

        made = cls._from_tables({name: by_column(rows(name)) for name in TABLES})
        for trace in every:
            made.recorder.results.update(trace.recorder.results)
        return made

    @classmethod
    def _from_tables(cls, tables: dict[str, Columns]) -> Trace:
        trace = cls()
        for name, column in (("events", "event_id"), ("messages", "index")):
            tables[name][column] = list(range(count_of(tables[name])))
        for name, columns in tables.items():
            trace.recorder.tables[name].take(columns)
        events = tables["events"]
        for kind, data in zip(events.get("type", ()), events.get("data", ()), strict=True):
            if kind == "context":
                trace.recorder.trimmed.update(json.loads(data).get("trimmed", ()))
        return trace

    # -- other tools --------------------------------------------------------------------------------------------------

    def to_otel(
        self,
        endpoint: str | None = None,
        *,
        capture_content: bool | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> Telemetry:
        """Send runs that begin from now on to OpenTelemetry too: spans `invoke_agent`, `chat` and `execute_tool`, and
        metrics of tokens and seconds, named by the conventions for generative AI. Forks of the agent do the same.

        `endpoint` is the address of a collector that takes OTLP over HTTP: needs `pip install 'nbagent[otel]'`. Without
        it, spans go to the given providers, else to those that the process has set up, else to the collector in
        OTEL_EXPORTER_OTLP_ENDPOINT. The texts of messages are left out unless `capture_content`, or the environment
        variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, is true. Call `stop()` on the result to end it.

        >>> agent.trace.to_otel("http://localhost:4318")                    # doctest: +SKIP
        """
        try:
            from nbagent.trace.export.otel import start_telemetry
        except ImportError:
            raise MissingDependencyError("OpenTelemetry is not installed: pip install 'nbagent[otel]'") from None
        return start_telemetry(self.observers, endpoint, capture_content, tracer_provider, meter_provider)

    @contextmanager
    def recording_http(self) -> Iterator[Trace]:
        """Record the HTTP exchanges of everything in this block, outside of runs too.

        >>> with trace.recording_http():                                    # doctest: +SKIP
        ...     await agent.provider.model_list()
        """
        with collect_exchanges(
            lambda each: self.record(kinds.Http(metadata={"run_id": None, **each.summary()}, exchange=each))
        ):
            yield self

    def curl(self, index: int = -1) -> str:
        """An HTTP exchange, by default the last one, as a shell command that takes keys from the environment.

        Raises ConfigurationError if none is recorded, or if its body was too long to be kept whole.

        >>> print(agent.trace.curl())                                       # doctest: +SKIP
        curl -sSN -X POST https://api.openai.com/v1/chat/completions \\
          -H "authorization: Bearer $OPENAI_API_KEY" ...
        """
        rows = self.rows("http")
        if not rows:
            raise ConfigurationError("no HTTP exchange is recorded. Set record_http=True before the run.")
        return http.curl(rows[index])

    def save_har(self, path: str | Path) -> None:
        """Write the HTTP exchanges as a HAR file, which the network panel of a browser's developer tools opens.

        Raises ConfigurationError if it can't be written; a file that was there before then stays.
        """
        text = well_formed(as_json(http.har(self.rows("http"))))
        try:
            with atomic_write(Path(path).expanduser()) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{str(path)!r} can't be written: {error.strerror or error}") from None


def _unknown_run(run_id: object) -> ConfigurationError:
    return invalid("run_id", run_id, "a run of this trace", "trace.runs['run_id'] lists them.")
