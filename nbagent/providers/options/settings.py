"""What a provider over HTTP is made with: the names of its settings, and whether their values are of the right kind."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any

from nbagent.errors import ConfigurationError


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_duration(value: Any) -> bool:
    return isinstance(value, Real) and not _is_switch(value) and 0 < float(value) < math.inf


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not _is_switch(value) and int(value) >= 0


#: Setting -> what its value must be, and in words.
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "model": (_is_text, "the name of a model"),
    "base_url": (_is_text, "an address such as 'http://localhost:8000/v1'"),
    "timeout": (_is_duration, "seconds, a number above 0"),
    "max_retries": (_is_count, "a whole number from 0 up"),
    "streaming": (_is_switch, "True or False"),
    "function_calling": (_is_switch, "True or False"),
}


def check_settings(api_key: Any, headers: Any, **others: Any) -> None:
    """Raise `ConfigurationError` for a value that can't be meant. Keys and the values of headers are not shown.

    >>> check_settings(None, None, timeout="a minute")
    Traceback (most recent call last):
    nbagent.errors.ConfigurationError: timeout='a minute' can't be used: give seconds, a number above 0.
    """
    for name, value in others.items():
        fits, wanted = _KINDS[name]
        if not fits(value):
            raise ConfigurationError(f"{name}={value!r} can't be used: give {wanted}.")
    if not (_is_text(api_key) or hasattr(api_key, "get_secret_value")):
        raise ConfigurationError(f"api_key is of type {type(api_key).__name__}: give it as a text.")
    if headers is not None and not isinstance(headers, Mapping):
        raise ConfigurationError(f"headers is of type {type(headers).__name__}: give a dict of names and texts.")
    for name, value in (headers or {}).items():
        if not (isinstance(name, str) and re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name, re.ASCII)):
            raise ConfigurationError(f"{name!r} can't be the name of a header.")
        if not (isinstance(value, str) and re.fullmatch(r"[\t -~]*", value)):
            raise ConfigurationError(f"the header {name!r} must be a text of one line, in ASCII.")


@cache
def setting_names(cls: type) -> frozenset[str]:
    """What a provider is made with, and no request has: a key in a request's body would be told to others."""
    makers = [signature(vars(base)["__init__"]) for base in cls.__mro__[:-1] if "__init__" in vars(base)]
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return frozenset(name for maker in makers for name, each in maker.parameters.items() if each.kind in kinds)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` for a field of a request that is no JSON data.

    >>> check_options({"stop": {"."}})
    Traceback (most recent call last):
    nbagent.errors.ConfigurationError: stop={'.'} can't be sent: Object of type set is not JSON serializable.
    """
    for name, value in options.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as exc:
            raise ConfigurationError(f"{name}={value!r:.100} can't be sent: {exc}.") from None
