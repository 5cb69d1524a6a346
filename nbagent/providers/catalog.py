"""The providers that nbagent knows, by name.

A new provider is one file in `nbagent/providers/vendors/` with its `VENDOR` and the `PROFILES` of its models, and its
name in `NAMES`. A provider's module is imported when it is first looked up.

>>> CATALOG["qwen"].key_vars
('DASHSCOPE_API_KEY',)
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import cast

from nbagent.providers.vendor import Vendor

#: The providers' modules. `resolve(None)` looks for a key in this order. Gemini comes last, since many set
#: GOOGLE_API_KEY for other Google services.
NAMES = (
    *("openai", "claude", "minimax", "qwen", "zhipu", "deepseek", "openrouter", "mistral", "xai", "moonshot", "groq"),
    *("together", "fireworks", "nvidia", "siliconflow", "huggingface", "gemini"),
    *("ollama", "open_source", "local", "replay", "scripted"),
)


class _Catalog(Mapping[str, Vendor]):
    """The providers of `NAMES`, imported one by one."""

    def __getitem__(self, name: str) -> Vendor:
        if name not in NAMES:
            raise KeyError(name)
        return cast(Vendor, _module(name).VENDOR)

    def __contains__(self, name: object) -> bool:
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


@functools.cache
def _module(name: str) -> ModuleType:
    # not through sys.modules: another thread, importing SDKs in the background, may be in the middle of this import
    return importlib.import_module(f"nbagent.providers.vendors.{name}")


CATALOG: Mapping[str, Vendor] = _Catalog()


def first_with_key() -> str | None:
    """The name of the first provider whose key is found, in the order of `NAMES`."""
    candidates = (vendor for vendor in CATALOG.values() if not (vendor.keyless or vendor.only_by_name))
    return next((vendor.name for vendor in candidates if vendor.api_key()), None)


def vendor_with_model(model: str) -> str | None:
    """The name of the provider whose own model this is, by its name.

    >>> vendor_with_model("gpt-4o"), vendor_with_model("my-model")
    ('openai', None)
    """
    fits = (name for name, row in CATALOG.items() if row.own_models and re.fullmatch(row.own_models, model.lower()))
    return next(fits, None)


def with_keys() -> dict[str, Vendor]:
    """The providers that take a key, by name."""
    return {name: vendor for name, vendor in CATALOG.items() if vendor.key_vars}
