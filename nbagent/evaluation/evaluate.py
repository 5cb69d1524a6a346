"""`evaluate`: agents answer the rows of a frame, and scorers judge the answers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Unpack

import pandas as pd

from nbagent.agent import Agent
from nbagent.batch.map import Map, Unfinished
from nbagent.batch.options import MapOptions
from nbagent.checks import check_number, check_type, invalid
from nbagent.core.background import run_sync
from nbagent.core.budget import Budget
from nbagent.errors import ConfigurationError
from nbagent.evaluation.result import Evaluation
from nbagent.evaluation.scorers import check_scorer, scores_of
from nbagent.providers.base import LLMProvider

#: The columns before those of the frame.
FIRST = ("agent", "repeat")
#: Arguments that hold for judges, too.
FOR_JUDGES = ("allow_partial", "budget", "checkpoint", "concurrency", "progress")


class _Repeat:
    """An agent as a map sees it, for one of several times: the answers of another time are not taken for these."""

    def __init__(self, agent: Agent, number: int) -> None:
        self.budget = agent.budget
        self.unfinished: Unfinished = agent.unfinished
        self.row_agent, self.agrees = agent.row_agent, agent.agrees
        self._agent, self._number = agent, number

    @property
    def provider(self) -> LLMProvider:
        """The agent's provider."""
        return self._agent.provider

    def row_settings(self, tools: bool) -> dict[str, Any]:
        """See `Agent.row_settings`."""
        settings = self._agent.row_settings(tools)
        return settings if self._number == 1 else {**settings, "repeat": self._number}


def evaluate(
    agents: Mapping[str, Agent],
    frame: pd.Series[Any] | pd.DataFrame,
    prompt: str | None = None,
    output: Any = None,
    *,
    scorers: Mapping[str, Any] | None = None,
    expected: str | None = None,
    repeats: int = 1,
    **options: Unpack[MapOptions],
) -> Evaluation:
    """Let agents answer the rows of a frame, and score the answers.

    - `prompt`, `output` and `options`: as for `Agent.map`, so there are checkpoints, budgets and progress. A budget
      holds for all agents and judges together.
    - `scorers`, by name: functions of a row, or of `(answer, expected)`, where `expected` names a column;
      `exact(column)`, `matches(regex)`, `judge(agent, prompt)`. They return True or False, or a number.
    - `repeats`: how often each agent answers each row

    In async code, use `await aevaluate(...)`. Raises `ConfigurationError` before the first request if a column has the
    name of one that is added, or a scorer can't score.

    >>> result = nbagent.evaluate(                                              # doctest: +SKIP
    ...     {"small": small, "large": large}, reviews, "Is this review good or bad? {text}",
    ...     scorers={"right": nbagent.exact("label")}, repeats=3,
    ... )
    >>> result.summary()                                                        # doctest: +SKIP
    """
    arguments: dict[str, Any] = {"scorers": scorers, "expected": expected, "repeats": repeats, **options}
    return run_sync(aevaluate(agents, frame, prompt, output, **arguments))


async def aevaluate(
    agents: Mapping[str, Agent],
    frame: pd.Series[Any] | pd.DataFrame,
    prompt: str | None = None,
    output: Any = None,
    *,
    scorers: Mapping[str, Any] | None = None,
    expected: str | None = None,
    repeats: int = 1,
    **options: Unpack[MapOptions],
) -> Evaluation:
    """`evaluate` for async code.

    >>> result = await nbagent.aevaluate(agents, reviews, "Good or bad? {text}")    # doctest: +SKIP
    """
    scorers = dict(scorers or {})
    check_number("repeats", repeats, whole=True, minimum=1)
    _check(agents, frame, scorers, expected, options)
    given: dict[str, Any] = dict(options)
    if isinstance(given.get("budget"), int | float):
        given["budget"] = Budget(max_cost=given["budget"])
    maps = {
        (name, number): _map(_Repeat(agent, number), frame, prompt, output, given)
        for name, agent in agents.items()
        for number in range(1, repeats + 1)
    }
    inputs = frame.to_frame(frame.name or "value") if isinstance(frame, pd.Series) else frame
    first = next(iter(maps.values())).frame()
    if taken := [name for name in inputs.columns if name in (*FIRST, *first.columns, *scorers)]:
        raise ConfigurationError(f"frame: the evaluation adds columns with the names {taken}: rename yours.")
    parts = []
    for (name, number), task in maps.items():
        answers = await task.run()
        part = pd.concat([inputs, answers], axis=1)
        part.insert(0, "agent", name)
        part.insert(1, "repeat", number)
        parts.append(part)
    rows = pd.concat(parts)
    status = "row_status" if "row_status" in first.columns else "status"
    is_answered = (rows[status] == "ok").to_numpy(dtype=bool)
    of_judges: dict[str, Any] = {name: given[name] for name in FOR_JUDGES if name in given}
    for name, scorer in scorers.items():
        answered = rows[is_answered]
        scores = await scores_of(name, scorer, answered, expected, of_judges)
        column = pd.Series(pd.NA, index=range(len(rows)), dtype=scores.dtype)
        column[is_answered] = scores.to_numpy(dtype=object)
        rows[name] = column.array
    for task in maps.values():
        task.forget()
    models = {name: f"{agent.provider.vendor}:{agent.provider.model_name}" for name, agent in agents.items()}
    return Evaluation(rows, tuple(scorers), models, prompt or "", expected)


def _map(agent: _Repeat, frame: Any, prompt: str | None, output: Any, given: Mapping[str, Any]) -> Map:
    """The map of one agent. What `given` does not say has the defaults of `Agent.map`."""
    parameters = inspect.signature(Agent.map).parameters
    of_map = {name: each.default for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
    del of_map["preview"]
    options = {name: value for name, value in given.items() if name not in of_map}
    chosen = {name: given.get(name, default) for name, default in of_map.items()}
    return Map(agent, frame, prompt, output, options=options, **chosen)


def _check(agents: Any, frame: Any, scorers: Mapping[str, Any], expected: str | None, options: Any) -> None:
    if not isinstance(agents, Mapping) or not agents:
        raise invalid("agents", agents, "a dict of agents by name", 'Pass {"claude": agent_a, "qwen": agent_b}.')
    for name, agent in agents.items():
        check_type(f"agents[{name!r}]", agent, Agent, fix="Pass Agent('vendor:model').")
    if expected is not None and (not isinstance(frame, pd.DataFrame) or expected not in frame.columns):
        raise invalid("expected", expected, "the name of a column of the frame")
    if options.get("explode") is not None:
        raise ConfigurationError("evaluate() takes no explode: an answer is one row.")
    for name, scorer in scorers.items():
        check_scorer(name, scorer, expected)
