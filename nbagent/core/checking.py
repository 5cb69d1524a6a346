"""Checks the prompt before anything is sent, and the answer that would end a run.

A rejected prompt ends the run. A rejected answer goes back to the model with the reason. Users' checks are functions
that receive the text or the `output` value. If they have a second parameter, they also receive a `RunContext`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from nbagent.checks import invalid
from nbagent.core.results import AgentResult
from nbagent.core.run_context import RunContext
from nbagent.core.threads import run_in_thread
from nbagent.errors import AnswerRejectedError, ConfigurationError

#: How often the model may correct its answer within a run.
CORRECTIONS = 2
_CORRECT = """\
This answer is not accepted:
{reason}
Answer again. Do not mention this check."""

#: Returns True or None to pass, False to fail. Raising ValueError or AssertionError also fails, with its text as the
#: reason.
UserCheck = Callable[..., Any]


def reason_in(text: str) -> str:
    """Extract the reason from the text with which an answer was sent back: all but the first and last lines.

    >>> reason_in(_CORRECT.format(reason="Name your sources."))
    'Name your sources.'
    """
    return "\n".join(text.split("\n")[1:-1])


class SentBackError(Exception):
    """An answer failed a check. The text tells the model why. `error` ends the run when no corrections are left."""

    def __init__(self, text: str, error: Exception) -> None:
        super().__init__(text)
        self.error = error


class PromptRefusedError(Exception):
    """A guard refused a prompt. The text is the reason."""


#: Accepts the answer of a run, and may set `result.data`, or raises `SentBackError`.
AnswerCheck = Callable[[AgentResult, RunContext], Awaitable[None] | None]


def checked_functions(name: str, functions: Iterable[UserCheck]) -> list[UserCheck]:
    """Return the functions as a list. Raises ConfigurationError if a function can't be called with one or two
    arguments.
    """
    expected = "a list of functions of (text) or (text, context)"
    if not isinstance(functions, Iterable):
        raise invalid(name, functions, expected)
    listed = list(functions)
    for function in listed:
        try:
            number = _required(function)
        except (TypeError, ValueError):
            raise invalid(name, function, expected) from None
        if number not in (1, 2):
            raise invalid(name, function, expected, f"It takes {number} arguments.")
    return listed


def as_answer_check(function: UserCheck) -> AnswerCheck:
    """Convert a user's check to the form that the loop calls."""

    async def check(result: AgentResult, context: RunContext) -> None:
        value = result.content if result.data is None else result.data
        if (reason := await run_check(function, value, context)) is not None:
            text = f"The answer was rejected: {reason}\nThe model did not correct it."
            raise SentBackError(_CORRECT.format(reason=reason), AnswerRejectedError(text, answer=result.content))

    return check


async def run_check(function: UserCheck, value: Any, context: RunContext) -> str | None:
    """Run a check, in a thread if it is sync. Returns the reason if the text fails, or None if it passes."""
    arguments = (value, context)[: _required(function)]
    name = getattr(function, "__name__", repr(function)).replace("<lambda>", "a check")
    try:
        is_async = inspect.iscoroutinefunction(function)
        verdict = function(*arguments) if is_async else await run_in_thread(function, *arguments)
        verdict = await verdict if inspect.isawaitable(verdict) else verdict
    except (AssertionError, ValueError) as error:
        if isinstance(error, ConfigurationError):  # a mistake in the check's own code
            raise
        return str(error) or f"{name} fails"
    if verdict is False:
        return f"{name} fails"
    if verdict is None or verdict is True:
        return None
    fix = "To say why, raise ValueError('…')."
    raise invalid(f"{name}()", verdict, "True or None if the text passes, False if it does not", fix)


def _required(function: UserCheck) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return sum(each.kind in kinds and each.default is each.empty for each in parameters)
