"""What stands in a file, as the recorder keeps it. Anybody may have written the file: its types are checked here."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from pydantic_core import from_json

from nbagent.trace.columns import COLUMNS, COUNT, FLAG, JSON, REAL, TIME
from nbagent.trace.table import Columns, count_of

#: The first and the last second that a `datetime` can hold.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
#: Seconds and dollars beyond it are nonsense, and their sums have no end.
_LARGEST = 1e15
#: Columns of JSON text that is read again, and what it holds.
_JSON: dict[str, type] = {name: dict for columns in COLUMNS.values() for name in columns if columns[name] == JSON}
_JSON |= dict.fromkeys(("data", "metadata", "request_headers", "response_headers"), dict)
_JSON |= {"secrets": list, "tags": list, "outputs": list}


def recorded_columns(table: str, stored: Columns) -> Columns:
    """Stored columns in the recorder's form: the declared ones, with times in seconds and flags as bools.

    Raises ValueError, which names the place, for a value of another type.
    """
    missing = [None] * count_of(stored)
    columns = {name: stored.get(name, missing) for name in COLUMNS[table]}
    for name, values in columns.items():
        kinds = set(map(type, values)) - {type(None)}
        if kinds:
            columns[name] = _converted(f"{table}.{name}", values, kinds, _form(table, name))
            for text in filter(None, values) if name in _JSON else ():
                (_check_outputs if name == "outputs" else _check_json)(f"{table}.{name}", text, _JSON[name])
    return columns


def _form(table: str, name: str) -> _Form:
    """The form of a column's values; a word that a category does not have, as one of a later version, becomes NA."""
    if (table, name) == ("scores", "value"):
        return _SCORE
    dtype = COLUMNS[table][name]
    words = getattr(dtype, "categories", None)
    if words is not None:
        known = set(words)
        return "text", {str}, lambda word: word if word in known else None
    return _FORMS.get(dtype, _TEXT)


def _converted(place: str, values: list[Any], kinds: set[type], form: _Form) -> list[Any]:
    expected, known, convert = form
    try:
        if not kinds <= known:
            raise ValueError(f"got {next(kind for kind in kinds if kind not in known).__name__}")
        return values if convert is None else [None if value is None else convert(value) for value in values]
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{place}: expected {expected}, {error}") from None


def _check_json(place: str, text: str, kind: type) -> None:
    try:
        value = from_json(text)  # at most 200 levels deep
    except ValueError:
        value = text
    names = value
    if kind is dict:  # of an event's data, the ids of the messages that were trimmed
        names = value.get("trimmed") if place == "events.data" and isinstance(value, dict) else None
    is_right = isinstance(value, kind | None) and isinstance(names, list | None)
    if not is_right or not all(isinstance(name, str) for name in names or ()):
        raise ValueError(
            f"{place}: expected a JSON {'object' if kind is dict else 'array of texts'}, got {text[:60]!r}"
        )


def _check_outputs(place: str, text: str, _kind: type) -> None:
    """What tools showed: see `nbagent.core.tool_output.Part`."""
    parts: Any = None
    with suppress(ValueError):
        parts = from_json(text)
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{place}: expected a JSON array of objects, got {text[:60]!r}")
    if wrong := [value for part in parts for value in part.values() if not isinstance(value, str)]:
        raise ValueError(f"{place}: expected texts, got {str(wrong[0])[:60]}")


def _count(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise ValueError("got a number of more than 64 bits")
    return value


def _real(value: float) -> float:
    if not abs(value) <= _LARGEST:  # nor NaN
        raise ValueError(f"got {str(value)[:20]}")
    return float(value)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"got {value}")
    return float(value)


def _flag(value: int) -> bool:
    if value not in (0, 1):
        raise ValueError(f"got {value}")
    return bool(value)


def _seconds(when: str | int) -> float:
    """Unix seconds of a stored time: text, or a number of microseconds."""
    seconds = datetime.fromisoformat(when).timestamp() if isinstance(when, str) else when / 1e6
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        raise ValueError(f"got {when}")
    return seconds


#: What a column expects: in words, as types, and how its values become the recorder's.
_Form = tuple[str, set[type], Callable[[Any], Any] | None]
_TEXT: _Form = "text", {str}, None
_SCORE: _Form = ("a finite number", {int, float}, _finite)
_FORMS: dict[Any, _Form] = {
    COUNT: ("a whole number", {int}, _count),
    REAL: ("a number", {int, float}, _real),
    FLAG: ("true or false", {bool, int}, _flag),
    TIME: ("a time", {str, int}, _seconds),
}
