"""`evaluate`: agents answer the rows of a frame, and scorers judge the answers. `compare` works without scorers."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

import pandas as pd

from nbagent.agent.agent import Agent
from nbagent.batch.frame import title_of, to_frame
from nbagent.batch.live import OF_ALL_ROWS, side_by_side
from nbagent.batch.map import Map
from nbagent.batch.options import MapOptions
from nbagent.batch.rows import check_data
from nbagent.checks import check_number, check_type, invalid
from nbagent.core.background import blocking
from nbagent.core.budget import Budget
from nbagent.core.inputs import MessageInput
from nbagent.errors import ConfigurationError
from nbagent.evaluation.result import Evaluation
from nbagent.evaluation.scorers import check_scorer, scores_of
from nbagent.trace.columns import TEXT

#: The columns before the frame's own.
FIRST = ("agent", "repeat")
#: Arguments that also apply to judges.
FOR_JUDGES = ("allow_partial", "budget", "checkpoint", "concurrency", "progress")


async def compare(
    agents: Mapping[str, Agent], prompts: Iterable[MessageInput], **options: Unpack[MapOptions]
) -> Evaluation:
    """Send the same prompts to several agents and compare their answers: `evaluate` without scorers.

    `prompts` are messages for `Agent.chat`; each begins a new conversation. The agents have their tools unless
    `tools=False`. The column `tools` lists the called tools in order. Each agent takes one prompt after the other
    unless `concurrency` is higher. `options` as for `Agent.map`. The rows of a prompt are adjacent. `compare_sync` is
    the blocking variant.

    >>> result = await nbagent.compare({"claude": one, "qwen": other}, ["Who are you?", "2 + 2?"])    # doctest: +SKIP
    >>> result.frame.pivot(index="prompt", columns="agent", values="answer")                          # doctest: +SKIP
    """
    if not isinstance(prompts, Iterable):
        raise invalid("prompts", prompts, "a list of prompts", "Pass ['Who are you?', ...].")
    asked = pd.Series([prompts] if isinstance(prompts, str) else list(prompts), dtype=object, name="prompt")
    given: MapOptions = {"tools": True, "concurrency": 1, "on_error": "keep", **options}
    result = await evaluate(agents, asked, **given)
    return replace(result, frame=result.frame.sort_index(kind="stable").reset_index(drop=True))


compare_sync = blocking(compare)


async def evaluate(
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
    """Let agents answer the rows of a frame side by side, and score the answers.

    - `prompt`, `output` and `options`: as for `Agent.map`, with checkpoints, budgets and progress. All agents and
      judges share a budget.
    - `scorers`, by name: functions of a row, or of `(answer, expected)`, where `expected` names a column;
      `exact(column)`, `matches(regex)`, `judge(agent, prompt)`. They return True or False, or a number.
    - `repeats`: how often each agent answers each row

    If an agent can't send any request, for example without a key, its rows have the error, and the others continue. If
    no agent can, the error is raised. Raises `ConfigurationError` before the first request if a column has an added
    column's name or a scorer is invalid. `evaluate_sync` is the blocking variant.

    >>> result = await nbagent.evaluate(                                        # doctest: +SKIP
    ...     {"small": small, "large": large}, reviews, "Is this review good or bad? {text}",
    ...     scorers={"right": nbagent.exact("label")}, repeats=3,
    ... )
    >>> result.summary()                                                        # doctest: +SKIP
    """
    scorers = dict(scorers or {})
    check_number("repeats", repeats, whole=True, minimum=1)
    _check(agents, frame, scorers, expected, options)
    given: dict[str, Any] = dict(options)
    if isinstance(given.get("budget"), int | float):
        given["budget"] = Budget(max_cost=given["budget"])
    entrants = {name: _Entrant(agent, frame, prompt, output, repeats, given) for name, agent in agents.items()}
    _raise_of_all(entrants)
    inputs = frame.to_frame(frame.name or "value") if isinstance(frame, pd.Series) else frame
    added = next(iter(entrants.values())).rows(1).columns
    if taken := [name for name in inputs.columns if name in (*FIRST, *added, *scorers)]:
        raise ConfigurationError(f"frame: the evaluation adds columns with the names {taken}: rename yours.")
    await side_by_side(each.ask() for each in entrants.values())
    _raise_of_all(entrants)
    parts = []
    for name, entrant in entrants.items():
        for number in range(1, repeats + 1):
            part = pd.concat([inputs, entrant.rows(number)], axis=1)
            part.insert(0, "agent", name)
            part.insert(1, "repeat", number)
            parts.append(part)
    rows = pd.concat(parts)
    is_answered = (rows[title_of("status", rows)] == "ok").to_numpy(dtype=bool)
    of_judges: dict[str, Any] = {name: given[name] for name in FOR_JUDGES if name in given}
    for name, scorer in scorers.items():
        answered = rows[is_answered]
        scores = await scores_of(name, scorer, answered, expected, of_judges)
        column = pd.Series(pd.NA, index=range(len(rows)), dtype=scores.dtype)
        column[is_answered] = scores.to_numpy(dtype=object)
        rows[name] = column.array
    for entrant in entrants.values():
        entrant.forget()
    models = {name: each.model for name, each in entrants.items()}
    traces = tuple(agent.trace for agent in agents.values())
    return Evaluation(rows, tuple(scorers), models, traces)


evaluate_sync = blocking(evaluate)


class _Entrant:
    """One of the agents: its maps, one for each repeat, and the error that kept it from sending all rows."""

    def __init__(
        self, agent: Agent, frame: Any, prompt: str | None, output: Any, repeats: int, given: Mapping[str, Any]
    ) -> None:
        self._agent, self._has_tools, self._raises = agent, given.get("tools"), given.get("on_error") == "raise"
        self._unasked = to_frame(frame.index, [""] * len(frame), {}, output)
        self.error: Exception | None = None
        self._maps: list[Map] = []
        try:
            self._maps = [_map(agent, frame, prompt, output, number, given) for number in range(1, repeats + 1)]
        except ConfigurationError as error:
            self.error = error

    @property
    def model(self) -> str:
        """The agent's provider and model; empty if it has no usable one."""
        return f"{self._agent.provider.provider_name}:{self._agent.provider.model_name}" if self._maps else ""

    async def ask(self) -> None:
        """Send all rows, for all repeats."""
        try:
            for task in self._maps:
                await task.run()
        except OF_ALL_ROWS as error:
            if self._raises:
                raise
            self.error = error

    def rows(self, repeat: int) -> pd.DataFrame:
        """A repeat's answers, or the error that replaces them."""
        rows = self._maps[repeat - 1].frame() if self._maps else self._unasked.copy()
        status = title_of("status", rows)
        if self.error is not None:
            text = f"{type(self.error).__name__}: {self.error}"
            rows.loc[rows[status] == "left", [status, title_of("error", rows)]] = "error", text
        if self._has_tools:
            tools: dict[str, list[str]] = {}
            for call in self._agent.trace.rows("tool_calls"):
                tools.setdefault(call["run_id"], []).append(call["name"])
            names = [" ".join(tools.get(run_id, ())) for run_id in rows[title_of("run_id", rows)]]
            rows.insert(list(rows).index(status), "tools", pd.Series(names, index=rows.index, dtype=TEXT))
        return rows

    def forget(self) -> None:
        """See `Map.forget`."""
        for task in self._maps:
            task.forget()


def _raise_of_all(entrants: Mapping[str, _Entrant]) -> None:
    """Raise the first one's error if none of them can send any request."""
    errors = [each.error for each in entrants.values() if each.error is not None]
    if len(errors) == len(entrants):
        raise errors[0]


def _map(agent: Agent, frame: Any, prompt: str | None, output: Any, repeat: int, given: Mapping[str, Any]) -> Map:
    """One map of one agent. Arguments missing in `given` have the defaults of `Agent.map`."""
    defaults = inspect.signature(Agent.map).parameters
    of_map = {name: defaults[name].default for name in inspect.signature(Map).parameters if name in defaults}
    chosen = {name: given.get(name, of_map[name]) for name in of_map.keys() - {"data", "prompt", "output", "options"}}
    options = {name: value for name, value in given.items() if name not in chosen}
    return Map(agent, frame, prompt, output, options=options, repeat=repeat, **chosen)


def _check(agents: Any, frame: Any, scorers: Mapping[str, Any], expected: str | None, options: Any) -> None:
    if not isinstance(agents, Mapping) or not agents:
        raise invalid("agents", agents, "a dict of agents by name", 'Pass {"claude": agent_a, "qwen": agent_b}.')
    for name, agent in agents.items():
        check_type(f"agents[{name!r}]", agent, Agent, fix="Pass Agent('provider:model').")
    check_data(frame)
    if expected is not None and (not isinstance(frame, pd.DataFrame) or expected not in frame.columns):
        raise invalid("expected", expected, "the name of a column of the frame")
    if options.get("explode") is not None:
        raise ConfigurationError("evaluate() takes no explode: an answer is one row.")
    for name, scorer in scorers.items():
        check_scorer(name, scorer, expected)
