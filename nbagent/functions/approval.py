"""When a call waits for a person's yes, and what the answer was. In doubt it waits, and in doubt it was no."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from nbagent.core.messages import FunctionCall
from nbagent.errors import ConfigurationError
from nbagent.functions.introspection import is_async, signature_of
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.threads import in_thread

logger = logging.getLogger("nbagent")

#: `(call, definition) -> True`, a dict of edited arguments, or anything else for no; sync or async.
Approver = Callable[[FunctionCall, FunctionDefinition], Any]


def check_approver(approver: Any) -> None:
    """Raise ConfigurationError for what can't be asked: it would deny every call, and only the log would say why."""
    wanted = "a function of (call, definition) that returns True, a dict of edited arguments, or anything else for no"
    if approver is None:
        return
    if not callable(approver):
        raise ConfigurationError(
            f"approve={approver!r}: pass {wanted}. Which calls wait for it is said by tool(approve=True), or by "
            "agent.chat(..., approve_all=True)"
        )
    try:
        inspect.signature(approver).bind(None, None)
    except ValueError:  # a builtin that does not tell what it takes
        return
    except TypeError as error:
        raise ConfigurationError(
            f"approve={approver!r} can't be called with two arguments: {error}. Pass {wanted}"
        ) from None


#: Who is asked where an agent has no approver of its own: nobody, or one.
_default: list[Approver] = []


def ask_by_default(approver: Approver | None) -> None:
    """Who is asked where an agent has no approver of its own; None for nobody. A notebook asks the person at it."""
    _default[:] = [approver] if approver else []


def is_due(definition: FunctionDefinition, arguments: dict[str, Any]) -> bool:
    """Whether the tool wants approval for these arguments: `approve` says it for all, or is a policy that tells.

    A policy is called with those of the arguments, and of the tool's defaults, that it names.
    """
    policy = definition.approve
    if not callable(policy):
        return bool(policy)
    try:
        parameters = signature_of(definition.func).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        return bool(policy(**_named_by(policy, {**defaults, **arguments})))
    except Exception:
        logger.warning("the approve= policy of %s failed: approval is asked for", definition.name, exc_info=True)
        return True


def _named_by(policy: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Of the arguments those that the policy takes: `lambda path: …` needs not name all the others of its tool."""
    parameters = inspect.signature(policy).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return arguments
    return {p.name: arguments[p.name] for p in parameters if p.name in arguments}


async def answer_of(approver: Approver | None, call: FunctionCall, definition: FunctionDefinition) -> Any:
    """What the approver, or the default one, says; None, which is no yes, where there is none or it fails."""
    approver = approver or next(iter(_default), None)
    if approver is None:
        return None
    try:
        if is_async(approver):
            return await approver(call, definition)
        answer = await in_thread(approver, call, definition)
        return await answer if inspect.isawaitable(answer) else answer
    except asyncio.CancelledError:
        raise
    except BaseException:  # whatever happens while asking, it is no yes
        logger.warning("the approver of %s failed: denied", definition.name, exc_info=True)
        return None
