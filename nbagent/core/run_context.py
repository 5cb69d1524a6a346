"""`RunContext`: what a tool may know of the run that called it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from nbagent.core.messages import LLMMessage


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a tool may know of its run. A parameter with this annotation is filled in, and the model is not told of it.

    - `run_id`, `call_id`, `tool_call_id`: as in the tables of `agent.trace`
    - `tool_name`: the name that the model called
    - `step`: the number of the model's request in this run, from 1
    - `attempt`: 1, and one more for each retry of this call (`tool(retries=…)`)
    - `source`, `agent`: who asked, as in `trace.runs`: "cell", "panel", "python", and the agent's variable
    - `cell_id`, `execution_count`: the notebook cell that asked, if one did

    If a program calls the tool, by `ToolExecutor.execute` outside of a run, all but `tool_name` and `attempt` are None.

    >>> from nbagent import RunContext, tool
    >>> @tool
    ... def note(text: str, run: RunContext) -> str:
    ...     "Write a note."
    ...     return f"{run.run_id}: {text}"
    """

    run_id: str | None = None
    call_id: str | None = None
    tool_call_id: str | None = None
    tool_name: str = ""
    step: int | None = None
    attempt: int = 1
    source: str | None = None
    agent: str | None = None
    cell_id: str | None = None
    execution_count: int | None = None


_OUTSIDE_OF_RUNS = RunContext()

#: Of the tool call that the current code belongs to. A run sets it, and the executor completes it.
current_call: ContextVar[RunContext] = ContextVar("nbagent_current_call", default=_OUTSIDE_OF_RUNS)
#: The messages of the conversation that the current tool call belongs to, as they are now.
current_history: ContextVar[Sequence[LLMMessage]] = ContextVar("nbagent_current_history", default=())
