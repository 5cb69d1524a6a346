"""A tool asks the person for something while it runs, through whoever approves calls: `await ask_person(Question(…))`.

An MCP server does so when it needs an answer, a choice or a consent in the middle of a call.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from nbagent.core.background import call_on_main
from nbagent.core.messages import FunctionCall
from nbagent.errors import ToolDeniedError
from nbagent.functions.approval import Approver, approver_of, ask_approver
from nbagent.functions.registry import FunctionDefinition


@dataclass(frozen=True, slots=True)
class Question(FunctionCall):
    """A question that an approver gets in the place of a call. `name` says who asks, `text` what.

    `arguments` are the answers so far, for the person to complete. `problem(answers)` says what is wrong with them;
    an empty text means nothing.
    """

    text: str = ""
    problem: Callable[[dict[str, Any]], str] = lambda answers: ""


@dataclass(frozen=True, slots=True)
class CallInProgress:
    """The call that a tool works on: where, and who may be asked meanwhile."""

    definition: FunctionDefinition
    approver: Approver | None
    loop: asyncio.AbstractEventLoop
    context: Context
    deadline: asyncio.Timeout

    @contextmanager
    def pause(self) -> Iterator[None]:
        """The person's time, in this block, does not count as the tool's."""
        when = self.deadline.when()
        left = None if when is None else when - self.loop.time()
        with suppress(RuntimeError):  # the call is over
            self.deadline.reschedule(None)
        try:
            yield
        finally:
            with suppress(RuntimeError):
                self.deadline.reschedule(None if left is None else self.loop.time() + left)


async def ask_person(question: Question, call: CallInProgress | None) -> dict[str, Any] | None:
    """The answers; None for a no, and if nobody can be asked. May be awaited on any event loop.

    The clock of the call stands still meanwhile. Answers that are not complete count as a no.
    """
    if call is None:
        return None
    asked = call.context.copy().run(asyncio.run_coroutine_threadsafe, _ask(question, call), call.loop)
    return await asyncio.wrap_future(asked)


async def agrees(asker: str, text: str, own: Approver | None) -> bool:
    """Whether whoever approves calls, or the person at the terminal, says yes. False, too, if nobody can be asked."""
    approver = approver_of(own)
    if approver is None:
        if sys.stdin is None or not sys.stdin.isatty():
            return False
        return (await call_on_main(partial(input, f"{text} [y/N] "))).strip().lower() in ("y", "yes")
    try:
        definition = FunctionDefinition(asker, text, None, agrees)
        return await ask_approver(approver, Question(asker, {}, text=text), definition) is not None
    except ToolDeniedError:
        return False


async def _ask(question: Question, call: CallInProgress) -> dict[str, Any] | None:
    definition = replace(call.definition, name=question.name)
    try:
        with call.pause():
            answer = await ask_approver(call.approver, question, definition)
    except ToolDeniedError:
        return None
    answers = answer if isinstance(answer, dict) else question.arguments if answer else None
    return None if answers is None or question.problem(answers) else answers
