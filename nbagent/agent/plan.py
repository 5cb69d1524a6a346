"""Plans: the model writes a list of steps, keeps it up to date while it works, and sees it in each request.

A conversation's plan is the result of the last `update_plan` call in its history. Each branch, fork and saved
conversation therefore has its own plan, and undoing a turn restores the previous plan. This module keeps
only newer changes, which are not in the history yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args
from weakref import WeakKeyDictionary

from nbagent.checks import check_choice, check_type
from nbagent.core.current import current
from nbagent.core.events import ToolResult
from nbagent.core.history.history import ContextManager
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError, ToolError
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.toolset import Toolset
from nbagent.text import shortened

if TYPE_CHECKING:
    from pandas import DataFrame

UPDATE_PLAN = "update_plan"
#: The maximum number of steps in a plan, and of characters in a step or a note.
MAX_STEPS, MAX_CHARS = 50, 300
StepStatus = Literal["pending", "doing", "done", "dropped"]
STATUSES: tuple[StepStatus, ...] = get_args(StepStatus)
_OPEN = ("pending", "doing")
_STEP = re.compile(rf"^\d+\. \[({'|'.join(STATUSES)})\] (.+)(?:\n   note: (.+))?$", re.MULTILINE)

_TOOL = """\
Write or update the plan: pass all of its steps, in order. Call this again whenever a step starts, is done or fails. \
Exactly one step is "doing" until all are "done" or "dropped". If a step fails, drop it, say why in its note, and add \
the steps that replace it."""
_INSTRUCTIONS = {
    False: f"For a task with several steps, first write a plan with {UPDATE_PLAN}, then follow it.",
    True: f"""\
Follow a plan. First write one with {UPDATE_PLAN}: a few steps, each with a result that can be checked. Other tools \
work only while a step is open. Do one step at a time, and write its result in its note. If a step fails, change the \
plan. At the end, answer from the results of the steps, and say what was dropped.""",
}
_EDITED = "The user has changed the plan. Follow it as it is now."


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan. `note` is the step's result, or the reason it was dropped."""

    step: str
    status: StepStatus = "pending"
    note: str = ""


def read_plan(text: str) -> list[Step]:
    """Return the steps in a result of `update_plan`, or an empty list for any other text.

    >>> read_plan("1. [done] Load the data\\n2. [doing] Plot it")
    [Step(step='Load the data', status='done', note=''), Step(step='Plot it', status='doing', note='')]
    """
    found: list[Any] = _STEP.findall(text)
    return [Step(step, status, note) for status, step, note in found]


def plan_in(result: ToolResult) -> list[Step]:
    """Return the plan that a call wrote, or an empty list if the call failed or used another tool."""
    wrote = result.tool_name == UPDATE_PLAN and not result.metadata.get("is_error")
    return read_plan(result.content) if wrote else []


def write_plan(steps: Iterable[Step]) -> str:
    """Return the steps as text, for the model and `read_plan`."""
    return "\n".join(
        f"{number}. [{step.status}] {step.step}" + (f"\n   note: {step.note}" if step.note else "")
        for number, step in enumerate(steps, 1)
    )


def plan_frame(steps: Iterable[Step]) -> DataFrame:
    """Return the steps as a DataFrame, numbered from 1."""
    import pandas as pd

    rows = [(step.step, step.status, step.note) for step in steps]
    frame = pd.DataFrame(rows, columns=["step", "status", "note"], dtype="str")
    frame.index += 1
    return frame


def checked_steps(rows: Iterable[Mapping[str, Any]]) -> list[Step]:
    """Return the checked steps of a plan. If no step is "doing", the first pending step becomes "doing".

    Raises ValueError for an invalid plan.
    """
    steps = [_checked_step(row) for row in rows]
    if len(steps) > MAX_STEPS:
        raise ValueError(f"expected at most {MAX_STEPS} steps, got {len(steps)}")
    texts = [step.step for step in steps]
    if repeated := next((text for text in texts if texts.count(text) > 1), None):
        raise ValueError(f"two steps have the same text: {repeated!r}")
    doing = [step.step for step in steps if step.status == "doing"]
    if len(doing) > 1:
        raise ValueError(f"expected one step that is 'doing', got {len(doing)}: {', '.join(doing)}")
    first = next((index for index, step in enumerate(steps) if step.status == "pending"), None)
    if not doing and first is not None:
        steps[first] = Step(steps[first].step, "doing", steps[first].note)
    return steps


def _checked_step(row: Mapping[str, Any]) -> Step:
    step, status, note = _one_line(row.get("step")), row.get("status"), _one_line(row.get("note"))
    if not step:
        raise ValueError("a step has no text")
    if not isinstance(status, str):  # a missing value
        status = "pending"
    if status not in STATUSES:
        raise ValueError(f"expected one of the statuses {', '.join(STATUSES)}, got {status!r}")
    return Step(step, status, note)


def _one_line(text: Any) -> str:
    return shortened(" ".join(text.split()), MAX_CHARS) if isinstance(text, str) else ""


def revised(old: Iterable[Step], new: Iterable[Step]) -> list[Step]:
    """Return the new plan, plus the old steps that it omits. Of these, done steps stay done, and open steps become
    "dropped".

    >>> print(write_plan(revised([Step("a", "done"), Step("b", "doing")], [Step("c", "doing")])))
    1. [done] a
    2. [dropped] b
    3. [doing] c
    """
    steps, next_index = list(new), 0
    for step in old:
        index = next((index for index, known in enumerate(steps) if known.step == step.step), None)
        if index is None:
            index = next_index
            steps.insert(index, Step(step.step, "dropped" if step.status in _OPEN else step.status, step.note))
        next_index = index + 1
    return steps


@dataclass(frozen=True, slots=True)
class _Newer:
    """A plan that is newer than the one in the history. It is valid until the history has another one.

    With a `run_id`, it comes from the model, and enters the history at the end of the turn. Without one, it comes from
    the user.
    """

    conversation_id: str
    after: str | None
    steps: list[Step]
    run_id: str | None


class Plans(Toolset):
    """The plans of all conversations of an agent and its forks, and the tool that updates them: `Agent(plan=True)`.

    With `ask_first`, a plan with new steps waits for approval. With `plan_first`, which `ask_first` implies, calls to
    other tools are refused unless a step is open.
    """

    def __init__(self, ask_first: bool = False, plan_first: bool = False) -> None:
        self.plan_first = plan_first or ask_first
        self.tools = _PlanRegistry(self)
        self._newer: WeakKeyDictionary[ContextManager, _Newer] = WeakKeyDictionary()
        approve = self._has_new_steps if ask_first else False
        # pinned: the plan stays when a long conversation is trimmed
        self.tools.add(
            FunctionDefinition(UPDATE_PLAN, _TOOL, None, self._update, approve=approve, parallel=False, pinned=True)
        )

    def current(self) -> list[Step]:
        """Return the plan of the current tool call's conversation."""
        return self.plan_of(_conversation())

    def plan_of(self, history: ContextManager) -> list[Step]:
        """Return the current plan of a conversation."""
        newer, message = self._newer.get(history), _last_plan(history)
        is_here = newer is not None and (newer.conversation_id, newer.after) == _place(history, message)
        if newer is not None and is_here and newer.run_id in (None, current.get().call.run_id):
            return newer.steps
        return read_plan(message.text) if message is not None else []

    def edit(self, history: ContextManager, plan: Any) -> None:
        """Replace the plan of a conversation. See `Agent.plan`."""
        try:
            if isinstance(plan, str | Mapping):
                raise TypeError(f"expected a list of steps, got {shortened(repr(plan), 80)}")
            rows = plan.to_dict("records") if hasattr(plan, "to_dict") else plan or ()
            steps = checked_steps({"step": row} if isinstance(row, str) else row for row in rows)
        except (ValueError, TypeError, AttributeError) as error:
            fix = "Assign a list of strings, or a DataFrame with the columns of agent.plan: step, status and note."
            raise ConfigurationError(f"plan: {error}. {fix}") from None
        self._set(history, steps, None)

    def copy(self, history: ContextManager, other: ContextManager) -> None:
        """Copy the user's version of the plan from `history` to its copy `other`."""
        newer = self._newer.get(history)
        if newer is not None and newer.run_id is None and newer.steps is self.plan_of(history):
            self._set(other, newer.steps, None)

    def instructions(self) -> str:
        """See `Toolset`."""
        return _INSTRUCTIONS[self.plan_first]

    def reminder(self) -> str:
        """See `Toolset`. Returns the plan if a step is open or if the user has changed the plan."""
        steps, newer = self.current(), self._newer.get(_conversation())
        is_edited = newer is not None and newer.run_id is None and newer.steps is steps
        if not steps or not (is_edited or _is_open(steps)):
            return ""
        note = [_EDITED] if is_edited else []
        return "\n".join([f"The plan (keep it up to date with {UPDATE_PLAN}):", write_plan(steps), *note])

    def _update(self, steps: list[Step]) -> str:
        history, new = _conversation(), revised(self.current(), checked_steps(map(asdict, steps)))
        for message in history.messages:
            if message.pinned and message.name == UPDATE_PLAN:  # this call's result replaces it
                history.pin(message, False)
        self._set(history, new, current.get().call.run_id)
        return write_plan(new)

    def _has_new_steps(self, steps: list[Step]) -> bool:
        known = {step.step for step in self.current()}
        return not known.issuperset(step.step for step in checked_steps(map(asdict, steps)))

    def _set(self, history: ContextManager, steps: list[Step], run_id: str | None) -> None:
        self._newer[history] = _Newer(*_place(history, _last_plan(history)), steps, run_id)


def plans_of_agent(plan: bool | Literal["first"], approve_plan: bool) -> list[Plans]:
    """Return the toolsets that these arguments of `Agent` require: one `Plans`, or none."""
    check_choice("plan", plan, (True, False, "first"))
    check_type("approve_plan", approve_plan, bool)
    return [Plans(approve_plan, plan == "first")] if plan or approve_plan else []


class _PlanRegistry(FunctionRegistry):
    """With `plan_first`, refuses calls to other tools unless a step is open."""

    def __init__(self, plans: Plans) -> None:
        super().__init__()
        self._plans = plans

    def before_any_call(self, definition: FunctionDefinition) -> None:
        """See `FunctionRegistry.before_any_call`."""
        if self._plans.plan_first and definition.name != UPDATE_PLAN and not _is_open(self._plans.current()):
            raise ToolError(f"There is no plan with an open step. Call {UPDATE_PLAN} first.", tool=definition.name)


def _conversation() -> ContextManager:
    agent = current.get().call.agent
    if agent is None:
        raise ToolError("A plan needs a conversation, and this call has none.")
    history: ContextManager = agent.context
    return history


def _last_plan(history: ContextManager) -> LLMMessage | None:
    """Return the tool result in the history that contains the plan."""
    results = (message for message in reversed(history.messages) if message.name == UPDATE_PLAN)
    return next((each for each in results if each.role == "tool" and not each.is_error and read_plan(each.text)), None)


def _place(history: ContextManager, message: LLMMessage | None) -> tuple[str, str | None]:
    return history.here.conversation_id, None if message is None else message.message_id


def _is_open(steps: Iterable[Step]) -> bool:
    return any(step.status in _OPEN for step in steps)
