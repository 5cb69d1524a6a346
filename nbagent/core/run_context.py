"""`RunContext`: a tool's view of the run that called the tool, with a method to report progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nbagent.checks import check_number, invalid
from nbagent.core.tool_output import ToolOutput


@dataclass(frozen=True, slots=True)
class RunContext:
    """A tool's view of its run. If a tool has a parameter with this annotation, nbagent fills it in and hides it from
    the model.

    - `run_id`, `call_id`, `tool_call_id`: as in the tables of `agent.trace`
    - `tool_name`: the tool's name, as the model called it
    - `step`: the number of the model's request in this run, from 1
    - `attempt`: 1 for the first attempt at this call, 2 for the first retry (`tool(retries=…)`) and so on
    - `source`, `agent_name`: the caller, as in `trace.runs`. `source` is "magic", "panel" or "python", and `agent_name`
      is the name of the agent's variable. If another agent called this agent as a tool, they are "agent" and the name
      of that tool
    - `cell_id`, `execution_count`: the notebook cell of the prompt, if there is one
    - `agent`: the `Agent`, with its conversation and its trace
    - `deps`: the value of `chat(..., deps=…)`, or else `agent.deps`. It can be any object, such as a connection, the
      user or settings. It stays in this process and never reaches a model, trace, file or `repr`.

    If `ToolExecutor.execute` calls the tool outside a run, all fields except `tool_name` and `attempt` are None.

    >>> from nbagent import RunContext, tool
    >>> @tool
    ... def orders(customer: str, run: RunContext) -> list[str]:
    ...     "The orders of a customer."
    ...     return run.deps["database"].orders(customer)
    >>> agent.chat_sync("What did Ada order?", deps={"database": database})     # doctest: +SKIP
    """

    run_id: str | None = None
    call_id: str | None = None
    tool_call_id: str | None = None
    tool_name: str = ""
    step: int | None = None
    attempt: int = 1
    source: str | None = None
    agent_name: str | None = None
    cell_id: str | None = None
    execution_count: int | None = None
    #: An `Agent`, a type that this layer does not know.
    agent: Any = field(default=None, repr=False, compare=False)
    deps: Any = field(default=None, repr=False, compare=False)
    #: Receives the tool's progress reports.
    output: ToolOutput | None = field(default=None, repr=False, compare=False)

    def report(self, progress: float | str) -> None:
        """Show the call's progress to the user, but not to the model.

        `progress` is a number from 0 to 1, or text such as "page 3 of 8". Cells and panels show it with the call, and a
        number is shown as a bar. In streams and `trace.events`, it is a `tool_progress` event; there are at most ten of
        these a second. This method can be called from any thread. It does nothing after the call has ended, or outside
        runs.

        >>> RunContext().report(0.4)
        """
        if not isinstance(progress, str):
            fix = "Pass the fraction that is done, such as 0.4, or a string."
            check_number("report()", progress, minimum=0, fix=fix)
            if progress > 1:
                raise invalid("report()", progress, "a number from 0 to 1, or a string", fix)
        if self.output is not None:
            self.output.report(progress)
