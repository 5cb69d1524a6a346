"""The settings of a provider over HTTP: which names they have, and checks of their values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from inspect import Parameter, signature
from typing import Any

from nbagent.checks import check_choice, check_number, check_type, invalid

_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\t -~]*")


def check_settings(
    *,
    api_key: Any,
    headers: Any,
    model: Any,
    base_url: Any,
    timeout: Any,
    max_retries: Any,
    streaming: Any,
    function_calling: Any,
) -> None:
    """Raise `ConfigurationError` for a wrong value. Messages never hold keys or the values of headers."""
    check_type("model", model, str, optional=True)
    check_type("base_url", base_url, str, optional=True, fix="Pass an address such as 'http://localhost:8000/v1'.")
    if timeout == math.inf:
        raise invalid("timeout", timeout, "a finite number of seconds")
    check_number("timeout", timeout, above=0, fix="Pass seconds.")
    if max_retries == math.inf:
        raise invalid("max_retries", max_retries, "a finite number")
    check_number("max_retries", max_retries, whole=True, minimum=0)
    check_choice("streaming", streaming, (True, False))
    check_choice("function_calling", function_calling, (True, False))
    if not (api_key is None or isinstance(api_key, str) or hasattr(api_key, "get_secret_value")):
        raise invalid("api_key", api_key, "a text or a SecretStr", secret=True)
    if not (headers is None or isinstance(headers, Mapping)):
        raise invalid("headers", headers, "a dict of names and texts", secret=True)
    for name, value in (headers or {}).items():
        if not (isinstance(name, str) and _HEADER_NAME.fullmatch(name)):
            raise invalid("headers", name, "names of ASCII letters, digits and dashes")
        if not (isinstance(value, str) and _HEADER_VALUE.fullmatch(value)):
            raise invalid(f"headers[{name!r}]", value, "one line of ASCII text", secret=True)


@cache
def setting_names(cls: type) -> frozenset[str]:
    """The names of a provider's settings. No request may have such an option: the vendor would be sent a key."""
    makers = [signature(vars(base)["__init__"]) for base in cls.__mro__[:-1] if "__init__" in vars(base)]
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return frozenset(name for maker in makers for name, each in maker.parameters.items() if each.kind in kinds)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` for a field of a request that JSON can't hold, such as `stop={"."}`."""
    for name, value in options.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise invalid(name, value, "JSON data", f"{error}.") from None
