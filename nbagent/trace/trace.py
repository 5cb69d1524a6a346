"""`Trace`: what happened, as DataFrames. pandas is loaded when you look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.core import events as kinds
from nbagent.core.events import Event
from nbagent.core.http_log import collecting
from nbagent.errors import ConfigurationError, MissingDependencyError
from nbagent.trace import http_log
from nbagent.trace.journal import Journal
from nbagent.trace.overview import as_html, overview
from nbagent.trace.recorder import MAX_BYTES, TABLES, Recorder
from nbagent.trace.rows import as_json
from nbagent.trace.table import Table

if TYPE_CHECKING:
    import os

    import pandas as pd
    from matplotlib.axes import Axes
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from nbagent.trace.frames import TraceFrame
    from nbagent.trace.otel import Telemetry


class Trace(Recorder):
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

    def __init__(self, record_http: bool = False, keep_results: bool = True, max_bytes: int | None = MAX_BYTES) -> None:
        super().__init__(keep_results, max_bytes)
        self.record_http = record_http
        #: The tables as far as they change no more.
        self._frames: dict[str, TraceFrame] = {}
        #: Called with this trace and each event of the runs that begin from now on, once it is recorded. They must
        #: not raise.
        self.observers: list[Callable[[Recorder, Event], None]] = []

    @property
    def runs(self) -> TraceFrame:
        """One row per question asked."""
        return self._frame("runs")

    @property
    def calls(self) -> TraceFrame:
        """One row per model request."""
        return self._frame("calls")

    @property
    def messages(self) -> TraceFrame:
        """One row per message that entered the conversation."""
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

    def args(self, tool: str) -> pd.DataFrame:
        """The arguments of each call of one tool, a column for each argument; the index is that of `tool_calls`.

        >>> trace.tool_calls.join(trace.args("mean_by"), rsuffix="_arg")    # doctest: +SKIP
        """
        from nbagent.trace import spread

        return spread.args(self.rows("tool_calls"), tool)

    def results(self, tool: str) -> Any:
        """What one tool returned, as it was: a Series with the index of `tool_calls`, failed calls left out.

        If all its results are DataFrames they are one DataFrame, whose index has that number as its first level
        `call`. The values themselves are kept in memory alone: after `load` there is `tool_calls["result_text"]`.

        >>> trace.results("load_sales").droplevel("call")                   # doctest: +SKIP
        """
        from nbagent.trace import spread

        with self._lock:
            return spread.results(self.rows("tool_calls"), tool, self._values)

    def run(self, run_id: str) -> dict[str, TraceFrame]:
        """All tables of one run, by name. Raises ConfigurationError where there is no such run.

        >>> trace.run(result.run_id)["tool_calls"]                          # doctest: +SKIP
        """
        from nbagent.trace import frames

        with self._lock:
            whole = {name: self._frame(name) for name in (*TABLES, "usage")}
        tables = {
            name: frames.named(frame[frame["run_id"] == run_id].reset_index(drop=True), name)
            for name, frame in whole.items()
        }
        if tables["runs"].empty:
            raise ConfigurationError(f"this trace has no run {run_id!r}: see trace.runs['run_id']")
        return tables

    def timeline(self, run_id: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw when each model call and tool ran and how long it took; tools that ran side by side overlap.

        Of one run, or of all, pauses between them left out. Needs matplotlib: `pip install 'nbagent[plot]'`.

        >>> agent.trace.timeline(result.run_id).figure.savefig("run.png")   # doctest: +SKIP
        """
        from nbagent.trace import timeline

        of_run = {"calls": self.calls, "tool_calls": self.tool_calls} if run_id is None else self.run(run_id)
        return timeline.draw(of_run["calls"], of_run["tool_calls"], ax)

    def plot_usage(self, ax: Axes | None = None) -> Axes:
        """Draw the tokens of each run, input and output, and above them the dollars, where they are known and not 0."""
        from nbagent.trace import timeline

        return timeline.plot_usage(self.usage, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all tables to a file that `Trace.load`, or any other tool, reads; what the name ends with says which.

        - `.sqlite`: one SQLite database
        - `.parquet`: a folder with one Parquet file for each table; needs `pip install 'nbagent[parquet]'`
        - `.jsonl`: one JSON object a line, `{"table": "runs", "row": {...}}`

        The file is there whole or not at all. Values of tools are not part of it; a run that still goes on is saved as
        far as it is.
        """
        from nbagent.trace import store

        store.save({name: self._frame(name) for name in TABLES}, Path(path))

    def stream_to(self, path: str | os.PathLike[str] | None) -> None:
        """Append to a `.jsonl` file from now on: what is there already, and what is new after each turn.

        It can be read while it grows. A run that crashes is in it up to its last turn. None ends it.

        >>> agent.trace.stream_to("monday.jsonl")                           # doctest: +SKIP
        """
        with self._lock:
            self._journal = None
            if path is None:
                return
            if Path(path).suffix != ".jsonl":
                raise ConfigurationError(f"{str(path)!r} can't be appended to: let its name end with .jsonl")
            journal = Journal(Path(path))
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
            from nbagent.trace import otel_export
        except ImportError:
            raise MissingDependencyError("OpenTelemetry is not installed: pip install 'nbagent[otel]'") from None
        return otel_export.begin(self.observers, endpoint, capture_content, tracer_provider, meter_provider)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """The trace in a saved file, equal to what was saved; agents can go on recording into it.

        >>> Trace.load("monday.sqlite").runs                                # doctest: +SKIP
        """
        from nbagent.trace import store

        return cls._of(store.load(Path(path)))

    @classmethod
    def concat(cls, traces: Iterable[Trace]) -> Trace:
        """One trace of several, in their order. A run that is in more than one is taken from the last of them.

        >>> Trace.concat([Trace.load(path) for path in sorted(folder.glob("*.sqlite"))]).usage      # doctest: +SKIP
        """
        every = list(traces)
        last = {row["run_id"]: number for number, trace in enumerate(every) for row in trace.rows("runs")}
        made = cls._of(
            {
                name: [
                    row
                    for number, trace in enumerate(every)
                    for row in trace.rows(name)
                    if last.get(row["run_id"], number) == number
                ]
                for name in TABLES
            }
        )
        for trace in every:
            made._values.update(trace._values)
        return made

    @classmethod
    def _of(cls, rows: dict[str, list[dict[str, Any]]]) -> Trace:
        trace = cls()
        for name, column in (("events", "event_id"), ("messages", "index")):
            for number, row in enumerate(rows[name]):
                row[column] = number
        for name, table_rows in rows.items():
            table = trace._tables[name] = Table(table_rows)
            table.settle(len(table))
        trace._last_message = rows["messages"][-1]["message_id"] if rows["messages"] else None
        return trace

    def curl(self, index: int = -1) -> str:
        """An exchange, the last one if none is named, as a command for a shell; keys come from its environment.

        >>> print(agent.trace.curl())                                       # doctest: +SKIP
        curl -sSN -X POST https://api.openai.com/v1/chat/completions \\
          -H "authorization: Bearer $OPENAI_API_KEY" ...
        """
        rows = self.rows("http")
        if not rows:
            raise ConfigurationError("no HTTP exchange is recorded: set record_http=True before the run")
        return http_log.curl(rows[index])

    def save_har(self, path: str | Path) -> None:
        """Write the exchanges as an HTTP archive, which the network panel of a browser's developer tools opens."""
        Path(path).write_text(as_json(http_log.har(self.rows("http"))), encoding="utf-8")

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
        return as_html(overview({name: self.rows(name) for name in ("runs", "calls", "tool_calls")}))

    def _frame(self, name: str) -> TraceFrame:
        """A table as a DataFrame. Of rows that change no more it is made once, and grows with them."""
        from nbagent.trace import frames

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
            return frames.joined([made, frames.build(name, table.rows)])

    def _spill(self) -> None:
        """What was looked at is let go too."""
        super()._spill()
        self._frames.clear()
