"""Decides when a call needs a person's approval, and asks for it. In doubt it asks, and in doubt the answer is no."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from nbagent.checks import invalid
from nbagent.core.messages import FunctionCall
from nbagent.core.threads import run_in_thread
from nbagent.errors import ToolDeniedError
from nbagent.functions.formatting import safe_repr
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.schema.introspection import is_async, signature_of
from nbagent.text import shortened

logger = logging.getLogger("nbagent")

_NO_APPROVER = (
    "The call needs approval, but nobody can be asked here (set an approver with Agent(approve=...)). Do not repeat "
    "the call as it is; tell the user."
)

#: `(call, definition) -> True`, a dict of edited arguments, or anything else for no; sync or async.
Approver = Callable[[FunctionCall, FunctionDefinition], Any]


def check_approver(approver: Any) -> None:
    """Raise ConfigurationError for an approver that can't be called: it would deny every call, and only log why."""
    if approver is None:
        return
    expected = "a function of (call, definition) that returns True, a dict of edited arguments, or anything else for no"
    if not callable(approver):
        fix = "To choose which calls need approval, use tool(approve=True) or agent.chat(..., approve_all=True)."
        raise invalid("approve", approver, expected, fix)
    try:
        inspect.signature(approver).bind(None, None)
    except ValueError:  # a builtin without a signature
        return
    except TypeError as error:
        raise invalid("approve", approver, expected, f"It can't be called with two arguments: {error}.") from None


#: The approver of agents without one of their own: none or one.
_default: list[Approver] = []


def set_default_approver(approver: Approver | None) -> None:
    """Set who is asked if an agent has no approver of its own; None for nobody. A notebook asks its user."""
    _default[:] = [approver] if approver else []


async def needs_approval(definition: FunctionDefinition, arguments: dict[str, Any]) -> bool:
    """Whether a call with these arguments needs approval, by the tool's `approve`: a bool, or a function that decides.

    Such a function, sync or async, gets those of the arguments and of the tool's defaults that it names.
    """
    policy = definition.approve
    if not callable(policy):
        return policy
    try:
        tool_parameters = signature_of(definition.func).parameters.values()
        arguments = {p.name: p.default for p in tool_parameters if p.default is not p.empty} | arguments
        parameters = inspect.signature(policy).parameters.values()
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            arguments = {p.name: arguments[p.name] for p in parameters if p.name in arguments}
        needed = policy(**arguments)
        return bool(await needed if inspect.isawaitable(needed) else needed)
    except Exception:
        logger.warning("approve= of %s failed, so approval is asked for", definition.name, exc_info=True)
        return True


async def ask_approver(approver: Approver | None, call: FunctionCall, definition: FunctionDefinition) -> Any:
    """The answer of the approver, or of the default one: True, a dict of edited arguments, or None for no.

    Raises ToolDeniedError if there is nobody to ask. An approver may raise one itself, to say why it denies.
    """
    approver = approver or next(iter(_default), None)
    if approver is None:
        raise ToolDeniedError(_NO_APPROVER, tool=definition.name)
    try:
        answer = await (approver(call, definition) if is_async(approver) else run_in_thread(approver, call, definition))
        answer = await answer if inspect.isawaitable(answer) else answer
    except (asyncio.CancelledError, ToolDeniedError):
        raise
    except BaseException:  # whatever happened, nobody said yes
        logger.warning("the approver of %s failed, so the call is denied", definition.name, exc_info=True)
        return None
    if answer is True or isinstance(answer, dict):
        return answer
    if answer is not None and answer is not False:
        got = f"{type(answer).__name__} {shortened(safe_repr(answer), 60)}"
        logger.warning("the approver of %s returned %s: denied, since only True approves", definition.name, got)
    return None
