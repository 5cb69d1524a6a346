"""Providers send requests to models. `create_provider` makes one by name, `resolve` from any user input.

>>> create_provider("open_source", base_url="http://localhost:8000/v1", model="qwen").model_name
'qwen'

Their classes are imported only when they are needed.
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

#: Clouds that need an SDK's client, which handles the login: an example of each.
_CLOUDS = {
    "azure": "'openai', client=AsyncAzureOpenAI(azure_endpoint='…', api_version='…')",
    "bedrock": "'claude', client=AsyncAnthropicBedrock(aws_region='…')",
    "vertex": "'claude', client=AsyncAnthropicVertex(project_id='…', region='…')",
}

Factory = Callable[..., "LLMProvider"]
#: One model, as a user names it; and an agent's input: one, or several to fall back on in order.
ModelInput: TypeAlias = "LLMProvider | AgentConfig | str"
ProviderInput: TypeAlias = "ModelInput | Sequence[ModelInput] | None"
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


def create_provider(name: str, **options: Unpack[ProviderOptions]) -> LLMProvider:
    """A provider by name, `"provider"` or `"provider:model"`.

    Options, all by keyword:

    - `api_key`, `model`, `base_url`, `region`: otherwise from the environment, or the provider's defaults
    - `headers`: a dict, sent to the provider's address only
    - `timeout` (seconds, 60), `max_retries` (3), `streaming` (True)
    - `client`: your own client of the SDK, httpx2 or httpx, which is never closed
    - `price`: dollars per million tokens, `{"input": 0.5, "output": 1.5, "cached": 0.05}`
    - `function_calling`: False describes the tools in the prompt instead
    - `api` (OpenAI: "responses" or "chat"), `cache` (Claude, MiniMax: "5m", "1h" or False), `n_ctx` (local: tokens),
      `path` and `speed` (replay), `turns` and `delay` (scripted)
    - the fields of `RequestOptions`, such as `max_tokens`, for all requests

    Raises `ConfigurationError` for an unknown name or option, and suggests the likely one.

    >>> create_provider("openai:gpt-5.6-luna", api_key="…", temperature=0).model_name
    'gpt-5.6-luna'
    """
    check_type("name", name, str, fix="Pass 'provider' or 'provider:model'.")
    if model := name.partition(":")[2]:
        options.setdefault("model", model)
    return _factory(name)(**options)


def provider_names() -> list[str]:
    """All names that `create_provider` knows: built in, registered, and of installed packages."""
    return list(dict.fromkeys([*CATALOG, *_registered, *(point.name for point in _entry_points())]))


def resolve(spec: ProviderInput = None) -> LLMProvider:
    """The provider for a user's input.

    - an `LLMProvider`: itself
    - `"provider"` or `"provider:model"`: see `create_provider`
    - an `AgentConfig`: its provider, or else any server that speaks OpenAI chat completions at its base_url, or else
      the provider that has its model
    - a list of these: the first one, and the next one when one fails (see `Candidates`)
    - None: the environment variable NBAGENT_MODEL (`"provider:model"`), then the first provider of the catalog whose
      key is found (see `providers.keys`), then a server on this machine with a model that can call tools (see
      `providers.local_servers`), then the embedded model
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
        # the value is not shown, since it may hold a key
        expected = "a provider, 'provider:model', an AgentConfig, a list of these, or None"
        raise invalid("provider", config, expected, fix, secret=True)
    given = {key: value for key in ("model", "api_key", "base_url", "price") if (value := getattr(config, key))}
    name = _name_of(config)
    return create_provider(name, **given) if name else default_provider(**given)


def default_provider(
    look: Callable[[], list[LocalServer]] | None = None, **options: Unpack[ProviderOptions]
) -> LLMProvider:
    """The provider if no model is named. It looks for servers on this machine, unless a recording answers anyway."""
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
    """The config's provider name for `create_provider`; empty if nothing names one."""
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
        f"AgentConfig: the provider {named} is not known. Name it, as in provider='openai', or the address of a "
        "server, as in base_url='http://localhost:8000/v1'."
    )


def preload(spec: AgentConfig | str | None) -> None:
    """Begin the imports for the provider of `resolve(spec)`, in a thread. Nothing is checked.

    Nothing heavy is imported without a key, or for a provider without keys.
    """

    def work() -> None:
        with suppress(NbagentError):  # `resolve` raises it when the provider is needed
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
    """The error for a name that is another tool's spelling, a model's, or unknown."""
    if without_keys(name) != name:
        return ConfigurationError("Unknown provider: this looks like a key. Name the provider: 'openai', api_key=….")
    provider, _, model = name.replace("/", ":", 1).partition(":")
    row = next((row for row in CATALOG.values() if provider.lower() in (row.name, *row.aliases)), None)
    if row is not None:
        return ConfigurationError(f"Unknown provider {name!r}: write '{row.name}:{model or row.model}'.")
    if provider_with_model(model) == "gemini":  # as on Vertex, whose client for them is not ours
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
