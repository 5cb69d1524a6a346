"""`TraceExplorer`: a trace as a table with filters, and the details of the selected row.

The table is the itables widget (DataTables). It includes its script, so the page loads nothing from other servers. In
the table, text from models and tools is shortened and escaped. The details look like answers in cells.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from nbagent.chat.cell_link import cell_link
from nbagent.chat.look import PANEL_STYLE
from nbagent.core.background import background_loop
from nbagent.core.messages import well_formed
from nbagent.core.render import markdown as render
from nbagent.errors import missing_extra
from nbagent.notebook.display.answer_buttons import answer_buttons
from nbagent.text import shortened
from nbagent.trace.rows import as_json
from nbagent.trace.scores import texts_by_target
from nbagent.trace.trace import Trace
from nbagent.trace.views.search import TABLES, Search
from nbagent.trace.views.summary_by import local_days
from nbagent.trace.views.transcript import TraceTranscript

#: The most characters of a value in the table, and the most rows.
MAX_CHARS, MAX_ROWS = 100, 1_000
#: The columns of each table that are shown, with their labels. `_RARE` ones are shown only if they have a value.
COLUMNS: dict[str, dict[str, str]] = {
    "runs": {
        "prompt": "prompt", "output": "output", "cell": "cell", "time": "time", "model": "model", "status": "status",
        "n_calls": "calls", "n_tool_calls": "tools", "input_tokens": "in", "output_tokens": "out", "cost_usd": "$",
        "duration_s": "s", "part_of": "part of", "tags": "tags", "scores": "scores",
    },
    "calls": {
        "model": "model", "cell": "cell", "time": "time", "finish_reason": "finish", "input_tokens": "in",
        "output_tokens": "out", "cost_usd": "$", "duration_s": "s", "error_type": "error", "scores": "scores",
    },
    "tool_calls": {
        "name": "tool", "args": "arguments", "result_text": "result", "error_type": "error", "cell": "cell",
        "time": "time", "duration_s": "s", "scores": "scores",
    },
    "messages": {"role": "role", "text": "text", "n_blocks": "blocks"},
    "blocks": {"type": "kind", "name": "tool", "text": "text", "chars": "characters"},
}  # fmt: skip
_RARE = ("part_of", "tags", "scores")
#: The columns that link scores to rows.
_SCORED = {"runs": "run_id", "calls": "call_id", "tool_calls": "tool_call_id"}
#: Columns whose text gets its own block.
_TEXTS = (
    "text", "args", "args_sent", "args_repaired", "args_raw", "result_text", "validation_error", "error_message",
    "traceback", "params", "usage_raw", "provider_data",
)  # fmt: skip
#: The table's options. They are passed with each update, or else the user's own defaults for itables would apply.
_OPTIONS: dict[str, Any] = {
    "allow_html": False, "select": {"style": "single", "keys": True}, "showIndex": False,
    "maxBytes": 0, "maxRows": 0, "pageLength": 10,
    "lengthMenu": [10, 25, 100], "classes": "compact hover", "style": "table-layout:auto;width:100%;margin:0",
    "layout": {"topStart": None, "topEnd": None, "bottomStart": "info", "bottomEnd": "paging"},
}  # fmt: skip
#: The choice that switches a filter off.
ANY = ""
_STYLE = render.style_html(Path(__file__).with_name("explorer.css"))


class TraceExplorer(widgets.VBox):
    """Explore a trace: its runs, model calls, tool calls, messages and blocks.

    Filter by run, tool, kind of block, failure and text. A click on a row shows its details below the table. For a run,
    the details are the whole conversation. In JupyterLab and Notebook 7, a button jumps to the row's cell. `Refresh`
    reads the trace again. The runs of forks and subagents are included. The explorer needs the `explore` extra.

    >>> agent.trace.explore()                                               # doctest: +SKIP
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = self._read = trace
        self._table = _empty_table()
        self._tables: dict[str, Any] = {}
        self._found: Any = None
        self._is_refreshing = False  # several filters change at a time
        self._make()
        super().__init__([widgets.HTML(PANEL_STYLE + _STYLE), self._bar, self._filters, self._table, self._detail])
        self.add_class("nbagent-panel").add_class("nbagent-explore")
        background_loop().call_soon_threadsafe(answer_buttons)  # its script also makes the keyboard work here
        self.refresh()
        for widget in (self._tabs, self._run, self._tool, self._kind, self._errors, self._text):
            widget.observe(lambda _: self._search(), "value")
        self._refresh_button.on_click(lambda _: self.refresh())
        self._table.observe(lambda _: self._show_details(), "selected_rows")

    def _make(self) -> None:
        tabs = widgets.ToggleButtons(options=[(name.replace("_", " "), name) for name in TABLES])
        self._tabs = tabs.add_class("nbagent-tabs")
        self._count = widgets.HTML()
        self._bar = widgets.HBox([self._tabs, self._count]).add_class("nbagent-top")
        self._run, self._tool, self._kind = (
            widgets.Dropdown(options=[("", ANY)], description=what) for what in ("Run", "Tool", "Kind of block")
        )
        self._errors = widgets.ToggleButton(description="Failed", tooltip="Only what failed")
        self._text = widgets.Text(
            placeholder="Search the texts", description="Search the texts", continuous_update=False
        )
        self._refresh_button = widgets.Button(description="Refresh", tooltip="Read the trace again")
        self._text.add_class("nbagent-search")
        filters = [self._run, self._tool, self._kind, self._errors, self._text, self._refresh_button]
        self._filters = widgets.HBox(filters).add_class("nbagent-filters")
        self._detail = widgets.HTML().add_class("nbagent-detail")

    def refresh(self) -> None:
        """Read the trace again. Filters keep their values if they still occur in the trace."""
        self._read = trace = self.trace.with_children()
        self._tables = {name: getattr(trace, name) for name in TABLES}
        runs, scores = self._tables["runs"], texts_by_target(trace.rows("scores"))
        models = self._tables["calls"].groupby("run_id")["model"].agg(lambda names: ", ".join(names.dropna().unique()))
        cells = dict(zip(runs["run_id"], runs["execution_count"].map("[{}]".format, na_action="ignore"), strict=True))
        tags = runs["tags"].map(_tags, na_action="ignore")
        part_of = runs["parent_run_id"].map(dict(zip(runs["run_id"], runs["prompt"], strict=True)))
        self._tables["runs"] = runs.assign(tags=tags, model=runs["run_id"].map(models), part_of=part_of)
        for name, column in _SCORED.items():
            table = self._tables[name]
            about = {"cell": table["run_id"].map(cells), "time": _times(table["started"])}
            self._tables[name] = table.assign(**about, scores=table[column].map(scores))
        runs, calls, blocks = (self._tables[name] for name in ("runs", "tool_calls", "blocks"))
        prompts = zip(runs["prompt"].fillna(""), runs["run_id"], strict=True)
        asked = [(f"{number} · {_line(prompt, 40)}", run_id) for number, (prompt, run_id) in enumerate(prompts, 1)]
        self._is_refreshing = True
        _set_options(self._run, "all runs", asked)
        _set_options(self._tool, "all tools", [(_line(name, 40), name) for name in calls["name"].dropna().unique()])
        _set_options(self._kind, "all kinds", [(kind, kind) for kind in blocks["type"].dropna().unique()])
        self._is_refreshing = False
        self._search()

    def _search(self) -> None:
        """Show the matching rows, or the newest of them if there are too many."""
        if self._is_refreshing:
            return
        name = self._tabs.value
        wanted = (self._run.value, self._tool.value, self._kind.value, self._errors.value, self._text.value.strip())
        found, total = Search(*wanted).rows(self._tables, name), len(self._tables[name])
        self._found = found.tail(MAX_ROWS)
        count = f"{len(found):,} of {total:,}" if len(found) < total else f"{total:,}"
        more = f", the newest {MAX_ROWS:,} shown" if len(found) > MAX_ROWS else ""
        self._count.value = f'<div class="nbagent-status">{count} {name.replace("_", " ")}{more}</div>'
        self._detail.value = ""
        self._table.update(self._shown(), **_OPTIONS, selected_rows=[])

    def _shown(self) -> Any:
        """The matching rows as texts."""
        every = self._tables[self._tabs.value]
        columns = COLUMNS[self._tabs.value].items()
        known = {name: label for name, label in columns if name not in _RARE or every[name].notna().any()}
        return _as_texts(self._found, known)

    def _show_details(self) -> None:
        selected, self._detail.value = self._table.selected_rows, ""
        if selected and self._found is not None and selected[0] < len(self._found):
            row = {str(name): value for name, value in self._found.iloc[selected[0]].items()}
            run = next((each for each in self._read.rows("runs") if each["run_id"] == row["run_id"]), {})
            self._detail.value = render.output_html(cell_link(run) + self._details(self._tabs.value, row))

    def _details(self, name: str, row: Mapping[str, Any]) -> str:
        """A row as HTML: a run or a call as a conversation, other rows as their columns."""
        if name == "runs":
            return self._read.transcript(row["run_id"]).html()
        if name == "calls":
            rows = {each: self._read.rows(each) for each in (*TABLES, "scores")}
            rows["messages"] = [each for each in rows["messages"] if each["call_id"] == row["call_id"]]
            return TraceTranscript(rows).html() + row_html(row)
        return row_html(row)

    def __repr__(self) -> str:
        return f"TraceExplorer({self.trace!r})"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """The widget, and the current table for readers without a kernel."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options) or {}
        shown = self._shown().tail(20)
        table = shown.to_html(escape=True, index=False, border=0)
        return {
            **bundle,
            "text/html": render.output_html(table),
            "text/plain": f"{self!r}\n\n{shown.to_string(index=False)}",
        }


def row_html(row: Mapping[str, Any]) -> str:
    """The non-empty columns of a row as HTML: texts first, then short values, then ids."""
    known = {name: text for name, value in row.items() if (text := _text(value))}
    texts = "".join(render.labelled_html(name, known.pop(name)) for name in _TEXTS if name in known)
    ids = {name: known.pop(name) for name in list(known) if name.endswith("_id") or name == "parallel_group"}
    return f'<div class="nbagent-body" style="border: 0; padding-left: 0">{texts}</div>{_grid(known)}{_grid(ids)}'


def _grid(values: Mapping[str, str]) -> str:
    cells = "".join(
        f"<div><small>{render.escape(name)}</small><br>{render.escape(text)}</div>" for name, text in values.items()
    )
    return f'<div class="nbagent-facts">{cells}</div>' if cells else ""


def _empty_table() -> Any:
    try:
        from itables.widget import ITable
    except ImportError:
        raise missing_extra("The explorer", "explore") from None
    import pandas as pd

    return ITable(pd.DataFrame({" ": []}), **_OPTIONS)


def _set_options(box: Any, anything: str, options: Sequence[tuple[str, Any]]) -> None:
    """Set the choices of a dropdown, and keep the chosen one if it still exists."""
    before = box.value
    box.options = [(anything, ANY), *options]
    box.value = before if before in [value for _, value in options] else ANY


def _as_texts(frame: Any, columns: Mapping[str, str]) -> Any:
    """The columns as short plain texts, because the table must not format values itself."""
    import pandas as pd

    texts = {label: [_line(_text(value), MAX_CHARS) for value in frame[name]] for name, label in columns.items()}
    return pd.DataFrame(texts, columns=list(columns.values()), dtype=object)


def _text(value: Any) -> str:
    """A value for people; `""` for a missing one."""
    import pandas as pd

    if isinstance(value, dict):
        return as_json(value)
    if pd.isna(value):
        return ""
    if hasattr(value, "isoformat"):
        return str(value.isoformat(" ", "milliseconds"))
    if not isinstance(value, Real):
        return well_formed(str(value))
    return f"{value:,}" if isinstance(value, Integral) else f"{value:,.4f}"


def _times(times: Any) -> Any:
    """Times in the zone of this machine, as text; with the day if there are several."""
    form = "%H:%M:%S" if local_days(times).nunique() < 2 else "%Y-%m-%d %H:%M:%S"
    return times.map(lambda time: time.to_pydatetime().astimezone().strftime(form), na_action="ignore")


def _tags(text: str) -> str:
    """A JSON array of tags for people."""
    return ", ".join(json.loads(text))


def _line(text: str, limit: int) -> str:
    """The text on one line, shortened."""
    return shortened(" ".join(text[: 2 * limit].split()), limit)
