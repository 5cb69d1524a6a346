"""What can be asked of a trace, whatever stands in it."""

from __future__ import annotations

from contextlib import suppress
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
    runs = [row["run_id"] for row in trace.rows("runs")][-1:]
    for run in runs:
        with suppress(NbagentError):
            trace.run(run)
        with suppress(NbagentError):
            trace.diff(run, run)
    for call in [row["call_id"] for row in trace.rows("calls")]:
        with suppress(NbagentError):
            trace.request(call)
    with suppress(NbagentError):
        trace.curl()
    with suppress(NbagentError):
        trace.save_har(folder / "t.har")
    with suppress(NbagentError):
        trace.export(folder / "t.jsonl")
    Trace.concat([trace, Trace()])
