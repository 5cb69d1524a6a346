"""Providers send requests to models. `create_provider` makes one by name, `resolve` from whatever the user passed.

>>> create_provider("open_source", base_url="http://localhost:8000/v1", model="qwen").model_name
'qwen'

Their classes are imported only when they are needed.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nbagent.checks import check_type, invalid
from nbagent.errors import ConfigurationError
from nbagent.providers.catalog import CATALOG, first_with_key

if TYPE_CHECKING:
    from nbagent.config import AgentConfig
    from nbagent.providers.base import LLMProvider

ENTRY_POINTS = "nbagent.providers"

_CLASSES = {
    "LLMProvider": "nbagent.providers.base",
    "HTTPProvider": "nbagent.providers.http.provider",
    "OpenAIProvider": "nbagent.providers.vendors.openai",
    "AnthropicBaseProvider": "nbagent.providers.vendors.claude",
    "ClaudeProvider": "nbagent.providers.vendors.claude",
    "MiniMaxProvider": "nbagent.providers.vendors.minimax",
    "GeminiProvider": "nbagent.providers.vendors.gemini",
    "OpenSourceProvider": "nbagent.providers.vendors.open_source",
    "LocalProvider": "nbagent.providers.local.provider",
    "ReplayProvider": "nbagent.providers.replay.session",
    "ScriptedProvider": "nbagent.providers.scripted",
}

Factory = Callable[..., "LLMProvider"]
_registered: dict[str, Factory] = {}


def __getattr__(name: str) -> Any:
    """The provider classes, imported when first asked for."""
    if name in _CLASSES:
        return getattr(importlib.import_module(_CLASSES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register_provider(name: str, factory: Factory) -> None:
    """Let `create_provider(name, **options)` call `factory(**options)`. It may replace a built-in provider.

    >>> register_provider("echo", lambda **options: ...)
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise invalid("name", name, "a provider's name without a colon")
    if not callable(factory):
        raise invalid("factory", factory, "a provider's class, or a function that makes a provider", secret=True)
    _registered[name] = factory


def create_provider(name: str, **options: Any) -> LLMProvider:
    """A provider by name, `"vendor"` or `"vendor:model"`.

    Options: api_key, model, base_url, timeout=60, max_retries=3, streaming=True, client, and the vendor's own. Others,
    such as `max_tokens`, become fields of each request body.

    Raises `ConfigurationError` for an unknown name, and lists the known ones.
    """
    check_type("name", name, str, fix="Pass 'vendor' or 'vendor:model'.")
    vendor, _, model = name.partition(":")
    if model:
        options.setdefault("model", model)
    return _factory(vendor)(**options)


def provider_names() -> list[str]:
    """All names that `create_provider` knows: built in, registered, and of installed packages."""
    return list(dict.fromkeys([*CATALOG, *_registered, *(point.name for point in _entry_points())]))


def resolve(spec: LLMProvider | AgentConfig | str | None = None) -> LLMProvider:
    """The provider for what a user passed.

    - an `LLMProvider`: itself
    - `"vendor"` or `"vendor:model"`: see `create_provider`
    - an `AgentConfig`: its provider, or else any server that speaks OpenAI chat completions at its base_url
    - None: the environment variable NBAGENT_MODEL (`"vendor:model"`), then the first vendor of the catalog whose key is
      found (see `providers.keys`), then the embedded model
    """
    from nbagent.config import AgentConfig
    from nbagent.providers.base import LLMProvider

    if isinstance(spec, LLMProvider):
        return spec
    if isinstance(spec, str):
        return create_provider(spec)
    if spec is None:
        return create_provider(os.environ.get("NBAGENT_MODEL") or first_with_key() or "local")
    config: Any = spec
    if not isinstance(config, AgentConfig):
        fix = f"Pass an instance of {config.__name__}." if isinstance(config, type) else ""
        # the value is not shown, since it may hold a key
        raise invalid("provider", config, "a provider, 'vendor:model', an AgentConfig or None", fix, secret=True)
    given = {key: value for key in ("model", "api_key", "base_url") if (value := getattr(config, key))}
    return create_provider(config.provider or "open_source", **given)


def _factory(name: str) -> Factory:
    if name in _registered:
        return _registered[name]
    if name in CATALOG:
        module, _, attribute = CATALOG[name].factory.partition(":")
        cls = getattr(importlib.import_module(module), attribute)
        return cls if cls.vendor == name else functools.partial(cls, vendor=name)
    for point in _entry_points():
        if point.name == name:
            return point.load()  # type: ignore[no-any-return]
    names = provider_names()
    similar = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
    raise ConfigurationError(f"Unknown provider {name!r}.{hint} Known: {', '.join(names)}.")


def _entry_points() -> Any:
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINTS)
