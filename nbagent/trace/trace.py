"""`Trace`: what happened, as DataFrames. pandas is loaded when you look."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nbagent.core import events as kinds
from nbagent.core.atomic_files import atomic_write
from nbagent.core.events import Event
from nbagent.core.http_exchange import collecting
from nbagent.core.messages import well_formed
from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.trace.export import http as http_log
from nbagent.trace.recorder import MAX_BYTES, TABLES, Recorder
from nbagent.trace.rows import Columns, as_json
from nbagent.trace.storage.journal import Journal
from nbagent.trace.table import by_column, count_of
from nbagent.trace.tables import TraceTables, no_run
from nbagent.trace.views.summary import overview

if TYPE_CHECKING:
    import os

    import pandas as pd
    from matplotlib.axes import Axes
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from nbagent.trace.export.otel import Telemetry
    from nbagent.trace.views.transcript import TraceTranscript


class Trace(TraceTables):
    """What happened, as tables.

    They are `runs`, `calls`, `messages`, `blocks`, `tool_calls`, `thinking`, `usage`, `events` and `http`. All
    have `run_id`, `session_id` and `ts`. Join them by `run_id`, `call_id`, `tool_call_id` and `message_id`, of which
    `runs`, `calls`, `tool_calls` and `messages` have each once; `parent_run_id` and `parent_id` are `run_id` of the run
    that asked and `message_id` of the message before. Tables exist with all their columns before anything happened.
    Several agents may share one trace, in several threads too.

    With `record_http=True` each HTTP request and response is kept too, secrets removed: in `http`, `curl()` and
    `save_har()`. Switch it on or off at any time (`trace.record_http = True`); it holds for the runs that begin then.

    What tools returned is kept for `results()`, unless `keep_results=False`.

    The rows take about `max_bytes` of memory. When they are more, the older ones move to a temporary file at the end of
    a turn, and what their tools returned is let go; tables are whole nevertheless. The file has no name and goes with
    the process; it lies where `tempfile` puts files (`TMPDIR` says where). None keeps everything in memory.

    >>> trace = Trace()
    >>> list(trace.tool_calls.columns)[:3]
    ['tool_call_id', 'wire_id', 'call_id']
    """

    #: Makes the widget of `explore()`. The notebook's side of nbagent, on which nothing here depends, puts it here.
    explorer: ClassVar[Callable[[Trace], Any] | None] = None

    def __init__(self, record_http: bool = False, keep_results: bool = True, max_bytes: int | None = MAX_BYTES) -> None:
        super().__init__(keep_results, max_bytes)
        self.record_http = record_http
        #: Called with this trace and each event of the runs that begin from now on, once it is recorded. They must
        #: not raise.
        self.observers: list[Callable[[Recorder, Event], None]] = []

    def args(self, tool: str) -> pd.DataFrame:
        """The arguments of each call of one tool, a column for each argument; the index is that of `tool_calls`.

        >>> trace.tool_calls.join(trace.args("mean_by").add_prefix("arg_"))     # doctest: +SKIP
        """
        from nbagent.trace.views import tool_arguments as spread

        return spread.args(self.rows("tool_calls"), tool)

    def results(self, tool: str) -> Any:
        """What one tool returned, as it was: a Series with the index of `tool_calls`, failed calls left out.

        If all its results are DataFrames they are one DataFrame, whose index has that number as its first level
        `call`. The values themselves are kept in memory alone: after `load` there is `tool_calls["result_text"]`.

        >>> trace.results("load_sales").droplevel("call")                   # doctest: +SKIP
        """
        from nbagent.trace.views import tool_arguments as spread

        with self._lock:
            return spread.results(self.rows("tool_calls"), tool, self._values)

    def diff(self, run_a: str, run_b: str) -> pd.DataFrame:
        """What differed between two runs: messages, tool calls, models, tokens, cost, seconds, status.

        One row for each value that differs: its `table` and `column`, the `place` of its row in the run (from 0) and
        the `name` of the tool or role, the values `a` and `b` (None where one run has no such row), and of numbers the
        `change`. A call or message that only one run has stands for itself and shifts no others. Ids and moments are
        left out. Runs of two traces are compared in `Trace.concat` of them. Raises ConfigurationError where there is
        no such run.

        >>> trace.diff(*trace.runs["run_id"].tail(2))                       # doctest: +SKIP
        """
        from nbagent.trace.views.diff import diff, with_system

        if run_a is None or run_b is None:  # which elsewhere means all runs
            raise no_run(None)
        runs = self._rows_of(run_a), self._rows_of(run_b)
        told = [row for row in self.rows("messages") if row["role"] == "system"]
        for rows in runs:
            rows["messages"] = with_system(rows["messages"], told)
        return diff(*runs)

    def timeline(self, run_id: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw when each model call and tool ran and how long it took; tools that ran side by side overlap.

        Of one run, or of all, pauses between them left out. Needs matplotlib: `pip install 'nbagent[plot]'`.

        >>> agent.trace.timeline(result.run_id).figure.savefig("run.png")   # doctest: +SKIP
        """
        from nbagent.trace.views import timeline

        of_run = {"calls": self.calls, "tool_calls": self.tool_calls} if run_id is None else self.run(run_id)
        return timeline.draw(of_run["calls"], of_run["tool_calls"], ax)

    def plot_usage(self, ax: Axes | None = None) -> Axes:
        """Draw the tokens of each run, input and output, and above them the dollars, where they are known and not 0."""
        from nbagent.trace.views import plots

        return plots.plot_usage(self.usage, ax)

    def plot_tools(self, axes: Sequence[Axes] | None = None) -> list[Axes]:
        """Draw how often each tool was called and how often it failed, and beside that how long its calls took.

        Two axes side by side; `axes` are two to draw on. Calls that never ran, of invalid arguments or denied, count as
        failed and took no time.
        """
        from nbagent.trace.views import plots
        from nbagent.trace.views import tool_stats as stats

        calls = self.tool_calls
        tools = stats.tool_stats(calls).sort_values("calls", ascending=False, kind="stable")
        return plots.plot_tools(tools, stats.seconds_of(calls), axes)

    def transcript(self, run_id: str | None = None) -> TraceTranscript:
        """What was said in one run, or in all, message by message, with thinking, tool calls and what each cost.

        A notebook displays it as cleaned HTML; `print` gives plain text.

        >>> agent.trace.transcript(result.run_id)                           # doctest: +SKIP
        """
        from nbagent.trace.views.transcript import TraceTranscript

        return TraceTranscript(self._rows_of(run_id))

    def to_text(self, view: str = "summary", run_id: str | None = None) -> str:
        """A view of one run, or of all, as plain text: summary, timeline, usage, tools or transcript.

        Needs no matplotlib. Raises ConfigurationError for another view, and where there is no such run.

        >>> print(agent.trace.to_text("timeline"))                          # doctest: +SKIP
        claude-sonnet-5  ····████████████                                             1.1 s
          mean_by()                      ████                                         304 ms
        """
        from nbagent.trace.views.text import to_text

        return to_text(view, self._rows_of(run_id))

    def explore(self) -> Any:
        """A browser of runs, calls, tool calls, messages and blocks, with filters: a widget, for notebooks.

        The same as `nbagent.TraceExplorer(trace)`. Raises ConfigurationError outside of a notebook that has loaded
        nbagent.
        """
        if Trace.explorer is None:
            raise ConfigurationError("explore() is for notebooks: run %load_ext nbagent before it")
        return Trace.explorer(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tables to a file that `Trace.load`, or any other tool, reads; what the name ends with says which.

        - `.sqlite`: one SQLite database
        - `.parquet`: a folder with one Parquet file for each table; needs `pip install 'nbagent[parquet]'`
        - `.jsonl`: one JSON object a line, `{"table": "runs", "n": 0, "row": {...}}`

        The file is there whole or not at all. Values of tools are not part of it, nor `usage`, which sums up `calls`; a
        run that still goes on is saved as far as it is.
        """
        from nbagent.trace.storage import files as store

        store.save({name: self._frame(name) for name in TABLES}, Path(path).expanduser())

    def stream_to(self, path: str | os.PathLike[str] | None) -> None:
        """Append to a `.jsonl` file from now on: what is there already, and what is new after each turn.

        It can be read while it grows, and from the first moment, when it is an empty trace. A run that crashes is in it
        up to its last turn. A file that holds something else is left alone, with a ConfigurationError. None ends it.

        >>> agent.trace.stream_to("monday.jsonl")                           # doctest: +SKIP
        """
        with self._lock:
            self._journal = None
            if path is None:
                return
            if Path(path).suffix != ".jsonl":
                raise ConfigurationError(f"{str(path)!r} can't be appended to: let its name end with .jsonl")
            journal = Journal(Path(path).expanduser())
            journal.write(self._tables, self._settled())
            self._journal = journal

    def to_otel(
        self,
        endpoint: str | None = None,
        *,
        capture_content: bool | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> Telemetry:
        """Send the runs that begin from now on to OpenTelemetry too: spans `invoke_agent`, `chat`, `execute_tool`,
        metrics of tokens and seconds, named by the conventions for generative AI. Agents made by `fork` do the same.

        `endpoint` is the address of a collector that takes OTLP over HTTP: needs `pip install 'nbagent[otel]'`. Without
        it, the providers given, else those that the process has set up, else what OTEL_EXPORTER_OTLP_ENDPOINT names.
        What is said is left out, unless `capture_content`, or the environment variable
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, is true. `stop()` of what is returned ends it.

        >>> agent.trace.to_otel("http://localhost:4318")                    # doctest: +SKIP
        """
        try:
            from nbagent.trace.export import otel_setup as otel_export
        except ImportError:
            raise MissingDependencyError("OpenTelemetry is not installed: pip install 'nbagent[otel]'") from None
        return otel_export.begin(self.observers, endpoint, capture_content, tracer_provider, meter_provider)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """The trace in a saved file, equal to what was saved; agents can go on recording into it.

        >>> Trace.load("monday.sqlite").runs                                # doctest: +SKIP
        """
        from nbagent.trace.storage import files as store

        return cls._of(store.load(Path(path).expanduser()))

    @classmethod
    def concat(cls, traces: Iterable[Trace]) -> Trace:
        """One trace of several, in their order. A run that is in more than one is taken from the last of them.

        >>> Trace.concat([Trace.load(path) for path in sorted(folder.glob("*.sqlite"))]).usage      # doctest: +SKIP
        """
        every = list(traces)
        last = {row["run_id"]: number for number, trace in enumerate(every) for row in trace.rows("runs")}
        made = cls._of(
            {
                name: by_column(
                    [
                        row
                        for number, trace in enumerate(every)
                        for row in trace.rows(name)
                        if last.get(row["run_id"], number) == number
                    ]
                )
                for name in TABLES
            }
        )
        for trace in every:
            made._values.update(trace._values)
        return made

    @classmethod
    def _of(cls, tables: dict[str, Columns]) -> Trace:
        trace = cls()
        for name, column in (("events", "event_id"), ("messages", "index")):
            tables[name][column] = list(range(count_of(tables[name])))
        for name, columns in tables.items():
            trace._tables[name].take(columns)
        events = tables["events"]
        for kind, data in zip(events.get("type", ()), events.get("data", ()), strict=True):
            if kind == "context":
                trace._trimmed.update(json.loads(data).get("trimmed", ()))
        return trace

    def curl(self, index: int = -1) -> str:
        """An exchange, the last one if none is named, as a command for a shell; keys come from its environment.

        Raises ConfigurationError where none is recorded, or its body was too long to be kept whole.

        >>> print(agent.trace.curl())                                       # doctest: +SKIP
        curl -sSN -X POST https://api.openai.com/v1/chat/completions \\
          -H "authorization: Bearer $OPENAI_API_KEY" ...
        """
        rows = self.rows("http")
        if not rows:
            raise ConfigurationError("no HTTP exchange is recorded: set record_http=True before the run")
        return http_log.curl(rows[index])

    def save_har(self, path: str | Path) -> None:
        """Write the exchanges as an HTTP archive, which the network panel of a browser's developer tools opens.

        Raises ConfigurationError where it can't be written; then what was in the file before is still there.
        """
        text = well_formed(as_json(http_log.har(self.rows("http"))))
        try:
            with atomic_write(Path(path).expanduser()) as temporary:
                temporary.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{str(path)!r} can't be written: {error.strerror or error}") from None

    @contextmanager
    def recording_http(self) -> Iterator[Trace]:
        """Keep the exchanges of whatever is asked in this block, outside of a run too.

        >>> with trace.recording_http():                                    # doctest: +SKIP
        ...     await agent.provider.model_list()
        """
        outside = {"run_id": None}
        with collecting(lambda each: self.record(kinds.Http(metadata={**outside, **each.facts()}, exchange=each))):
            yield self

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(self._tables[name])} {name}" for name in ("runs", "calls", "tool_calls", "events"))
        return f"<Trace: {counts.replace('_', ' ')}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of the trace itself: models, tools, tokens and cost, summed up."""
        from nbagent.core.render.key_values import key_values_html

        return key_values_html(overview({name: self.rows(name) for name in ("runs", "calls", "tool_calls")}))
