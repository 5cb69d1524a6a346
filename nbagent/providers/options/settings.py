"""The settings of HTTP providers, and checks of their values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from nbagent.checks import check_choice, check_number, check_type, invalid, is_number
from nbagent.core.limits import Limits
from nbagent.core.request_options import RequestOptions
from nbagent.errors import ConfigurationError
from nbagent.text import did_you_mean

if TYPE_CHECKING:
    import os

    from pydantic import SecretStr

_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\t -~]*")
_LIMITS = frozenset(f.name for f in fields(Limits))
#: Our names for options that some providers name differently.
_OURS = {"max_completion_tokens": "max_tokens", "stop_sequences": "stop", "reasoning_effort": "thinking"}
#: Arguments of HTTP clients, and how to set them here.
_IN_ENVIRONMENT = {
    "verify": "Name the certificates to trust in the environment variable SSL_CERT_FILE.",
    **dict.fromkeys(("proxy", "proxies"), "Name the proxy in the environment variable HTTPS_PROXY."),
}


class ProviderOptions(RequestOptions, total=False):
    """The options of `create_provider`: the built-in providers' settings, and the default options of their requests."""

    #: Tools that the provider itself runs, such as web search.
    tools: Sequence[Mapping[str, Any]]
    api_key: str | SecretStr | None
    model: str | os.PathLike[str] | None
    base_url: str | None
    #: The site that the key belongs to, if the provider has several, such as "china" or "international".
    region: str | None
    timeout: float
    max_retries: int
    streaming: bool
    client: Any
    function_calling: bool
    headers: dict[str, str] | None
    provider_name: str | None
    #: Dollars per million tokens.
    price: Mapping[str, float] | None
    #: OpenAI: "responses" or "chat".
    api: str | None
    #: Claude and MiniMax: how long prompts are cached.
    cache: str | bool
    # local
    n_ctx: int
    # replay
    path: str | os.PathLike[str] | None
    speed: float | None
    # scripted
    turns: Any
    delay: float


_SETTINGS = ProviderOptions.__optional_keys__ - RequestOptions.__optional_keys__ - {"tools"}


def check_settings(
    model: Any, timeout: Any, max_retries: Any, streaming: Any, function_calling: Any, price: Any
) -> None:
    """Raise `ConfigurationError` for a wrong value."""
    check_type("model", model, str, optional=True)
    if timeout == math.inf:
        raise invalid("timeout", timeout, "a finite number of seconds")
    check_number("timeout", timeout, above=0, fix="Pass seconds.")
    check_number("max_retries", max_retries, whole=True, minimum=0)
    check_choice("streaming", streaming, (True, False))
    check_choice("function_calling", function_calling, (True, False))
    check_price(price)


def check_access(api_key: Any, base_url: Any, headers: Any) -> None:
    """Raise `ConfigurationError` for a wrong value, without showing keys or header values."""
    check_type("base_url", base_url, str, optional=True, fix="Pass an address such as 'http://localhost:8000/v1'.")
    if not (api_key is None or isinstance(api_key, str) or hasattr(api_key, "get_secret_value")):
        raise invalid("api_key", api_key, "a string or a SecretStr", secret=True)
    if not (headers is None or isinstance(headers, Mapping)):
        raise invalid("headers", headers, "a dict of strings", secret=True)
    for name, value in (headers or {}).items():
        if not (isinstance(name, str) and _HEADER_NAME.fullmatch(name)):
            raise invalid("headers", name, "names of ASCII letters, digits and dashes")
        if not (isinstance(value, str) and _HEADER_VALUE.fullmatch(value)):
            raise invalid(f"headers[{name!r}]", value, "one line of ASCII text", secret=True)


def check_price(price: Any) -> None:
    """Raise `ConfigurationError` unless `price` is None or dollars per million tokens (see `LLMProvider.price`)."""
    if price is None:
        return
    fix = 'Pass dollars per million tokens: {"input": 0.5, "output": 1.5, "cached": 0.05}.'
    check_type("price", price, Mapping, fix=fix)
    for name in ("input", "output"):
        if name not in price:
            raise invalid("price", dict(price), f"a value for {name!r}", fix)
    for name, dollars in price.items():
        check_choice("price", name, ("input", "output", "cached"), fix)
        check_number(f"price[{name!r}]", dollars, minimum=0, fix=fix)
        if dollars == math.inf:
            raise invalid(f"price[{name!r}]", dollars, "a finite number", fix)


def check_request_options(options: Mapping[str, Any], others: Iterable[str] = ()) -> None:
    """Raise `ConfigurationError` for an unknown request option, which could carry a key to the provider.

    `others` are the called function's other keywords, for suggestions. Errors show a value only if it is a number given
    for a limit.
    """
    unknown = sorted(options.keys() - RequestOptions.__optional_keys__)
    if misplaced := [name for name in unknown if name in _SETTINGS]:
        raise ConfigurationError(
            f"{', '.join(misplaced)} can't be set for a single request. Create a provider with such settings, "
            "as in create_provider('provider', …), and assign that provider to agent.provider."
        )
    if unknown:
        name = unknown[0]
        raise _unknown_option(name, options[name], [*RequestOptions.__optional_keys__, *others, *_SETTINGS])


def check_body_options(options: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` for an unknown provider option. The message omits its value, which may be a key."""
    if unknown := sorted(options.keys() - RequestOptions.__optional_keys__):
        raise _unknown_option(unknown[0], None, ProviderOptions.__optional_keys__ - {unknown[0]})
    check_extra_body(options.get("extra_body", {}))


def check_extra_body(extra_body: Any) -> None:
    """Raise `ConfigurationError` unless `extra_body` is a dict."""
    check_type("extra_body", extra_body, Mapping, fix="Pass a dict of request body fields.")


def _unknown_option(name: str, value: object, known: Iterable[str]) -> ConfigurationError:
    if name in _LIMITS:
        given = value if is_number(value) else "…"
        return ConfigurationError(f"{name} is a limit: pass limits=Limits({name}={given}) to Agent or to chat().")
    if name in ("messages", "functions"):
        fix = "The message is the first argument of chat(), and tools=[...] names the functions to offer."
        return ConfigurationError(f"{name} is not a request option. {fix}")
    if name in _IN_ENVIRONMENT:
        return ConfigurationError(f"{name} is not a request option. {_IN_ENVIRONMENT[name]}")
    hint = f"; did you mean {_OURS[name]}?" if name in _OURS else did_you_mean(name, [*known, *_LIMITS]) or "."
    fix = f"Put fields that only this provider knows into extra_body={{{name!r}: …}}."
    return ConfigurationError(f"{name} is not a request option{hint} {fix}")


def check_json(options: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` for a request field that is not JSON, such as `stop={"."}`."""
    for name, value in options.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError) as error:
            raise invalid(name, value, "JSON data", f"{error}.") from None
