"""`evaluate`: agents answer the rows of a frame, and scorers score the answers. `compare` only collects the answers."""

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
#: Options that also apply to judges.
FOR_JUDGES = ("allow_partial", "budget", "checkpoint", "concurrency", "progress")


async def compare(
    agents: Mapping[str, Agent], prompts: Iterable[MessageInput], **options: Unpack[MapOptions]
) -> Evaluation:
    """Send the same prompts to several agents, and return the answers: `evaluate` without scorers.

    - `agents`: a dict of agents by name
    - `prompts`: messages for `Agent.chat`; each starts a new conversation
    - `options`: as for `Agent.map`, except that `tools` is True and `concurrency` is 1 by default

    A prompt's rows are adjacent. The column `tools` lists the tools in the order of their calls. `compare_sync` is the
    blocking variant.

    >>> result = await nbagent.compare({"claude": one, "qwen": other}, ["Who are you?", "2 + 2?"])    # doctest: +SKIP
    >>> result.frame.pivot(index="prompt", columns="agent", values="answer")                          # doctest: +SKIP
    """
    if not isinstance(prompts, Iterable):
        raise invalid("prompts", prompts, "a list of prompts", "Pass ['Who are you?', ...].")
    rows = pd.Series([prompts] if isinstance(prompts, str) else list(prompts), dtype=object, name="prompt")
    merged: MapOptions = {"tools": True, "concurrency": 1, **options}
    result = await evaluate(agents, rows, **merged)
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
    """Let several agents answer the rows of a frame, and score the answers.

    - `agents`: a dict of agents by name
    - `frame`, `prompt`, `output`, `options`: as for `Agent.map`. All agents and judges share one budget.
    - `scorers`: a dict of scorers by name: `exact(column)`, `matches(regex)`, `judge(agent, prompt)`, or a function of
      a row or of `(answer, expected)` that returns True, False or a number
    - `expected`: the column whose values are passed to functions of `(answer, expected)`
    - `repeats`: how many times each agent answers each row

    If an agent can't send any request, for example because it has no key, its rows contain the error, and the other
    agents continue. If no agent can send a request, the first agent's error is raised. Raises `ConfigurationError`
    before the first request if a scorer is invalid, or if the frame already has one of the columns that are added.
    `evaluate_sync` is the blocking variant.

    >>> result = await nbagent.evaluate(                                        # doctest: +SKIP
    ...     {"small": small, "large": large}, reviews, "Is this review good or bad? {text}",
    ...     scorers={"right": nbagent.exact("label")}, repeats=3,
    ... )
    >>> result.summary()                                                        # doctest: +SKIP
    """
    scorers = dict(scorers or {})
    check_number("repeats", repeats, whole=True, minimum=1)
    _check(agents, frame, scorers, expected, options)
    settings: dict[str, Any] = dict(options)
    if isinstance(settings.get("budget"), int | float):
        settings["budget"] = Budget(max_cost=settings["budget"])
    entrants = {name: _Entrant(agent, frame, prompt, output, repeats, settings) for name, agent in agents.items()}
    _raise_if_all_failed(entrants)
    inputs = frame.to_frame(frame.name or "value") if isinstance(frame, pd.Series) else frame
    added = next(iter(entrants.values())).rows(1).columns
    if taken := [name for name in inputs.columns if name in (*FIRST, *added, *scorers)]:
        raise ConfigurationError(
            f"frame: the evaluation adds columns with the names {taken}. Rename the existing columns."
        )
    await side_by_side(entrant.ask() for entrant in entrants.values())
    _raise_if_all_failed(entrants)
    parts = []
    for name, entrant in entrants.items():
        for number in range(1, repeats + 1):
            part = pd.concat([inputs, entrant.rows(number)], axis=1)
            part.insert(0, "agent", name)
            part.insert(1, "repeat", number)
            parts.append(part)
    rows = pd.concat(parts)
    is_answered = (rows[title_of("status", rows)] == "ok").to_numpy(dtype=bool)
    of_judges: dict[str, Any] = {name: settings[name] for name in FOR_JUDGES if name in settings}
    for name, scorer in scorers.items():
        scores = await scores_of(name, scorer, rows[is_answered], expected, of_judges)
        column = pd.Series(pd.NA, index=range(len(rows)), dtype=scores.dtype)
        column[is_answered] = scores.to_numpy(dtype=object)
        rows[name] = column.array
    for entrant in entrants.values():
        for task in entrant.maps:
            task.forget()
    models = {name: entrant.model for name, entrant in entrants.items()}
    traces = tuple(agent.trace for agent in agents.values())
    return Evaluation(rows, tuple(scorers), models, traces)


evaluate_sync = blocking(evaluate)


class _Entrant:
    """One of the agents, with a map for each repeat, and the error that affects all of its rows, if any."""

    def __init__(
        self, agent: Agent, frame: Any, prompt: str | None, output: Any, repeats: int, settings: Mapping[str, Any]
    ) -> None:
        self._agent, self._has_tools, self._raises = agent, settings.get("tools"), settings.get("on_error") == "raise"
        self._unsent = to_frame(frame.index, [""] * len(frame), {}, output)
        self.error: Exception | None = None
        self.maps: list[Map] = []
        try:
            self.maps = [_map(agent, frame, prompt, output, number, settings) for number in range(1, repeats + 1)]
        except ConfigurationError as error:
            self.error = error

    @property
    def model(self) -> str:
        """The agent's provider and model, or "" if they can't be used."""
        return f"{self._agent.provider.provider_name}:{self._agent.provider.model_name}" if self.maps else ""

    async def ask(self) -> None:
        """Send all rows, for all repeats."""
        try:
            for task in self.maps:
                await task.run()
        except OF_ALL_ROWS as error:
            if self._raises:
                raise
            self.error = error

    def rows(self, repeat: int) -> pd.DataFrame:
        """Return the answers of a repeat, or the error instead."""
        rows = self.maps[repeat - 1].frame() if self.maps else self._unsent.copy()
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


def _raise_if_all_failed(entrants: Mapping[str, _Entrant]) -> None:
    """Raise the first agent's error if no agent can send any request."""
    errors = [entrant.error for entrant in entrants.values() if entrant.error is not None]
    if len(errors) == len(entrants):
        raise errors[0]


def _map(agent: Agent, frame: Any, prompt: str | None, output: Any, repeat: int, settings: Mapping[str, Any]) -> Map:
    """Return a map, with the defaults of `Agent.map` for missing settings."""
    parameters = inspect.signature(Agent.map).parameters
    names = MapOptions.__optional_keys__ & parameters.keys()
    chosen = {name: settings.get(name, parameters[name].default) for name in names}
    options = {name: value for name, value in settings.items() if name not in names}
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
        raise ConfigurationError("evaluate() has no argument 'explode', because each answer is one row.")
    for name, scorer in scorers.items():
        check_scorer(name, scorer, expected)
