"""The providers that nbagent knows, by name.

To add a provider, write a file in `nbagent/providers/known/` with its `FACTS` and the `PROFILES` of its models, and
add its name to `NAMES`. A provider's module is imported when it is first looked up.

>>> CATALOG["qwen"].key_vars
('DASHSCOPE_API_KEY',)
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import cast

from nbagent.providers.provider_facts import ProviderFacts

#: The providers' modules. `resolve(None)` looks for a key in this order. Gemini is last of those with a key, since many
#: people set GOOGLE_API_KEY for other Google services.
NAMES = (
    *("openai", "claude", "minimax", "qwen", "zhipu", "deepseek", "openrouter", "mistral", "xai", "moonshot", "groq"),
    *("together", "fireworks", "nvidia", "siliconflow", "huggingface", "gemini"),
    *("ollama", "open_source", "local", "replay", "scripted"),
)


class _Catalog(Mapping[str, ProviderFacts]):
    """The providers of `NAMES`, imported one by one."""

    def __getitem__(self, name: str) -> ProviderFacts:
        if name not in NAMES:
            raise KeyError(name)
        return cast(ProviderFacts, importlib.import_module(f"nbagent.providers.known.{name}").FACTS)

    def __contains__(self, name: object) -> bool:
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


CATALOG: Mapping[str, ProviderFacts] = _Catalog()


def first_with_key() -> str | None:
    """The name of the first provider whose key is found, in the order of `NAMES`."""
    candidates = (facts for facts in CATALOG.values() if not (facts.keyless or facts.only_by_name))
    return next((facts.name for facts in candidates if facts.api_key()), None)


def provider_with_model(model: str) -> str | None:
    """The name of the provider that a model belongs to, judging by the model's name.

    >>> provider_with_model("gpt-4o"), provider_with_model("my-model")
    ('openai', None)
    """
    fits = (name for name, row in CATALOG.items() if row.own_models and re.fullmatch(row.own_models, model.lower()))
    return next(fits, None)


def with_keys() -> dict[str, ProviderFacts]:
    """The providers that accept a key, by name."""
    return {name: facts for name, facts in CATALOG.items() if facts.key_vars}
