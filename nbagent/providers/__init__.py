"""Providers send requests to models. `create_provider` creates one by name, and `resolve` returns the provider for a
user's input.

>>> create_provider("open_source", base_url="http://localhost:8000/v1", model="qwen").model_name
'qwen'

Provider classes are imported on first use.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from nbagent.checks import check_type, invalid
from nbagent.core.browser import start_early
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.providers.catalog import CATALOG, first_with_key, provider_with_model
from nbagent.text import did_you_mean, without_keys

if TYPE_CHECKING:
    from nbagent.config import AgentConfig
    from nbagent.providers.base import LLMProvider
    from nbagent.providers.local_servers import LocalServer
    from nbagent.providers.options.settings import ProviderOptions

ENTRY_POINTS = "nbagent.providers"

_CLASSES = {
    "LLMProvider": "nbagent.providers.base",
    "HTTPProvider": "nbagent.providers.http_provider",
    "OpenAIProvider": "nbagent.providers.known.openai",
    "AnthropicBaseProvider": "nbagent.providers.known.claude",
    "ClaudeProvider": "nbagent.providers.known.claude",
    "MiniMaxProvider": "nbagent.providers.known.minimax",
    "GeminiProvider": "nbagent.providers.known.gemini",
    "OpenSourceProvider": "nbagent.providers.known.open_source",
    "LocalProvider": "nbagent.providers.local.provider",
    "ReplayProvider": "nbagent.providers.replay.session",
    "ScriptedProvider": "nbagent.providers.scripted",
    "Candidates": "nbagent.providers.routing.candidates",
}

#: Clouds that need an SDK client, which handles the login, with an example of each.
_CLOUDS = {
    "azure": "'openai', client=AsyncAzureOpenAI(azure_endpoint='…', api_version='…')",
    "bedrock": "'claude', client=AsyncAnthropicBedrock(aws_region='…')",
    "vertex": "'claude', client=AsyncAnthropicVertex(project_id='…', region='…')",
}

Factory = Callable[..., "LLMProvider"]
#: One model as the user names it. An agent accepts one, or several to try in order.
ModelInput: TypeAlias = "LLMProvider | AgentConfig | str"
ProviderInput: TypeAlias = "ModelInput | Sequence[ModelInput] | None"
_registered: dict[str, Factory] = {}


def __getattr__(name: str) -> Any:
    """Import a provider class on first use."""
    if name in _CLASSES:
        return getattr(importlib.import_module(_CLASSES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register_provider(name: str, factory: Factory) -> None:
    """Make `create_provider(name, **options)` call `factory(**options)`. This can replace a built-in provider.

    >>> register_provider("echo", lambda **options: ...)
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise invalid("name", name, "a provider's name without a colon")
    if not callable(factory):
        raise invalid("factory", factory, "a provider class, or a function that creates a provider", secret=True)
    _registered[name] = factory


def create_provider(name: str, **options: Unpack[ProviderOptions]) -> LLMProvider:
    """Create a provider by name, `"provider"` or `"provider:model"`.

    All options are keyword arguments:

    - `model`: by default the provider's own; `api_key`, `base_url`, `region`: by default from the environment, else the
      provider's own
    - `headers`: a dict, sent to the provider's address only
    - `timeout` (seconds, 60), `max_retries` (3), `streaming` (True)
    - `client`: your own client (of an SDK, httpx2 or httpx), which is never closed
    - `price`: dollars per million tokens, `{"input": 0.5, "output": 1.5, "cached": 0.05}`
    - `function_calling`: False to describe the tools in the prompt, for a model that can't call them
    - `api` (OpenAI: "responses" or "chat"), `cache` (Claude, MiniMax: "5m", "1h" or False), `n_ctx` (local: tokens),
      `path` and `speed` (replay), `turns` and `delay` (scripted)
    - any field of `RequestOptions`, such as `max_tokens`, for all requests

    Raises `ConfigurationError` for an unknown name or option, and suggests the likely one.

    >>> create_provider("openai:gpt-5.6-luna", api_key="…", temperature=0).model_name
    'gpt-5.6-luna'
    """
    check_type("name", name, str, fix="Pass 'provider' or 'provider:model'.")
    if model := name.partition(":")[2]:
        options.setdefault("model", model)
    return _factory(name)(**options)


def provider_names() -> list[str]:
    """The names of all providers: built in, registered, and from installed packages."""
    return list(dict.fromkeys([*CATALOG, *_registered, *(point.name for point in _entry_points())]))


def resolve(spec: ProviderInput = None) -> LLMProvider:
    """Return the provider for a user's input.

    - an `LLMProvider`: itself
    - `"provider"` or `"provider:model"`: see `create_provider`
    - an `AgentConfig`: its `provider`, else a server with the OpenAI chat API at its `base_url`, else the provider of
      its `model`
    - a list of these: the first, and the next whenever one fails (see `Candidates`)
    - None: the provider named in the environment variable NBAGENT_MODEL (`"provider:model"`), else the first provider
      in the catalog whose key is found (see `providers.keys`), else a server on this machine with a model that can call
      tools (see `providers.local_servers`), else the embedded model
    """
    from nbagent.config import AgentConfig
    from nbagent.providers.base import LLMProvider

    if isinstance(spec, LLMProvider):
        return spec
    if spec is None:
        return default_provider()
    if isinstance(spec, str):
        return create_provider(spec)
    if isinstance(spec, list | tuple):
        candidates: LLMProvider = __getattr__("Candidates")(spec)
        return candidates
    config: Any = spec
    if not isinstance(config, AgentConfig):
        fix = f"Pass an instance of {config.__name__}." if isinstance(config, type) else ""
        # the value may contain a key, so it is not shown
        expected = "a provider, 'provider:model', an AgentConfig, a list of these, or None"
        raise invalid("provider", config, expected, fix, secret=True)
    settings = {key: value for key in ("model", "api_key", "base_url", "price") if (value := getattr(config, key))}
    name = _name_of(config)
    return create_provider(name, **settings) if name else default_provider(**settings)


def default_provider(
    look: Callable[[], list[LocalServer]] | None = None, **options: Unpack[ProviderOptions]
) -> LLMProvider:
    """Choose the provider to use when no model is named. Looks for servers on this machine, unless a recording supplies
    the answers.
    """
    if name := _name_of(None):
        return create_provider(name, **options)
    from nbagent.providers.replay.active import current_recording

    tape = current_recording()
    if tape is None or not tape.replay_only:
        from nbagent.providers.local_servers import local_servers

        if server := next((each for each in (look or local_servers)() if each.model), None):
            return create_provider(server.provider, **{**server.options(), **options})
    return create_provider("local", **options)


def _name_of(spec: AgentConfig | str | None) -> str:
    """The name to pass to `create_provider`; empty if nothing names a provider."""
    if spec is None:
        return os.environ.get("NBAGENT_MODEL") or first_with_key() or ""
    if isinstance(spec, str):
        return spec
    if name := spec.provider or ("open_source" if spec.base_url else provider_with_model(spec.model)):
        return name
    if not spec.model and not spec.api_key:
        return _name_of(None)
    named = f"of the model {spec.model!r}" if spec.model else "for its api_key"
    raise ConfigurationError(
        f"AgentConfig: the provider {named} is not known. Add it, as in provider='openai', or a server's address, "
        "as in base_url='http://localhost:8000/v1'."
    )


def preload(spec: AgentConfig | str | None) -> None:
    """Start a thread that imports the packages of the provider that `resolve(spec)` would return. Nothing is checked.

    If that provider needs no key, no large package is imported.
    """

    def work() -> None:
        with suppress(NbagentError):  # `resolve` will raise it
            name = _name_of(spec).partition(":")[0]
            if name in CATALOG and name not in _registered and not CATALOG[name].keyless:
                from nbagent.providers.http.transport import import_packages

                factory: Any = _factory(name)
                import_packages(getattr(factory, "func", factory).package)

    start_early(work, name="nbagent-preload")


def _factory(spec: str) -> Factory:
    name = spec.partition(":")[0]
    if name in _registered:
        return _registered[name]
    if name in CATALOG:
        module, _, attribute = CATALOG[name].factory.partition(":")
        cls = getattr(importlib.import_module(module), attribute)
        return cls if cls.provider_name == name else functools.partial(cls, provider_name=name)
    for point in _entry_points():
        if point.name == name:
            factory: Factory = point.load()
            return factory
    raise _unknown_provider(spec)


def _unknown_provider(name: str) -> ConfigurationError:
    """The error for a model's name, another tool's spelling of a provider, or an unknown name."""
    if without_keys(name) != name:
        return ConfigurationError("Unknown provider: this looks like a key. Name the provider: 'openai', api_key=….")
    provider, _, model = name.replace("/", ":", 1).partition(":")
    if facts := next((facts for facts in CATALOG.values() if provider.lower() in (facts.name, *facts.aliases)), None):
        return ConfigurationError(f"Unknown provider {name!r}: write '{facts.name}:{model or facts.model}'.")
    if provider_with_model(model) == "gemini":  # such as on Vertex, whose client for Gemini models can't be used
        return ConfigurationError(f"Unknown provider {provider!r}: write 'gemini:{model}'.")
    if cloud := next((word for word in _CLOUDS if word in provider.lower()), ""):
        way = f"create_provider({_CLOUDS[cloud]}, model={model or '…'!r})"
        return ConfigurationError(f"Unknown provider {provider!r}: pass a client of the SDK, as in {way}.")
    if owner := provider_with_model(name):
        return ConfigurationError(f"{name!r} is the name of a model: write '{owner}:{name}'.")
    names = provider_names()
    return ConfigurationError(
        f"Unknown provider {provider!r}{did_you_mean(provider, names, 3) or '.'} Known: {', '.join(names)}. For any "
        "other server with the OpenAI chat API: create_provider('open_source', model='…', base_url='https://…', "
        "api_key='…')."
    )


def _entry_points() -> Any:
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINTS)
