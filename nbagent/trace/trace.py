"""`Trace`: the runs of agents as DataFrames. Reading a table imports pandas."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from nbagent.checks import check_choice, check_number, checked_path, invalid
from nbagent.core.atomic_files import write_text
from nbagent.core.events import Event
from nbagent.core.json_text import json_text
from nbagent.core.messages import well_formed
from nbagent.core.model_request import ModelRequest
from nbagent.errors import ConfigurationError, missing_extra
from nbagent.trace import environment
from nbagent.trace.combined import combined_rows, related_recorders, rows_below
from nbagent.trace.export import http
from nbagent.trace.recorder import MAX_BYTES, Recorder
from nbagent.trace.requests import Requests
from nbagent.trace.rows import Row
from nbagent.trace.schema import FORMAT, TABLES
from nbagent.trace.scores import new_score, scores_that_count
from nbagent.trace.store import TraceFile
from nbagent.trace.summary import summary_lines

if TYPE_CHECKING:  # these need pandas, matplotlib or OpenTelemetry
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
    """The runs of one or more agents, as tables.

    The tables are `runs`, `calls`, `messages`, `blocks`, `tool_calls`, `cells`, `citations`, `thinking`, `usage`,
    `events`, `http`, `prompts`, `scores` and `environment`. A table has all its columns even when it is empty.

    All tables have `run_id`, `session_id` and `ts`. Join the tables on `run_id`, `call_id`, `tool_call_id` and
    `message_id`, which are unique in `runs`, `calls`, `tool_calls` and `messages`, respectively. In `runs`,
    `parent_run_id` is the id of the run whose tool started this run. In `messages`, `parent_id` is the id of the
    previous message. Several agents may share a trace, even in different threads.

    With `record_http=True`, the trace also records each HTTP request and response, without secrets, for `http` and
    `curl()`. You can also set `trace.record_http` later; it then applies to new runs.

    The trace keeps the values that tools returned, for `results()`, unless `keep_results=False`.

    A trace is a private SQLite database. Rows and returned values use about `max_bytes` of memory. The rest spills to
    unnamed temporary files, which disappear when the process ends. `TMPDIR` sets their folder. If a value that spills
    can't be pickled, only the text that the model read is kept. `max_bytes=None` keeps everything in memory.

    >>> trace = Trace()
    >>> list(trace.tool_calls.columns)[:3]
    ['name', 'args', 'result_text']
    """

    #: Creates the widget of `explore()`. The notebook part of nbagent sets it, so that nothing here depends on it.
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
        #: Agents call this with every event.
        self.record: Callable[[Event], None] = self.recorder.record if is_recording else lambda _: None
        #: Called with this trace and each recorded event of runs that start from now on. They must not raise.
        self.observers: list[Callable[[Trace, Event], None]] = []

    @property
    def session_id(self) -> str:
        """The id shared by all rows that this trace recorded."""
        return self.recorder.session_id

    @property
    def runs(self) -> TraceFrame:
        """One row per run: a prompt with its answer.

        A run continues the `branch` of the run before it. A new branch starts with the first run of an agent, and with
        the first run after `fork`, `undo`, `clear_history`, an edit, or the replacement of a turn or the history.
        `context.switch` returns to a branch. In `messages`, the `parent_id` of a branch's first message shows where the
        branch forked off.
        """
        return self._frame("runs")

    @property
    def calls(self) -> TraceFrame:
        """One row per model request. `request()` reconstructs the request."""
        return self._frame("calls")

    @property
    def messages(self) -> TraceFrame:
        """One row per message that entered the conversation. `parent_id` is the id of the message before it.

        Summaries, and messages that were inserted by hand, edited, loaded or inherited by a fork, appear when a request
        first sends them. After an edit, or when a prompt is sent again, the messages that follow have new rows in the
        new branch.
        """
        return self._frame("messages")

    @property
    def blocks(self) -> TraceFrame:
        """One row per block of a message. The text of a `tool_call` is its arguments."""
        return self._frame("blocks")

    @property
    def tool_calls(self) -> TraceFrame:
        """One row per tool call: arguments, result, validity, duration.

        Arguments are dicts here but JSON text in files, since Polars and Arrow columns can't contain arbitrary dicts.
        """
        return self._frame("tool_calls")

    @property
    def cells(self) -> TraceFrame:
        """One row for each time a tool changed or ran a notebook cell, with the cell's source before and after.

        `cell` is the id of that cell. As in all tables, `cell_id` is the id of the cell that started the run.
        """
        return self._frame("cells")

    @property
    def citations(self) -> TraceFrame:
        """One row per source that an answer cites, with the passage that cites it.

        The sources come from tools that the provider runs, such as `nbagent.web_search`.
        """
        return self._frame("citations")

    @property
    def thinking(self) -> TraceFrame:
        """One row per block of thinking."""
        return self._frame("thinking")

    @property
    def usage(self) -> TraceFrame:
        """Tokens and cost by run, model and day (UTC). Replayed answers have separate rows, with their recorded cost,
        which was not paid again.
        """
        return self._frame("usage")

    @property
    def events(self) -> TraceFrame:
        """One row per event, except for streamed pieces of text, thinking, arguments and the like."""
        return self._frame("events")

    @property
    def http(self) -> TraceFrame:
        """One row per HTTP exchange, including failed ones, while `record_http` is on.

        `attempt` counts the exchanges of a call. Secrets are replaced by variable names such as `$OPENAI_API_KEY`.
        """
        return self._frame("http")

    @property
    def prompts(self) -> TraceFrame:
        """One row per text that requests share: system prompts with instructions, and tool definitions as JSON."""
        return self._frame("prompts").unique("hash")

    def request(self, call_id: str) -> ModelRequest:
        """Return a call's request from the tables: its messages, the offered tools, and the options in effect.

        >>> trace.request(trace.calls["call_id"].iloc[-1]).messages         # doctest: +SKIP
        """
        return Requests(self._rows("calls", "messages", "prompts")).get(call_id)

    @property
    def scores(self) -> TraceFrame:
        """One row per score from `score()` or from the thumbs below an answer, which set the score `good`.

        The score of a run has a `run_id`. The score of a call also has a `call_id`, and the score of a tool call has a
        `call_id` and a `tool_call_id`.
        """
        from nbagent.trace.columns import build

        return build("scores", scores_that_count(self.rows("scores")))

    @property
    def environment(self) -> TraceFrame:
        """One row per session: git commit, versions of Python and imported packages, kernel, host, platform.

        The environment is collected when you first read it, save the trace or stream the trace to a file, so no run
        waits for it. It doesn't contain names of folders, machines or people.
        """
        self._note_environment()
        return self._frame("environment").unique("session_id", keep="last")

    def _note_environment(self) -> None:
        """Add this session's environment, if the session has recorded something."""
        with self.recorder.lock:
            newest = self.recorder.flush().get("SELECT session_id FROM runs ORDER BY n DESC LIMIT 1")
        if newest == [(self.session_id,)]:
            self.recorder.add_environment(environment.environment)

    def run(self, run_id: str) -> dict[str, TraceFrame]:
        """Return all tables of one run, by name, with its system prompt and the `prompts` that it sent.

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
        """Return copies of a table's rows as dicts, oldest first. `usage`, which is computed, has no such rows."""
        return self.recorder.rows(table)

    def _rows(self, *tables: str) -> dict[str, list[Row]]:
        """Copies of the rows of some tables, or all, taken at one moment."""
        with self.recorder.lock:
            return {name: self.rows(name) for name in tables or TABLES}

    def _rows_of(self, run_id: str) -> dict[str, list[Row]]:
        """Copies of the rows of one run, by table. See `run`."""
        find = self.recorder.rows
        with self.recorder.lock:
            if not isinstance(run_id, str) or not find("runs", "run_id = ?", run_id):
                raise unknown_run(run_id)
            rows = {name: find(name, "run_id = ?", run_id) for name in TABLES}
            hashes = dict.fromkeys(call[name] for name in ("system_hash", "tools_hash") for call in rows["calls"])
            prompts = [row for digest in hashes if digest for row in find("prompts", "hash = ?", digest)[:1]]
            sessions = dict.fromkeys(run["session_id"] for run in rows["runs"])
            known = [row for session_id in sessions for row in find("environment", "session_id = ?", session_id)[-1:]]
            # the row of a system prompt belongs to the run that sent it first
            own = {row["text"] for row in rows["messages"] if row["role"] == "system"}
            texts = [row["text"] for row in prompts if row["kind"] == "system" and row["text"] not in own]
            system = [row for text in texts for row in find("messages", "role = 'system' AND text = ?", text)[:1]]
            blocks = [block for row in system for block in find("blocks", "message_id = ?", row["message_id"])]
        earlier = {"messages": system, "blocks": blocks}
        rows |= {name: [*({**row, "run_id": run_id} for row in found), *rows[name]] for name, found in earlier.items()}
        return rows | {"prompts": prompts, "environment": known}

    def _frame(self, name: str, wanted: Collection[str] | None = None) -> TraceFrame:
        """A table as users see it, or its `wanted` columns."""
        from nbagent.trace import columns

        if name == "usage":
            return columns.usage_frame(self._frame("calls"))
        with self.recorder.lock:
            frame = columns.table_frame(name, self.recorder.flush(), wanted)
        return columns.with_objects(frame)

    def score(
        self, target: str, name: str, value: float | None, comment: str | None = None, *, by: str = "user"
    ) -> None:
        """Rate a run, call or tool call; `target` is its `run_id`, `call_id` or `tool_call_id`.

        `value` is a number, True (1) or False (0). Each author (`by`) has one score per `name` and target. A new score
        replaces the earlier one, and None withdraws it. Raises ConfigurationError for an id that is not in the trace.

        >>> agent.trace.score(result.run_id, "good", 1)                     # doctest: +SKIP
        >>> agent.trace.score(result.run_id, "exact", answer == 42, by="exam.py")           # doctest: +SKIP
        >>> agent.trace.runs.merge(agent.trace.scores, on="run_id")         # doctest: +SKIP
        """
        with self.recorder.lock:
            self.recorder.add_score(new_score(self.recorder.flush(), target, name, value, comment, by))

    def args(self, tool: str) -> pd.DataFrame:
        """Return the arguments of each call of one tool, one column per argument, with the index of `tool_calls`.

        >>> trace.tool_calls.join(trace.args("mean_by").add_prefix("arg_"))     # doctest: +SKIP
        """
        from nbagent.trace.views.tool_arguments import tool_arguments

        return tool_arguments(self.rows("tool_calls"), tool)

    def results(self, tool: str) -> Any:
        """Return the values that one tool returned, as a Series with the index of `tool_calls`, without failed calls.

        If all values are DataFrames, they are concatenated into one, and the first level of its index, `call`, is the
        index in `tool_calls`. Saved files don't contain the values; after `load`, use `tool_calls["result_text"]`.

        >>> trace.results("load_sales").droplevel("call")                   # doctest: +SKIP
        """
        from nbagent.trace.views.tool_arguments import tool_results

        with self.recorder.lock:
            return tool_results(self.rows("tool_calls"), tool, self.recorder.results)

    def diff(self, run_a: str, run_b: str) -> pd.DataFrame:
        """Compare two runs: their messages, tool calls, models, tokens, cost, seconds and status.

        The result has one row per differing value. `table`, `column` and `place` (the row's position in the run, from
        0) locate the value, and `name` is the tool or role. `a` and `b` are the two values (None if a run has no such
        row). For numbers, `change` is their difference. A call or message that only one run has doesn't affect how the
        others are matched. Ids and timestamps are ignored. To compare runs of two traces, combine them with
        `Trace.concat`. Raises ConfigurationError for an unknown run.

        >>> trace.diff(*trace.runs["run_id"].tail(2))                       # doctest: +SKIP
        """
        from nbagent.trace.views.diff import diff

        return diff(self._rows_of(run_a), self._rows_of(run_b))

    def summary(self, by: str = "model") -> pd.DataFrame:
        """Summarise calls in one row for each `model`, `day` (local time), `tag` or `tool`.

        The columns are counts, tokens, dollars, and the median and 95th percentile of the seconds: `duration_p50_s`,
        `duration_p95_s`, `ttft_p50_s`, `ttft_p95_s`. Calls without a known cost add no dollars; `unpriced` counts them.
        `tokens_per_s` is the number of output tokens divided by the total seconds. Replayed calls are counted, but add
        no tokens, dollars or seconds. A call of a run with two tags counts towards both. The summary by `tool` has only
        the counts and durations of tool calls.

        >>> agent.trace.summary("model")[["calls", "cost_usd", "ttft_p95_s", "tokens_per_s"]]   # doctest: +SKIP
        """
        from nbagent.trace.views.summary_by import COLUMNS_READ, summary_by

        check_choice("by", by, COLUMNS_READ)
        return summary_by(by, {name: self._frame(name, wanted) for name, wanted in COLUMNS_READ[by].items()})

    def timeline(self, run_id: str | None = None, ax: Axes | None = None) -> Axes:
        """Plot when each model call and tool ran and how long it took, for one run or for all.

        The bars of tools that ran in parallel overlap in time. Pauses between runs are omitted, and a line separates
        the runs. The first row of a run is labelled with its prompt, and the others with the model or the tool call. If
        there are too many rows, calls of the same model or tool share rows. Runs that a tool call started are below the
        call, marked with `›`. Requires the `plot` extra.

        >>> agent.trace.timeline(result.run_id).figure.savefig("run.png")   # doctest: +SKIP
        """
        from nbagent.trace.views import timeline

        return timeline.draw(self.rows_with_children(run_id), ax)

    def tree(self, run_id: str | None = None) -> TraceTree:
        """Return a tree of one run, or of all, with their tool calls and the runs that these started.

        A notebook and `print` show the tree as text, and `.plot()` draws it. The requests, tokens and dollars of a line
        include all lines nested below it.

        >>> print(agent.trace.tree())                                       # doctest: +SKIP
        Which penguin is the heaviest?           ok · 3 requests · 612 tokens · $0.0021 · 2.1 s
        └─ research(question="Heaviest?")        ✓ · 1 request · 240 tokens · $0.0009 · 1.2 s
           └─ search(query="penguins by mass")   ✓ · 20 ms
        """
        from nbagent.trace.views.tree import TraceTree

        return TraceTree(self.rows_with_children(run_id), run_id)

    def rows_with_children(self, run_id: str | None = None) -> dict[str, list[Row]]:
        """Return copies of the rows of one run, or of all, and of the runs that their tools started, even in other
        agents.

        The tables are `runs`, `calls` and `tool_calls`. Raises ConfigurationError for an unknown run.
        """
        rows = rows_below(self.recorder, run_id, ("runs", "calls", "tool_calls"))
        if run_id is not None and not rows["runs"]:
            raise unknown_run(run_id)
        return rows

    def plot_usage(self, ax: Axes | None = None) -> Axes:
        """Plot the input and output tokens of each run.

        With up to 20 runs, the cost is shown above each bar, unless it is unknown or 0. Dollars in parentheses are the
        recorded cost of replayed answers, which was not paid again.
        """
        from nbagent.trace.views import plots

        return plots.plot_usage(self.usage, ax)

    def plot_tools(self, axes: Sequence[Axes] | None = None) -> list[Axes]:
        """Plot how often each tool was called and failed, and how long its calls took.

        The plot has two axes side by side. To use your own, pass two `axes`. Calls that never ran, because they were
        denied or had invalid arguments, count as failed and have no duration.
        """
        from nbagent.trace.views.plots import plot_tools
        from nbagent.trace.views.tool_stats import seconds_by_tool, tool_stats

        calls = self.tool_calls
        stats = tool_stats(calls).sort_values("calls", ascending=False, kind="stable")
        return plot_tools(stats, seconds_by_tool(calls), axes)

    def transcript(self, run_id: str | None = None) -> TraceTranscript:
        """Return the conversation of one run, or of all, message by message, with thinking, tool calls and costs.

        A notebook displays it as sanitised HTML; `print` shows plain text.

        >>> agent.trace.transcript(result.run_id)                           # doctest: +SKIP
        """
        from nbagent.trace.views.transcript import TraceTranscript

        return TraceTranscript(self._rows() if run_id is None else self._rows_of(run_id))

    def explore(self) -> Any:
        """Return a notebook widget to browse and filter runs, calls, tool calls, messages and blocks.

        This is the same as `nbagent.TraceExplorer(trace)`. Raises ConfigurationError unless a notebook has loaded
        nbagent.
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
        """The display in a notebook: totals of models, tools, tokens and cost."""
        from nbagent.core.render.key_values import key_values_html

        return key_values_html(self.summary_lines())

    def summary_lines(self) -> list[tuple[str, str]]:
        """The lines of the display in a notebook, each as a label and its text."""
        if not self.is_recording:
            return [("runs", _NOT_RECORDING)]
        with self.recorder.lock:
            return summary_lines(self.recorder.flush())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tables to a file that `Trace.load` and other tools can read. The suffix determines the format:

        - `.sqlite`: a SQLite database; times are Unix seconds
        - `.parquet`: a folder with one Parquet file per table; requires the `parquet` extra
        - `.jsonl`: one JSON object per line, `{"table": "runs", "row": {...}}`

        The file is written completely or not at all. It contains neither the values that tools returned nor `usage`,
        which is computed from `calls`. A run in progress is saved in its current state.
        """
        from nbagent.trace import files

        path = checked_path(path)
        if self.recorder.is_written_to(path.absolute()):
            raise invalid("path", str(path), "a file that the trace is not streamed to", "That file is up to date.")
        self._note_environment()
        with self.recorder.lock:
            files.save(self.recorder.flush(), path)

    def export(self, path: str | os.PathLike[str], run_ids: Iterable[str] | None = None) -> int:
        """Write runs as examples for fine-tuning, in OpenAI's chat format, and return the number of examples.

        Each line of the `.jsonl` file is a run: `{"messages": [...], "tools": [...]}`. The line contains the run's last
        request, including system prompt and tools, followed by the answer. Runs are omitted if their status is not
        `ok`, if their answer is empty, or if a call could never run because its tool name is invalid or its arguments
        are not a JSON object. Thinking and provider data are omitted. Images are kept in prompts; elsewhere, a
        description replaces them. `run_ids` selects runs, for example by their scores. Raises ConfigurationError if no
        run remains.

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
            raise ConfigurationError(
                "there is nothing to export: no run ended successfully, with an answer and valid tool calls. See "
                "trace.runs['status']."
            )
        write_text(path, "".join(lines))
        return len(lines)

    def to_notebook(
        self, run_ids: str | Iterable[str] | None = None, path: str | os.PathLike[str] | None = None
    ) -> dict[str, Any]:
        """Return the given runs, or all turns of the conversation, as the JSON of a notebook that works without the
        agent.

        With `path`, the notebook is also written to that file.

        Prompts and answers become text, and the code of `run_code` becomes cells without outputs. Your own tools can
        give equivalent code in their docstrings, after "In Python:", using the names of their parameters. Cells that a
        run added are exported in their final state. Other calls become text with their results. Failed calls are
        omitted, and so are calls that only read variables or cells, change or run existing cells, or update the plan.
        Raises ConfigurationError if a run is unknown or the file already exists.

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
                raise ConfigurationError(f"{str(path)!r} already exists. Name another file, or delete this one.")
            write_text(path, well_formed(json.dumps(notebook, indent=1, ensure_ascii=False)) + "\n")
        return notebook

    def stream_to(self, path: str | os.PathLike[str] | None) -> None:
        """Write the rows recorded so far to a `.sqlite` file, and add new rows after each turn. None stops this.

        The file can be read while it grows. After a crash, it contains the run up to its last finished turn. Several
        processes may write to the same file. A forked process starts an empty trace and must call `stream_to` itself.
        Raises ConfigurationError for a file with other content, which is not changed.

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
        """Return the trace from a saved file. Agents can continue recording into this trace.

        >>> Trace.load("monday.sqlite").runs                                # doctest: +SKIP
        """
        from nbagent.trace import files

        trace = cls(max_bytes=max_bytes)
        files.load(trace.recorder, checked_path(path))
        return trace

    @classmethod
    def concat(cls, traces: Iterable[Trace]) -> Trace:
        """Combine several traces, in the given order. If several contain the same run, the last one's rows are used.

        >>> Trace.concat([Trace.load(path) for path in sorted(folder.glob("*.sqlite"))]).usage      # doctest: +SKIP
        """
        every = list(traces)
        for trace in every:
            trace._note_environment()
        return cls._combined([(trace.recorder, None) for trace in every])

    def fork(self) -> Trace:
        """Return an empty trace with the same settings, for a fork of the agent.

        `with_children` includes the runs of the fork.
        """
        recorder = self.recorder
        trace = Trace(self.record_http, recorder.keep_results, recorder.max_bytes, is_recording=self.is_recording)
        trace.observers += self.observers
        recorder.forks.add(trace.recorder)
        return trace

    def with_children(self) -> Trace:
        """Return a trace that also has the runs of existing forks, and the runs that tools started in other agents.

        Forks and other agents have their own traces. The `parent_run_id` of a run is the run whose tool started it.
        Rows are in chronological order. `explore()` and the panel also show these runs. If no other trace is involved,
        this returns the trace itself.

        >>> agent.trace.with_children().runs[["prompt", "run_id", "parent_run_id"]]         # doctest: +SKIP
        """
        members = related_recorders(self.recorder)
        return self if len(members) == 1 else self._combined([*members.items()], by_time=True)

    @classmethod
    def _combined(cls, members: Sequence[tuple[Recorder, set[str] | None]], *, by_time: bool = False) -> Trace:
        made = cls()
        for name, rows in combined_rows(members).items():
            made.recorder.add_rows(name, sorted(rows, key=lambda row: row["ts"]) if by_time else rows)
        for recorder, _ in members:
            made.recorder.results.take(recorder.results)
        return made

    def to_otel(
        self,
        endpoint: str | None = None,
        *,
        capture_content: bool | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> Telemetry:
        """Send runs that start from now on, including runs of later forks, to OpenTelemetry.

        The data consists of the spans `invoke_agent`, `chat` and `execute_tool`, and metrics of tokens and seconds. The
        names follow the semantic conventions for generative AI.

        `endpoint`, which requires the `otel` extra, is the address of a collector that accepts OTLP over HTTP. Without
        an endpoint, data goes to the given providers, else to providers that the process has set up, else to the
        collector in OTEL_EXPORTER_OTLP_ENDPOINT. Message texts are omitted unless `capture_content` is true. If
        `capture_content` is None, the environment variable OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT decides.
        Call `stop()` on the result to stop sending.

        >>> agent.trace.to_otel("http://localhost:4318")                    # doctest: +SKIP
        """
        try:
            from nbagent.trace.export.otel import start_telemetry
        except ImportError:
            raise missing_extra("OpenTelemetry", "otel") from None
        return start_telemetry(self.observers, endpoint, capture_content, tracer_provider, meter_provider)

    def curl(self, index: int = -1) -> str:
        """Return a recorded HTTP request, by default the last one, as a shell command.

        The command reads keys from environment variables. Raises ConfigurationError if no request is recorded.

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
    """The error for a run id that is not in the trace."""
    return invalid("run_id", run_id, "the id of a run in this trace", "trace.runs['run_id'] lists them.")


_NOT_RECORDING = "nothing is recorded, since the agent was made with trace=False"
