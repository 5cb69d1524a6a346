"""Makes an agent a tool of another agent; the code behind `Agent.as_tool`.

The agent's run is a child of the run that calls the tool. The child shares its parent's budget and time, ends when the
parent is interrupted, and uses the parent's approver unless it has its own.
"""

from __future__ import annotations

import math
from typing import Any

from nbagent.checks import check_type
from nbagent.core.limits import Limits
from nbagent.core.results import AgentResult
from nbagent.functions.registry import FunctionDefinition, ToolOptions, check_options

#: The argument's description for the model.
_FRESH = "The question or task, with everything needed to do it: the agent knows nothing of this conversation."
_KEPT = "The question or task. The agent knows its earlier ones and their answers, but not this conversation."


def agent_tool(
    agent: Any,
    name: str,
    description: str,
    limits: Limits | None,
    keep_conversation: bool,
    options: ToolOptions,
) -> FunctionDefinition:
    """See `Agent.as_tool`."""
    check_type("limits", limits, Limits, optional=True, fix="Pass Limits(...).")
    check_type("keep_conversation", keep_conversation, bool)
    check_options(f"tool {name!r}", options)
    origin = {"source": "agent", "agent": name}

    async def ask(question: str) -> Any:
        asked = agent if keep_conversation else _without_history(agent)
        return _for_model(await asked.chat_stream(question, limits=limits, origin=origin).collect())

    ask.__doc__ = f"Ask.\n\nArgs:\n    question: {_KEPT if keep_conversation else _FRESH}"
    settings: Any = {"timeout": math.inf, **options}
    return FunctionDefinition(name, description, None, ask, source=f"agent:{name}", **settings)


def _without_history(agent: Any) -> Any:
    """A copy of the agent without its conversation, which records into the same trace."""
    other = agent.fork()
    other.clear_history()
    other.trace = agent.trace
    return other


def _for_model(result: AgentResult) -> Any:
    """The answer with its images, and the reason if it is incomplete."""
    text = result.content
    if result.status != "ok" and result.status_reason:
        text = f"{text}\n\n[{result.status}: {result.status_reason}]".lstrip()
    return [text, *result.images] if result.images else text
