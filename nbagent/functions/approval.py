"""When a call waits for a person's yes, and what the answer was. In doubt it waits, and in doubt it was no."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from nbagent.core.messages import FunctionCall
from nbagent.errors import ConfigurationError, ToolDeniedError
from nbagent.functions.formatting import short_repr
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.schema.introspection import is_async, signature_of
from nbagent.functions.threads import in_thread

logger = logging.getLogger("nbagent")

_NOBODY = (
    "The call needs approval, and nobody can be asked here (Agent(approve=...) says who). Do not repeat it as it is; "
    "tell the user."
)

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


def set_default_approver(approver: Approver | None) -> None:
    """Who is asked where an agent has no approver of its own; None for nobody. A notebook asks the person at it."""
    _default[:] = [approver] if approver else []


async def is_due(definition: FunctionDefinition, arguments: dict[str, Any]) -> bool:
    """Whether the tool wants approval for these arguments: `approve` says it for all, or is a policy that tells.

    A policy, sync or async, is called with those of the arguments, and of the tool's defaults, that it names.
    """
    policy = definition.approve
    if not callable(policy):
        return bool(policy)
    try:
        parameters = signature_of(definition.func).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        wanted = policy(**_named_by(policy, {**defaults, **arguments}))
        return bool(await wanted if inspect.isawaitable(wanted) else wanted)
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
    """What the approver, or the default one, says: True, a dict of edited arguments, or None for no.

    Raises ToolDeniedError where there is none to ask; an approver may raise one of its own, to say why it denies.
    """
    approver = approver or next(iter(_default), None)
    if approver is None:
        raise ToolDeniedError(_NOBODY, tool=definition.name)
    try:
        answer = await (approver(call, definition) if is_async(approver) else in_thread(approver, call, definition))
        answer = await answer if inspect.isawaitable(answer) else answer
    except (asyncio.CancelledError, ToolDeniedError):
        raise
    except BaseException:  # whatever happens while asking, it is no yes
        logger.warning("the approver of %s failed: denied", definition.name, exc_info=True)
        return None
    if answer is True or isinstance(answer, dict):
        return answer
    if answer is not None and answer is not False:
        said = f"{type(answer).__name__} {short_repr(answer):.60}"
        logger.warning("the approver of %s said %s: denied, for only True approves", definition.name, said)
    return None
