"""Lets a running tool ask the user, through the approver: `await ask_person(Question(…))`.

MCP servers use this when they need an answer, a choice or consent during a call.
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
    """A question that an approver receives instead of a call. `name` says who is asking, and `text` is the question.

    `arguments` contains the answers so far, which the person completes. `problem(answers)` describes an error in the
    answers, or returns "".
    """

    text: str = ""
    problem: Callable[[dict[str, Any]], str] = lambda answers: ""


@dataclass(frozen=True, slots=True)
class CallInProgress:
    """A tool call that is running: its event loop, its deadline, and the approver to ask."""

    definition: FunctionDefinition
    approver: Approver | None
    loop: asyncio.AbstractEventLoop
    context: Context
    deadline: asyncio.Timeout

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause the call's time limit while the user answers."""
        when = self.deadline.when()
        left = None if when is None else when - self.loop.time()
        with suppress(RuntimeError):  # the call has ended
            self.deadline.reschedule(None)
        try:
            yield
        finally:
            with suppress(RuntimeError):
                self.deadline.reschedule(None if left is None else self.loop.time() + left)


async def ask_person(question: Question, call: CallInProgress | None) -> dict[str, Any] | None:
    """Return the user's answers, or None if the user refuses or there is nobody to ask. Works on any event loop.

    The call's time limit is paused while the user answers. Incomplete answers count as a refusal.
    """
    if call is None:
        return None
    asked = call.context.copy().run(asyncio.run_coroutine_threadsafe, _ask(question, call), call.loop)
    return await asyncio.wrap_future(asked)


async def agrees(asker: str, text: str, own: Approver | None) -> bool:
    """Ask the approver, or the user at the terminal, and return whether they agree. False if there is nobody to ask."""
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
