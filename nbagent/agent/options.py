"""`Agent`'s keyword arguments, for functions that pass them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from nbagent.core.budget import Budget
from nbagent.core.checking import UserCheck
from nbagent.core.history.history import ContextManager
from nbagent.core.limits import Limits
from nbagent.core.messages import FunctionCall
from nbagent.functions.live import ToolsInput
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.trace.trace import Trace

Approve = Callable[[FunctionCall, FunctionDefinition], Any]


class AgentOptions(TypedDict, total=False):
    """`Agent`'s keyword arguments besides `provider`."""

    function_registry: FunctionRegistry | None
    system_prompt: str | None
    tools: ToolsInput | None
    context: ContextManager | None
    limits: Limits | None
    budget: Budget | None
    trace: Trace | Literal[False] | None
    approve: Approve | None
    tool_tracebacks: bool
    validators: Sequence[UserCheck]
    guards: Sequence[UserCheck]
    plan: bool | Literal["first"]
    approve_plan: bool
