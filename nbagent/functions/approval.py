"""Decides whether a call needs a person's approval, and asks for it.

If the tool's `approve` function fails, the person is asked. If asking fails, the call is denied.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbagent.checks import invalid
from nbagent.core.current import current
from nbagent.core.messages import FunctionCall
from nbagent.core.threads import run_in_thread
from nbagent.errors import ToolDeniedError
from nbagent.functions.allowances import Allow
from nbagent.functions.formatting import short_repr
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.schema.introspection import is_async, signature_of
from nbagent.text import shortened

logger = logging.getLogger("nbagent")

_NO_APPROVER = (
    "The call needs approval, but nobody can be asked here (set an approver with Agent(approve=...)). Do not repeat "
    "the call unchanged; tell the user."
)

#: Called with `(call, definition)`, sync or async. Returns True, an `Allow` or a dict of edited arguments to approve;
#: anything else denies the call.
Approver = Callable[[FunctionCall, FunctionDefinition], Any]


def check_approver(approver: Any) -> None:
    """Raise ConfigurationError if the approver can't be called. Such an approver would deny every call."""
    if approver is None:
        return
    expected = "a function of (call, definition) that returns True, a dict of edited arguments, or False to deny"
    if not callable(approver):
        fix = "To choose which calls need approval, use tool(approve=True) or agent.chat(..., approve_all=True)."
        raise invalid("approve", approver, expected, fix)
    try:
        inspect.signature(approver).bind(None, None)
    except ValueError:  # a builtin without a signature
        return
    except TypeError as error:
        raise invalid("approve", approver, expected, f"It can't be called with two arguments: {error}.") from None


#: At most one: the approver for agents without their own.
_default: list[Approver] = []


def set_default_approver(approver: Approver | None) -> None:
    """Set the approver for agents that have none of their own; None removes it.

    In a notebook, the default approver asks the user.
    """
    _default[:] = [approver] if approver else []


def offer_default_approver(approver: Approver) -> None:
    """Set the approver for agents that have none of their own, unless one is already set."""
    _default[:] = _default or [approver]


def approver_of(own: Approver | None) -> Approver | None:
    """The approver to ask. This is the agent's own, or else the approver from the enclosing run, panel or cell, or else
    the default.

    If the enclosing run has `approve_all`, its approver comes first.
    """
    state = current.get()
    enclosing = state.approver or next(iter(_default), None)
    return enclosing if state.approves_all else own or enclosing


async def needs_approval(definition: FunctionDefinition, arguments: dict[str, Any]) -> bool:
    """Whether a call with these arguments needs approval, according to the tool's `approve`.

    If `approve` is a sync or async function, it receives the call's arguments that match its parameters. Missing
    arguments take the tool's defaults.
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
        logger.warning("approve= of %s failed, so the call needs approval", definition.name, exc_info=True)
        return True


def outside(folder: str | os.PathLike[str], parameter: str = "path") -> Callable[..., bool]:
    """A policy for `tool(approve=…)` that asks unless the path in the tool's argument `parameter` is inside `folder`.

    `..` and links are resolved, so `/tmp/../etc/passwd` is outside `/tmp`. Relative paths are resolved from the working
    directory. A missing path also needs approval.

    >>> needs_approval = outside("/tmp")
    >>> needs_approval(path="/tmp/../etc/passwd"), needs_approval(path="/tmp/a.txt"), needs_approval(path=None)
    (True, False, True)
    """
    root = Path(folder).expanduser().resolve()

    def is_outside(**arguments: Any) -> bool:
        path = arguments.get(parameter)
        if not isinstance(path, (str, os.PathLike)) or str(path).startswith("~"):  # the tool may expand it
            return True
        return not Path(path).resolve().is_relative_to(root)

    return is_outside


async def ask_approver(approver: Approver | None, call: FunctionCall, definition: FunctionDefinition) -> Any:
    """Return the approver's decision: True, an `Allow`, a dict of edited arguments, or None to deny.

    Raises ToolDeniedError if there is nobody to ask. An approver may also raise this error, with a reason.
    """
    if approver is None:
        raise ToolDeniedError(_NO_APPROVER, tool=definition.name)
    try:
        answer = await (approver(call, definition) if is_async(approver) else run_in_thread(approver, call, definition))
        answer = await answer if inspect.isawaitable(answer) else answer
    except (asyncio.CancelledError, ToolDeniedError):
        raise
    except BaseException:  # whatever was raised, nobody approved
        logger.warning("the approver of %s failed, so the call is denied", definition.name, exc_info=True)
        return None
    if answer is True or isinstance(answer, Allow | dict):
        return answer
    if answer is not None and answer is not False:
        got = f"{type(answer).__name__} {shortened(short_repr(answer), 60)}"
        logger.warning("the approver of %s returned %s: denied, since only True approves", definition.name, got)
    return None
