"""Scorers judge the answers of an evaluation: functions, or the scorers made here.

A function gets a row with the columns of the frame and the answers, or `(answer, expected)`. It returns True or False,
or a number.
"""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from numbers import Number
from typing import TYPE_CHECKING, Any

import pandas as pd

from nbagent.checks import invalid
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import FLAG, REAL

if TYPE_CHECKING:
    from nbagent.agent.agent import Agent

log = logging.getLogger("nbagent")

Row = Mapping[str, Any]


def exact(column: str, answer: str = "answer") -> Callable[[Row], bool | None]:
    """Whether the answer is the label in a column of the frame; None for a row without a label.

    They are compared by the type of one of them: a boolean, a number, a time (UTC if without a zone; a date is its
    midnight), or else a text without surrounding space. `answer` names the column of the answer: with `output=Model`,
    one of its fields.

    >>> exact("label")({"answer": "good\\n", "label": "good"}), exact("label")({"answer": "5", "label": 5.0})
    (True, True)
    """

    def is_exact(row: Row) -> bool | None:
        given, expected = row[answer], row[column]
        if _is_missing(expected):
            return None
        for kind, read in _READERS.items():
            if isinstance(given, kind) or isinstance(expected, kind):
                try:
                    return bool(read(given) == read(expected))
                except (TypeError, ValueError, ArithmeticError):  # one of them is of another type
                    return False
        return bool(given == expected)

    return is_exact


def _is_missing(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value)) or (isinstance(value, str) and not value.strip())


def _number(value: Any) -> Decimal:
    return Decimal(str(value))


def _flag(value: Any) -> bool | Decimal:
    known = {"true": True, "false": False}.get(str(value).strip().lower())
    return _number(value) if known is None else known


def _time(value: Any) -> pd.Timestamp:
    time = pd.Timestamp(value)
    return time.tz_localize("UTC") if time.tzinfo is None else time


#: How to read both values if one of them is of this type; the first match applies.
_READERS: Mapping[type, Callable[[Any], Any]] = {
    bool: _flag, Number: _number, date: _time, str: lambda value: str(value).strip(),
}  # fmt: skip


def matches(pattern: str | re.Pattern[str], answer: str = "answer") -> Callable[[Row], bool]:
    """Whether a regular expression matches anywhere in the answer.

    >>> matches(r"(?i)berlin")({"answer": "It is BERLIN."})
    True
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise invalid("pattern", pattern, f"a regular expression ({error})") from None
    return lambda row: compiled.search(str(row[answer])) is not None


@dataclass(frozen=True)
class Judge:
    """An agent that judges answers; `judge` makes one."""

    agent: Agent
    prompt: str
    output: Any

    async def scores(self, rows: pd.DataFrame, options: Mapping[str, Any]) -> list[Any]:
        """Its judgement of each row; None for rows without one."""
        said = await self.agent.map(rows.reset_index(drop=True), self.prompt, self.output, **options)
        if len(rows) and said["answer"].isna().all():
            raise ConfigurationError(f"the judge answered no row. The first one: {said['error'].iloc[0]}")
        return [None if pd.isna(value) else value for value in said["answer"]]


def judge(agent: Agent, prompt: str, output: type[bool] | type[int] | type[float] = bool) -> Judge:
    """Lets another agent judge. The prompt names columns of the frame and of the answers, as for `Agent.map`.

    It answers yes or no, or with `output=float` or `int` in numbers.

    >>> judge(agent, "Is this a fair summary of {text}?\\n\\n{answer}")      # doctest: +SKIP
    """
    if output not in (bool, int, float):
        raise invalid("output", output, "bool, int or float")
    return Judge(agent, prompt, output)


async def scores_of(
    name: str, scorer: Any, rows: pd.DataFrame, expected: str | None, options: Mapping[str, Any]
) -> Any:
    """A scorer's results for these rows, as a column. If it fails for a row, the value is NA, and a warning says so."""
    values = await (
        scorer.scores(rows, options) if isinstance(scorer, Judge) else _called(name, scorer, rows, expected)
    )
    known = [value for value in values if value is not None]
    kind = FLAG if known and all(isinstance(value, bool) for value in known) else REAL
    return pd.Series(values, index=rows.index, dtype=kind)


def check_scorer(name: str, scorer: Any, expected: str | None) -> None:
    """Raise `ConfigurationError` for a value that isn't a scorer."""
    if isinstance(scorer, Judge):
        return
    if scorer in (exact, matches, judge):
        raise ConfigurationError(f"scorers[{name!r}]: call {scorer.__name__}, such as {_CALLED[scorer]}.")
    if not callable(scorer):
        raise invalid(f"scorers[{name!r}]", scorer, "a function, exact(...), matches(...) or judge(...)")
    if _takes_two(scorer) and expected is None:
        raise ConfigurationError(
            f"scorers[{name!r}] takes (answer, expected): pass expected='column', or a function of one row."
        )


_CALLED = {exact: 'exact("label")', matches: r'matches(r"\d+")', judge: 'judge(agent, "Is this polite? {answer}")'}


def _takes_two(scorer: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(scorer).parameters.values()
    except ValueError:  # some C functions have none
        return True
    needed = [each for each in parameters if each.default is each.empty and each.kind in _POSITIONAL]
    return len(needed) == 2


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


async def _called(name: str, scorer: Callable[..., Any], rows: pd.DataFrame, expected: str | None) -> list[Any]:
    values: list[Any] = []
    failures: list[Exception] = []
    takes_two = _takes_two(scorer)
    for row in rows.to_dict("records"):
        try:
            value = scorer(row["answer"], row[expected]) if takes_two else scorer(row)
            value = await value if inspect.isawaitable(value) else value
            values.append(_score(value))
        except Exception as error:  # the answers are paid for, so other rows and scorers continue
            log.info("scorer %s failed", name, exc_info=True)
            failures.append(error)
            values.append(None)
    if failures:
        first = f"{type(failures[0]).__name__}: {failures[0]}"
        warnings.warn(f"scorer {name!r} failed for {len(failures)} of {len(rows)} rows. {first}", stacklevel=2)
    return values


def _score(value: Any) -> bool | float | None:
    if value is None or value is pd.NA:
        return None
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # including numpy's
        return bool(value)
    return float(value)
