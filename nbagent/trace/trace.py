"""`Trace`: what happened in the runs of agents, as DataFrames. pandas is loaded when somebody looks at a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from nbagent.checks import check_choice, check_number, checked_path, invalid
from nbagent.core.atomic_files import write_text
from nbagent.core.events import Event
from nbagent.core.json_text import json_text
from nbagent.core.messages import well_formed
from nbagent.core.model_request import ModelRequest
from nbagent.errors import ConfigurationError, missing_extra
from nbagent.trace import environment
from nbagent.trace.export import http
from nbagent.trace.recorder import MAX_BYTES, Recorder
from nbagent.trace.requests import Requests, system_rows
from nbagent.trace.rows import Row
from nbagent.trace.schema import FORMAT, TABLES
from nbagent.trace.scores import new_score, scores_that_count
from nbagent.trace.store import TraceFile
from nbagent.trace.summary import summary_lines
from nbagent.trace.together import family, joined, rows_below

if TYPE_CHECKING:  # what needs pandas, matplotlib or OpenTelemetry
    import os
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from nbagent.trace.columns import TraceFrame
    from nbagent.trace.export.otel import Telemetry
    from nbagent.trace.views.transcript import TraceTranscript
    from nbagent.trace.views.tree import TraceTree


class Trace:
    """The events of one or more agents' runs, as tables.

    The tables are `runs`, `calls`, `messages`, `blocks`, `tool_calls`, `cells`, `citations`, `thinking`, `usage`,
    `events`, `http`, `prompts`, `scores` and `environment`. All have `run_id`, `session_id` and `ts`. Join them by
    `run_id`, `call_id`, `tool_call_id` and `message_id`; these are unique in `runs`, `calls`, `tool_calls` and
    `messages`. `parent_run_id` is the `run_id` of the run whose tool started this one, `parent_id` the `message_id` of
    the message before. A table has all its columns even when it is empty. Several agents, in several threads, may share
    one trace.

    With `record_http=True` the trace also keeps each HTTP request and response, secrets removed, for `http` and
    `curl()`. Switch it at any time (`trace.record_http = True`); it applies to runs that begin later.

    The trace keeps the values that tools returned for `results()`, unless `keep_results=False`.

    A trace is a private SQLite database. Rows and the values that tools returned take about `max_bytes` of memory; what
    is more lies in SQLite's temporary file, which has no name and disappears with the process (set `TMPDIR` for another
    folder). Of a value that can't be pickled, the text stays that the model read. None keeps everything in memory.

    >>> trace = Trace()
    >>> list(trace.tool_calls.columns)[:3]
    ['name', 'args', 'result_text']
    """

    #: Makes the widget of `explore()`. The notebook's part of nbagent sets it; nothing here depends on that part.
    explorer: ClassVar[Callable[[Trace], Any] | None] = None

    def __init__(
        self,
        record_http: bool = False,
        keep_results: bool = True,
        max_bytes: int | None = MAX_BYTES,
        *,
        is_recording: bool = True,
    ) -> None:
        #: False for `Agent(trace=False)`: the tables stay empty.
        self.is_recording = is_recording
        self.record_http = record_http
        check_number("max_bytes", max_bytes, whole=True, minimum=0, optional=True, fix="None keeps all rows in memory.")
        self.recorder = Recorder(keep_results, max_bytes)
        self._file: TraceFile | None = None
        #: Takes one event of a run; agents call it for every event.
        self.record: Callable[[Event], None] = self.recorder.record if is_recording else _ignore
        #: Called with this trace and each event, once it is recorded, of runs that begin from now on. They must not
        #: raise.
        self.observers: list[Callable[[Trace, Event], None]] = []

    # -- tables -------------------------------------------------------------------------------------------------------

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

        Tools that the provider runs find them, such as `nbagent.web_search`.
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

        Names of variables, such as `$OPENAI_API_KEY`, replace secrets.
        """
        return self._frame("http")

    @property
    def prompts(self) -> TraceFrame:
        """One row for each text that requests share: system prompts with instructions, sets of tools as JSON."""
        return self._frame("prompts").once("hash")

    def request(self, call_id: str) -> ModelRequest:
        """A call's request, from the tables: its messages, the tools on offer, and the options in effect.

        >>> trace.request(trace.calls["call_id"].iloc[-1]).messages         # doctest: +SKIP
        """
        return Requests(self._rows("calls", "messages", "prompts")).of(call_id)

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
            newest = self.recorder.flush().get("SELECT session_id FROM runs ORDER BY n DESC LIMIT 1")
        if newest == [(self.session_id,)]:
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

    def _rows(self, *tables: str) -> dict[str, list[Row]]:
        """Copies of the rows of some tables, or of all, at one time."""
        with self.recorder.lock:
            return {name: self.rows(name) for name in tables or TABLES}

    def _rows_of(self, run_id: str) -> dict[str, list[Row]]:
        """Copies of the rows of one run, by table: see `run`."""
        with self.recorder.lock:
            if not isinstance(run_id, str) or not self.recorder.rows("runs", "run_id = ?", run_id):
                raise unknown_run(run_id)
            rows = {name: self.recorder.rows(name, "run_id = ?", run_id) for name in TABLES}
            hashes = dict.fromkeys(call[name] for name in ("system_hash", "tools_hash") for call in rows["calls"])
            prompts = [self.recorder.rows("prompts", "hash = ?", each)[:1] for each in hashes if each]
            sessions = dict.fromkeys(run["session_id"] for run in rows["runs"])
            known = [self.recorder.rows("environment", "session_id = ?", each)[-1:] for each in sessions]
            rows |= {"prompts": [*chain(*prompts)], "environment": [*chain(*known)]}
        return rows | {name: [*system, *rows[name]] for name, system in system_rows(rows).items()}

    def _frame(self, name: str, wanted: Collection[str] | None = None) -> TraceFrame:
        """A table as users see it, or its `wanted` columns."""
        from nbagent.trace import columns

        if name == "usage":
            return columns.usage_frame(self._frame("calls"))
        with self.recorder.lock:
            frame = columns.table_frame(name, self.recorder.flush(), wanted)
        return columns.with_objects(frame)

    # -- scores -------------------------------------------------------------------------------------------------------

    def score(
        self, target: str, name: str, value: float | None, comment: str | None = None, *, by: str = "user"
    ) -> None:
        """Say how good a run, a call or a tool call was; `target` is its `run_id`, `call_id` or `tool_call_id`.

        `value` is a number, True (1) or False (0). Each author, `by`, has one score of a `name` for a thing: another
        one replaces it, and None takes it back. Raises ConfigurationError for an id that the trace does not have.

        >>> agent.trace.score(result.run_id, "good", 1)                     # doctest: +SKIP
        >>> agent.trace.score(result.run_id, "exact", answer == 42, by="exam.py")           # doctest: +SKIP
        >>> agent.trace.runs.merge(agent.trace.scores, on="run_id")         # doctest: +SKIP
        """
        with self.recorder.lock:
            self.recorder.add_score(new_score(self.recorder.flush(), target, name, value, comment, by))

    # -- views --------------------------------------------------------------------------------------------------------

    def args(self, tool: str) -> pd.DataFrame:
        """The arguments of each call of one tool, a column for each argument, with the index of `tool_calls`.

        >>> trace.tool_calls.join(trace.args("mean_by").add_prefix("arg_"))     # doctest: +SKIP
        """
        from nbagent.trace.views.tool_arguments import tool_arguments

        return tool_arguments(self.rows("tool_calls"), tool)

    def results(self, tool: str) -> Any:
        """The values that one tool returned: a Series with the index of `tool_calls`, without failed calls.

        If all of them are DataFrames, the result is one DataFrame, and the first level of its index, `call`, is the
        index in `tool_calls`. Saved files hold no values: after `load` there is `tool_calls["result_text"]`.

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
        from nbagent.trace.views.diff import diff

        return diff(self._rows_of(run_a), self._rows_of(run_b))

    def summary(self, by: str = "model") -> pd.DataFrame:
        """Calls summed up by `model`, `day` (local time), `tag` or `tool`: one row for each.

        Counts, tokens, dollars where known (`unpriced` counts the calls without a known price), and the seconds that
        half (p50) and 95 % (p95) of the calls stay below: `duration_p50_s`, `duration_p95_s`, `ttft_p50_s`,
        `ttft_p95_s`. `tokens_per_s` is output tokens by the whole duration. Replayed calls are counted only. By `tool`
        it has the counts and durations of tool calls. A call of a run with two tags counts for both.

        >>> agent.trace.summary("model")[["calls", "cost_usd", "ttft_p95_s", "tokens_per_s"]]   # doctest: +SKIP
        """
        from nbagent.trace.views.summary_by import COLUMNS_READ, summary_by

        check_choice("by", by, COLUMNS_READ)
        return summary_by(by, {name: self._frame(name, wanted) for name, wanted in COLUMNS_READ[by].items()})

    def timeline(self, run_id: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw when each model call and tool ran and how long it took; tools that ran in parallel overlap.

        For one run, or for all, with lines in place of the pauses between them.
        The first row of a run is named after its question, others after the model or the call, and after models and
        tools if there are many. Runs of an agent that a tool called are below the call, marked with `›`. Needs
        the extra `plot`.

        >>> agent.trace.timeline(result.run_id).figure.savefig("run.png")   # doctest: +SKIP
        """
        from nbagent.trace.views import timeline

        return timeline.draw(self.rows_with_children(run_id), ax)

    def tree(self, run_id: str | None = None) -> TraceTree:
        """Which agent asked which: one run, or all, with tool calls, and the runs that these started below them.

        A notebook and `print` show it as text, and `.plot()` draws it. The requests, tokens and dollars of a line
        include what is below it.

        >>> print(agent.trace.tree())                                       # doctest: +SKIP
        Which penguin is the heaviest?           ok · 3 requests · 612 tokens · $0.0021 · 2.1 s
        └─ research(question="Heaviest?")        ✓ · 1 request · 240 tokens · $0.0009 · 1.2 s
           └─ search(query="penguins by mass")   ✓ · 20 ms
        """
        from nbagent.trace.views.tree import TraceTree

        return TraceTree(self.rows_with_children(run_id), run_id)

    def rows_with_children(self, run_id: str | None = None) -> dict[str, list[Row]]:
        """Copies of the rows of one run, or of all, and of those that their tools started, also in other agents.

        Of `runs`, `calls` and `tool_calls`. Raises ConfigurationError for an unknown run.
        """
        rows = rows_below(self.recorder, run_id, ("runs", "calls", "tool_calls"))
        if run_id is not None and not rows["runs"]:
            raise unknown_run(run_id)
        return rows

    def plot_usage(self, ax: Axes | None = None) -> Axes:
        """Draw the input and output tokens of each run, and above them the dollars, where known and not 0.

        Dollars in brackets belong to replayed answers, which were not paid for.
        """
        from nbagent.trace.views import plots

        return plots.plot_usage(self.usage, ax)

    def plot_tools(self, axes: Sequence[Axes] | None = None) -> list[Axes]:
        """Draw how often each tool was called and failed, and how long its calls took.

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

        return TraceTranscript(self._rows() if run_id is None else self._rows_of(run_id))

    def explore(self) -> Any:
        """A widget for notebooks that browses runs, calls, tool calls, messages and blocks, with filters.

        The same as `nbagent.TraceExplorer(trace)`. Raises ConfigurationError unless a notebook has loaded nbagent.
        """
        if Trace.explorer is None:
            raise ConfigurationError("explore() needs a notebook. Run %load_ext nbagent first.")
        return Trace.explorer(self)

    def __repr__(self) -> str:
        if not self.is_recording:
            return f"<Trace: {_NOT_RECORDING}>"
        names = ("runs", "calls", "tool_calls", "events")
        counts = ", ".join(f"{self.recorder.counts[name]} {name}" for name in names)
        return f"<Trace: {counts.replace('_', ' ')}>"

    def _repr_html_(self) -> str:
        """The display in a notebook: models, tools, tokens and cost, summed up."""
        from nbagent.core.render.key_values import key_values_html

        return key_values_html(self.summary_lines())

    def summary_lines(self) -> list[tuple[str, str]]:
        """The display in a notebook, as pairs of a label and a text."""
        if not self.is_recording:
            return [("runs", _NOT_RECORDING)]
        with self.recorder.lock:
            return summary_lines(self.recorder.flush())

    # -- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tables to a file that `Trace.load`, or any other tool, reads. The suffix names the format:

        - `.sqlite`: a SQLite database; times are Unix seconds
        - `.parquet`: a folder with one Parquet file for each table; needs the extra `parquet`
        - `.jsonl`: one JSON object a line, `{"table": "runs", "row": {...}}`

        The file is written completely or not at all. It holds neither the values that tools returned nor `usage`, which
        is computed from `calls`. A run in progress is saved as far as it got.
        """
        from nbagent.trace import files

        path = checked_path(path)
        if self.recorder.is_written_to(path.absolute()):
            raise invalid("path", str(path), "a file that the trace is not streamed to", "That one is up to date.")
        self._note_environment()
        with self.recorder.lock:
            files.save(self.recorder.flush(), path)

    def export(self, path: str | os.PathLike[str], run_ids: Iterable[str] | None = None) -> int:
        """Write runs as examples for fine-tuning, in OpenAI's format for chat. Returns how many it wrote.

        Each line of the `.jsonl` file is a run: `{"messages": [...], "tools": [...]}`, what its last call sent, system
        prompt and tools included, and the answer. Left out are runs whose status is not `ok`, runs with a call that
        could never run (of a made-up name, or with arguments that are no JSON object), thinking, and providers' data.
        Images stay in prompts; elsewhere a description replaces them. `run_ids` selects runs, by scores perhaps.
        Raises ConfigurationError if no run is left.

        >>> good = agent.trace.scores.query("name == 'good' and value == 1")["run_id"]      # doctest: +SKIP
        >>> agent.trace.export("chat.jsonl", good)                          # doctest: +SKIP
        12
        """
        from nbagent.trace.export.fine_tuning import examples

        path, wanted = _checked_file(path, ".jsonl"), None if run_ids is None else frozenset(run_ids)
        tables = self._rows("runs", "calls", "messages", "prompts")
        if unknown := (wanted or frozenset()) - {row["run_id"] for row in tables["runs"]}:
            raise unknown_run(min(unknown, key=str))
        lines = [json_text(example) + "\n" for example in examples(tables, wanted)]
        if not lines:
            raise ConfigurationError("there is nothing to export: no run has ended well. See trace.runs['status'].")
        write_text(path, "".join(lines))
        return len(lines)

    def to_notebook(
        self, run_ids: str | Iterable[str] | None = None, path: str | os.PathLike[str] | None = None
    ) -> dict[str, Any]:
        """Some runs, or all turns, as JSON data of a notebook that runs without the agent. `path` is a file to write.

        Questions and answers become text, and the code of `run_code` becomes cells without outputs. A tool of yours
        says in its docstring, after "In Python:", the equivalent code, in the names of its parameters. Cells
        that a run added are as runs left them. Other calls become text, with their results. Calls that failed
        are left out, and so are those that only looked at variables or cells. Raises ConfigurationError for an unknown
        run, and if the file exists.

        >>> agent.trace.to_notebook(result.run_id, "churn.ipynb")           # doctest: +SKIP
        """
        from nbagent.trace.export.notebook import notebook_of

        tables = self._rows("runs", "messages", "tool_calls", "cells")
        wanted = {run_ids} if isinstance(run_ids, str) else None if run_ids is None else set(run_ids)
        if unknown := (wanted or set()) - {row["run_id"] for row in tables["runs"]}:
            raise unknown_run(min(unknown))
        notebook = notebook_of(tables, wanted)
        if path is not None:
            path = checked_path(path)
            if path.exists():
                raise ConfigurationError(f"{str(path)!r} exists: name another file, or delete it.")
            write_text(path, well_formed(json.dumps(notebook, indent=1, ensure_ascii=False)) + "\n")
        return notebook

    def stream_to(self, path: str | os.PathLike[str] | None) -> None:
        """Write to a `.sqlite` file from now on: first the rows so far, then new ones after each turn.

        The file can be read while it grows. After a crash it holds the run up to its last turn. Several processes may
        write to one file; a forked one, whose trace begins anew, calls this itself. None ends it. Raises
        ConfigurationError for a file with other content, and leaves that alone.

        >>> agent.trace.stream_to("monday.sqlite")                          # doctest: +SKIP
        """
        if self._file is not None:
            self.recorder.detach(self._file)
            self._file = None
        if path is not None:
            path = _checked_file(path, ".sqlite").absolute()
            self.recorder.add_environment(environment.environment)
            with FORMAT.clear_errors(path):
                file = TraceFile(path)
                try:
                    self.recorder.attach(file, each_turn=True)
                except BaseException:
                    file.close()
                    raise
                self._file = file

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_bytes: int | None = MAX_BYTES) -> Trace:
        """The trace in a saved file, equal to what was saved; agents can continue recording into it.

        >>> Trace.load("monday.sqlite").runs                                # doctest: +SKIP
        """
        from nbagent.trace import files

        trace = cls(max_bytes=max_bytes)
        files.load(trace.recorder, checked_path(path))
        return trace

    @classmethod
    def concat(cls, traces: Iterable[Trace]) -> Trace:
        """One trace made of several, in their order. A run in more than one of them is taken from the last.

        >>> Trace.concat([Trace.load(path) for path in sorted(folder.glob("*.sqlite"))]).usage      # doctest: +SKIP
        """
        every = list(traces)
        for trace in every:
            trace._note_environment()
        return cls._made_of([(trace.recorder, None) for trace in every])

    def with_children(self) -> Trace:
        """This trace together with the runs of forks that still exist, and those that tools started in other agents.

        These have traces of their own; `parent_run_id` is the run whose tool started a run. Rows are in the order of
        their time. `explore()` and the panel also show them. Without any it is the trace itself.

        >>> agent.trace.with_children().runs[["prompt", "run_id", "parent_run_id"]]         # doctest: +SKIP
        """
        members = family(self.recorder)
        return self if len(members) == 1 else self._made_of([*members.items()], by_time=True)

    @classmethod
    def _made_of(cls, members: Sequence[tuple[Recorder, set[str] | None]], *, by_time: bool = False) -> Trace:
        made = cls()
        for name, rows in joined(members).items():
            made.recorder.add_rows(name, sorted(rows, key=lambda row: row["ts"]) if by_time else rows)
        for recorder, _ in members:
            made.recorder.results.take(recorder.results)
        return made

    # -- other tools --------------------------------------------------------------------------------------------------

    def to_otel(
        self,
        endpoint: str | None = None,
        *,
        capture_content: bool | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> Telemetry:
        """Also send runs that begin from now on to OpenTelemetry: spans `invoke_agent`, `chat` and `execute_tool`, and
        metrics of tokens and seconds, named by the conventions for generative AI. Forks of the agent do the same.

        `endpoint` is the address of a collector that takes OTLP over HTTP: needs the extra `otel`. Without
        it, spans go to the given providers, else to those that the process has set up, else to the collector in
        OTEL_EXPORTER_OTLP_ENDPOINT. The texts of messages are left out unless `capture_content`, or the environment
        variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, is true. Call `stop()` on the result to end it.

        >>> agent.trace.to_otel("http://localhost:4318")                    # doctest: +SKIP
        """
        try:
            from nbagent.trace.export.otel import start_telemetry
        except ImportError:
            raise missing_extra("OpenTelemetry", "otel") from None
        return start_telemetry(self.observers, endpoint, capture_content, tracer_provider, meter_provider)

    def curl(self, index: int = -1) -> str:
        """An HTTP exchange, by default the last one, as a shell command that takes keys from the environment.

        Raises ConfigurationError if none is recorded.

        >>> print(agent.trace.curl())                                       # doctest: +SKIP
        curl -gsSN -X POST https://api.openai.com/v1/chat/completions \\
          -H "authorization: Bearer $OPENAI_API_KEY" ...
        """
        rows = self.rows("http")
        if not rows:
            raise ConfigurationError("no HTTP exchange is recorded. Set record_http=True before the run.")
        return http.curl(rows[index])


def _checked_file(path: str | os.PathLike[str], suffix: str) -> Path:
    checked = checked_path(path)
    if checked.suffix != suffix:
        raise invalid("path", checked.name, f"a name that ends with {suffix}", "trace.save(path) writes other formats.")
    return checked


def unknown_run(run_id: object) -> ConfigurationError:
    """The error for the id of a run that the trace does not have."""
    return invalid("run_id", run_id, "a run of this trace", "trace.runs['run_id'] lists them.")


_NOT_RECORDING = "nothing is recorded, since the agent was made with trace=False"


def _ignore(_event: Event) -> None:
    """What a trace does that does not record."""
