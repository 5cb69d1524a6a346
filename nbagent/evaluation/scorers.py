"""Scorers for an evaluation's answers: functions, `exact`, `matches` and `judge`.

A function receives either a row, with the columns of the frame and the answers, or `(answer, expected)`. It returns
True, False or a number.
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

from nbagent.batch.rows import is_missing
from nbagent.checks import invalid
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import FLAG, REAL

if TYPE_CHECKING:
    from nbagent.agent.agent import Agent

log = logging.getLogger("nbagent")

Row = Mapping[str, Any]


def exact(column: str, answer: str = "answer") -> Callable[[Row], bool | None]:
    """Return a scorer that compares the answer with a label in the frame. Rows without a label have no score.

    - `column`: the column with the labels
    - `answer`: the column with the answers; with `output=Model`, one of its fields

    If the label or the answer is a boolean, a number or a time, both are read as such. A time without a zone is UTC,
    and a date means midnight. Otherwise both are compared as text, without surrounding whitespace.

    >>> exact("label")({"answer": "good\\n", "label": "good"}), exact("label")({"answer": "5", "label": 5.0})
    (True, True)
    """

    def is_exact(row: Row) -> bool | None:
        found, expected = row[answer], row[column]
        if not isinstance(expected, list | tuple) and is_missing(expected):
            return None
        for kind, read in _READERS.items():
            if isinstance(found, kind) or isinstance(expected, kind):
                try:
                    return bool(read(found) == read(expected))
                except (TypeError, ValueError, ArithmeticError):  # one of the values has another type
                    return False
        return bool(found == expected)

    return is_exact


def _number(value: Any) -> Decimal:
    return Decimal(str(value))


def _flag(value: Any) -> bool | Decimal:
    known = {"true": True, "false": False}.get(str(value).strip().lower())
    return _number(value) if known is None else known


def _time(value: Any) -> pd.Timestamp:
    time = pd.Timestamp(value)
    return time.tz_localize("UTC") if time.tzinfo is None else time


#: How to read both values if one of them is of this type. The first match applies.
_READERS: Mapping[type, Callable[[Any], Any]] = {
    bool: _flag, Number: _number, date: _time, str: lambda value: str(value).strip(),
}  # fmt: skip


def matches(pattern: str | re.Pattern[str], answer: str = "answer") -> Callable[[Row], bool]:
    """Return a scorer that searches the answer for a regular expression.

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
    """An agent that judges answers, created by `judge`."""

    agent: Agent
    prompt: str
    output: Any

    async def scores(self, rows: pd.DataFrame, options: Mapping[str, Any]) -> list[Any]:
        """Return a judgement for each row, or None for rows without one."""
        judgements = await self.agent.map(rows.reset_index(drop=True), self.prompt, self.output, **options)
        if len(rows) and judgements["answer"].isna().all():
            raise ConfigurationError(f"The judge answered none of the rows. First error: {judgements['error'].iloc[0]}")
        return [None if pd.isna(value) else value for value in judgements["answer"]]


def judge(agent: Agent, prompt: str, output: type[bool] | type[int] | type[float] = bool) -> Judge:
    """Return a scorer that lets another agent judge the answers.

    - `prompt`: a prompt with columns of the frame and of the answers in braces, as for `Agent.map`
    - `output`: `bool` for True or False, `int` or `float` for numbers

    >>> judge(agent, "Is this a fair summary of {text}?\\n\\n{answer}")      # doctest: +SKIP
    """
    if output not in (bool, int, float):
        raise invalid("output", output, "bool, int or float")
    return Judge(agent, prompt, output)


async def scores_of(
    name: str, scorer: Any, rows: pd.DataFrame, expected: str | None, options: Mapping[str, Any]
) -> Any:
    """Return a scorer's results for these rows, as a column. If it fails for a row, warn, and use NA."""
    values = await (
        scorer.scores(rows, options) if isinstance(scorer, Judge) else _called(name, scorer, rows, expected)
    )
    known = [value for value in values if value is not None]
    kind = FLAG if known and all(isinstance(value, bool) for value in known) else REAL
    return pd.Series(values, index=rows.index, dtype=kind)


def check_scorer(name: str, scorer: Any, expected: str | None) -> None:
    """Raise `ConfigurationError` unless the value is a scorer."""
    if isinstance(scorer, Judge):
        return
    if scorer in (exact, matches, judge):
        raise ConfigurationError(f"scorers[{name!r}]: call {scorer.__name__}, as in {_CALLED[scorer]}.")
    if not callable(scorer):
        raise invalid(f"scorers[{name!r}]", scorer, "a function, exact(...), matches(...) or judge(...)")
    if _takes_two(scorer) and expected is None:
        raise ConfigurationError(
            f"scorers[{name!r}] has two parameters, (answer, expected). Pass expected='column', or a function of a row."
        )


_CALLED = {exact: 'exact("label")', matches: r'matches(r"\d+")', judge: 'judge(agent, "Is this polite? {answer}")'}


def _takes_two(scorer: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(scorer).parameters.values()
    except ValueError:  # some C functions have no signature
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
        warnings.warn(f"Scorer {name!r} failed for {len(failures)} of {len(rows)} rows. {first}", stacklevel=2)
    return values


def _score(value: Any) -> bool | float | None:
    if value is None or value is pd.NA:
        return None
    if type(value).__name__ in ("bool_", "bool"):  # Python's or NumPy's
        return bool(value)
    return float(value)
