"""The models that can be chosen, and what is known about each, without asking a vendor.

The panel's model picker shows them, and Tab completes their names.
"""

from __future__ import annotations

import os
import re
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


def known_models(vendor: str) -> list[str]:
    """The vendor's default model, and its own models in the price list, which ships with a package.

    >>> known_models("claude")[:2]
    ['claude-sonnet-5', 'claude-2']
    """
    if vendor not in CATALOG:
        return []
    row = CATALOG[vendor]
    priced = [model for model in priced_models(vendor) if re.fullmatch(row.own_models or ".*", model.lower())]
    others = [model for model in sorted(priced, key=str.lower) if model.lower() != row.model.lower()]
    return [*filter(None, [row.model]), *others]


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
