"""The models that can be chosen, and what is known about each, without asking a vendor.

The panel's model picker shows them, and Tab completes their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from nbagent.pricing import listed_window, priced_models
from nbagent.providers.catalog import CATALOG


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known about a model; None for what is not."""

    #: Tokens that it takes.
    window: int | None = None
    #: Whether it calls tools, takes images, and can think before it answers.
    tools: bool | None = None
    images: bool | None = None
    thinking: bool | None = None


#: Words in the names of models that hear, speak, draw, embed or search, and don't hold a conversation of texts.
_SPECIAL = re.compile(
    "audio|embed|image|live|moderation|ocr|realtime|robotics|safeguard|search|transcri|translate|tts|voice"
)
#: A number of a version: neither a date nor a size, such as 120b.
_VERSION = re.compile(r"(?<![\d.])\d{1,2}(?:\.\d{1,2})?(?![\d.]*[bkx\d])")


def newest_first(models: Iterable[str]) -> list[str]:
    """Models by the version in their names, and those that don't chat last. `owner/model` stays with its owner.

    >>> newest_first(["gpt-4.1-mini", "gpt-audio-mini", "gpt-5.4-mini", "o3"])
    ['gpt-5.4-mini', 'gpt-4.1-mini', 'o3', 'gpt-audio-mini']
    """

    def place(model: str) -> tuple[bool, str, list[float], str]:
        owner, _, name = model.lower().rpartition("/")
        version = [*(-float(number) for number in _VERSION.findall(name)), 0.0, 0.0]
        return is_special(model), owner, version[:2], name

    return sorted(models, key=place)


def is_special(model: str) -> bool:
    """Whether the model's name says that it does something else than chat."""
    return _SPECIAL.search(model.lower()) is not None


def known_models(vendor: str) -> list[str]:
    """The provider's default model, then its own models in the price list, which ships with a package, newest first.

    >>> known_models("claude")[0]
    'claude-sonnet-5'
    """
    if vendor not in CATALOG:
        return []
    row = CATALOG[vendor]
    priced = [model for model in priced_models(vendor) if re.fullmatch(row.own_models or ".*", model.lower())]
    return [*filter(None, [row.model]), *newest_first(model for model in priced if model.lower() != row.model.lower())]


def model_facts(vendor: str, model: str) -> ModelFacts:
    """What the price list and the vendor's file say about a model, by its name.

    >>> model_facts("zhipu", "glm-5.2").images
    False
    """
    window = listed_window(model, vendor)
    if vendor not in CATALOG:
        return ModelFacts(window)
    row = CATALOG[vendor]
    profile = row.profile(model)
    # what the last profile says of a name that nobody knows is an assumption, unless it is the vendor's own default
    is_default = model == row.model and bool(row.own_models) and profile.thinks_by_default is not None
    is_described = is_default or (bool(profile.models) and profile.thinks_by_default is not None)
    return ModelFacts(
        window,
        tools=True if is_default else None,
        images=False if not row.takes_images(model or vendor) else True if is_default else None,
        thinking=profile.thinks if is_described else None,
    )


def models_without_setup() -> list[str]:
    """What can be used at once: the model in NBAGENT_MODEL, vendors with a key, the embedded model."""
    named = [os.environ["NBAGENT_MODEL"]] if os.environ.get("NBAGENT_MODEL") else []
    with_key = [f"{row.name}:{row.model}" for row in CATALOG.values() if not row.keyless and row.api_key()]
    return list(dict.fromkeys([*named, *with_key, "local"]))
