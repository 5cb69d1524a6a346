"""Checks the arguments that users pass to the public API. Internal code trusts its types.

Each message names the argument, the expected value and the value that was passed. `fix` adds the next step at the end.

>>> check_type("limits", {"max_cost": 1}, dict, fix="Pass Limits(max_cost=1).")
>>> check_number("timeout", -1, above=0)
Traceback (most recent call last):
nbagent.errors.ConfigurationError: timeout: expected a number above 0, got -1.
>>> check_choice("mode", "twice", ["once", "new"])
Traceback (most recent call last):
nbagent.errors.ConfigurationError: mode: expected 'once' or 'new', got 'twice'.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbagent.errors import ConfigurationError
from nbagent.text import shortened, without_keys

if TYPE_CHECKING:
    from pydantic import ValidationError

#: How many characters of a value a message repeats.
SHOWN_CHARS = 60


def invalid(name: str, value: object, expected: str, fix: str = "", *, secret: bool = False) -> ConfigurationError:
    """Return the error for an argument: `raise invalid("speed", speed, "a number above 0, or None")`.

    With `secret`, the message names only the value's type.
    """
    kind = type(value).__name__
    if secret:
        got = kind
    elif value is None or isinstance(value, (str, int, float)):
        got = shortened(without_keys(repr(value)), SHOWN_CHARS)
    else:
        got = f"{kind} {shortened(without_keys(repr(value)), SHOWN_CHARS)}"
    return ConfigurationError(f"{name}: expected {expected}, got {got}. {fix}".rstrip())


def problem_in(error: ValidationError) -> str:
    """Return the first error and its location, without the value: `servers.files.env: Field required`."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")]))


def check_type(name: str, value: object, *kinds: type, optional: bool = False, fix: str = "") -> None:
    """Raise `ConfigurationError` unless `value` is an instance of one of `kinds`, or None if `optional`."""
    if isinstance(value, kinds) or (optional and value is None):
        return
    names = [_with_article(kind.__name__) for kind in kinds]
    raise invalid(name, value, _either([*names, "None"] if optional else names), fix)


def check_choice(name: str, value: object, choices: Iterable[Any], fix: str = "") -> None:
    """Raise `ConfigurationError` unless `value` equals one of `choices`."""
    known = list(choices)
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in known):
        raise invalid(name, value, _either(map(repr, known)), fix)


def check_number(
    name: str,
    value: object,
    *,
    whole: bool = False,
    minimum: float | None = None,
    above: float | None = None,
    optional: bool = False,
    fix: str = "",
) -> None:
    """Raise `ConfigurationError` unless `value` is a number in the range. NumPy numbers are accepted, but bools are
    not.

    `math.inf` counts as a whole number, because it lifts any kind of limit.
    """
    if optional and value is None:
        return
    if is_number(value):
        number: Any = value
        fits = not whole or number == math.inf or number == int(number)
        if fits and (minimum is None or number >= minimum) and (above is None or number > above):
            return
    bound = f" above {above:g}" if above is not None else "" if minimum is None else f" of at least {minimum:g}"
    expected = f"a {'whole ' if whole else ''}number{bound}{', or None' if optional else ''}"
    raise invalid(name, value, expected, fix)


def checked_path(path: Any, fix: str = "") -> Path:
    """Return a user's path, with `~` expanded. Raises `ConfigurationError` if the value is not a path.

    >>> checked_path("run.jsonl").name
    'run.jsonl'
    """
    try:
        text = os.fspath(path)
        if isinstance(text, str) and "\0" not in text:
            return Path(text).expanduser()
    except (TypeError, RuntimeError):  # RuntimeError: the home folder of an unknown user
        pass
    raise invalid("path", path, "a path as a str or os.PathLike", fix)


def is_number(value: object) -> bool:
    """Return whether `value` is a real number. NumPy numbers count as numbers, but NaN and bools do not."""
    return type(value) is not bool and isinstance(value, Real) and value == value


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOaeio' else 'a'} {noun}"


def _either(options: Iterable[str]) -> str:
    """
    >>> _either(["'a'", "'b'", "'c'"])
    "'a', 'b' or 'c'"
    """
    *first, last = options
    return f"{', '.join(first)} or {last}" if first else last
