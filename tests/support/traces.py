"""What can be asked of a trace, whatever stands in it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from nbagent import Trace
from nbagent.errors import NbagentError
from nbagent.trace.columns import COLUMNS


def use(trace: Trace, folder: Path) -> None:
    """Look at a trace in every way that costs little. Each shows something, or says with an nbagent error why not."""
    for name in COLUMNS:
        repr(getattr(trace, name))
    for view in ("summary", "timeline", "usage", "tools", "transcript"):
        trace.to_text(view)
    for name in ("f", *{row["name"] for row in trace.rows("tool_calls")} - {None}):
        trace.args(name)
    for by in ("model", "tag"):
        trace.summary(by)
    repr(trace)
    trace._repr_html_()
    trace.transcript()._repr_html_()
    ways = [trace.curl, lambda: trace.save_har(folder / "t.har"), lambda: trace.export(folder / "t.jsonl")]
    for run in [row["run_id"] for row in trace.rows("runs")][-1:]:
        ways += [partial(trace.run, run), partial(trace.diff, run, run)]
    for way in [*ways, *(partial(trace.request, row["call_id"]) for row in trace.rows("calls"))]:
        with suppress(NbagentError):
            way()
    Trace.concat([trace, Trace()])
