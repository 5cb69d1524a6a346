"""The selectable models, their order, and facts about them that are known without a request to the provider.

The panel's model picker shows them, and Tab completes their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nbagent.pricing import listed_window, priced_models
from nbagent.providers import provider_names
from nbagent.providers.base import ListedModel
from nbagent.providers.catalog import CATALOG
from nbagent.providers.larger_models import LARGER_MODELS
from nbagent.providers.local.download import SMOLLM2, cached
from nbagent.providers.local_servers import local_servers


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model. Unknown facts are None."""

    #: Its context window in tokens.
    window: int | None = None
    #: Whether it takes images, and whether it can think before it answers.
    images: bool | None = None
    thinking: bool | None = None


class LocalModel(NamedTuple):
    """A model that runs on this machine."""

    #: The server that runs it.
    title: str
    #: Its memory; empty if unknown.
    memory: str
    #: The name for `create_provider`.
    provider: str
    options: Mapping[str, Any] = {}
    #: Whether it is ready: its file exists.
    is_here: bool = True


#: Words in the names of models that can't chat, such as models for audio, images, embeddings or search.
_SPECIAL = re.compile(
    "audio|embed|image|live|moderation|ocr|realtime|robotics|safeguard|search|transcri|translate|tts|voice|whisper"
)
#: A version number: neither a date nor a size such as 120b.
_VERSION = re.compile(r"(?<![\d.])\d{1,2}(?:\.\d{1,2})?(?![\d.]*[bkx\d])")


def newest_first(models: Iterable[str]) -> list[str]:
    """Sort models by the version in their names, newest first, and put models that can't chat last.

    Models named `owner/model` stay grouped by owner.

    >>> newest_first(["gpt-4.1-mini", "gpt-audio-mini", "gpt-5.4-mini", "o3"])
    ['gpt-5.4-mini', 'gpt-4.1-mini', 'o3', 'gpt-audio-mini']
    """

    def place(model: str) -> tuple[bool, str, list[float], str]:
        owner, _, name = model.lower().rpartition("/")
        version = [*(-float(number) for number in _VERSION.findall(name)), 0.0, 0.0]
        return is_special(model), owner, version[:2], name

    return sorted(models, key=place)


def is_special(model: str) -> bool:
    """Whether the name of a model says that the model can't chat."""
    return _SPECIAL.search(model.lower()) is not None


def known_models(provider: str) -> list[str]:
    """The provider's default model, then its other models in the price list, newest first.

    >>> known_models("claude")[0]
    'claude-sonnet-5'
    """
    if provider not in CATALOG:
        return []
    row = CATALOG[provider]
    priced = [model for model in priced_models(provider) if re.fullmatch(row.own_models or ".*", model.lower())]
    return [*filter(None, [row.model]), *newest_first(model for model in priced if model.lower() != row.model.lower())]


def model_facts(provider: str, model: str) -> ModelFacts:
    """The facts about a model from the price list and from the description of its provider.

    >>> model_facts("zhipu", "glm-5.2").images
    False
    """
    window = listed_window(model, provider)
    if provider not in CATALOG:
        return ModelFacts(window)
    row = CATALOG[provider]
    profile = row.profile(model)
    # the last profile is only a guess for an unknown name, unless it is the provider's own default
    is_default = model == row.model and bool(row.own_models) and profile.thinks_by_default is not None
    is_described = is_default or (bool(profile.models) and profile.thinks_by_default is not None)
    return ModelFacts(
        window,
        images=False if not row.takes_images(model or provider) else True if is_default else None,
        thinking=profile.thinks if is_described else None,
    )


def local_models() -> dict[str, LocalModel]:
    """The models on this machine by `provider:model`: nbagent's own models, and the models of running servers.

    This call blocks. If a name is available from two servers, the first server's model is used.
    """
    embedded = f"local:{SMOLLM2.name}"
    found = {embedded: LocalModel("local", f"{_bytes(SMOLLM2.gguf_bytes)} of weights", embedded)}
    for name, each in LARGER_MODELS.items():
        spec, is_here = f"local:{name}", cached(each) is not None
        title = "local" if is_here else "local, not pulled"
        found[spec] = LocalModel(title, f"{each.memory_gb} GB of memory", spec, is_here=is_here)
    for server in local_servers():
        for name, size in server.sizes.items():
            about = f"{_bytes(size)} of weights" if size else ""
            model = LocalModel(server.title, about, server.provider, server.options(name))
            found.setdefault(f"{server.provider}:{name}", model)
    return found


def _bytes(size: int) -> str:
    """A size as short text.

    >>> _bytes(98_362_432), _bytes(4_661_224_676)
    ('98 MB', '4.7 GB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def measured_speeds(calls: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The speed of streamed answers in `trace.calls`: tokens per second, timed from the first token, by
    `provider:model`.
    """
    sums: dict[str, tuple[int, float]] = {}
    for row in calls:
        tokens, first, took = (row.get(name) or 0 for name in ("output_tokens", "ttft_s", "duration_s"))
        if tokens and took > first > 0 and not row.get("replayed") and not row.get("usage_estimated"):
            before = sums.get(spec := f"{row['provider']}:{row['model']}", (0, 0.0))
            sums[spec] = before[0] + tokens, before[1] + took - first
    return {spec: tokens / seconds for spec, (tokens, seconds) in sums.items()}


def all_models(
    used: Iterable[str], listed: Mapping[str, Sequence[ListedModel]], local: Mapping[str, LocalModel]
) -> list[str]:
    """All selectable models, as `provider:model`.

    The models used so far come first, then NBAGENT_MODEL, the default models of providers with a key, the models on
    this machine (`local`), the other providers' default models, and all other models. In the last two groups, providers
    with a key come first. Local models that must be downloaded come last. If `listed` has a provider's models, they
    replace the known ones.
    """
    with_key = [f"{row.name}:{row.model}" for row in CATALOG.values() if not row.keyless and row.api_key()]
    named = os.environ.get("NBAGENT_MODEL", "")
    here = [spec for spec, model in local.items() if model.is_here]
    ready = [*used, *([named] if ":" in named else []), *with_key, *here]
    names = [name for name in provider_names() if name not in CATALOG or known_models(name)]  # without replay, scripted
    served = {spec.partition(":")[0] for spec in local}  # by their available models; their default may be missing
    names = [name for name in names if name not in served]
    names = sorted(dict.fromkeys([*names, *listed]), key=lambda name: name in CATALOG and not CATALOG[name].api_key())
    known = {name: _names(name, listed.get(name, ())) for name in names}
    defaults = [f"{provider}:{models[0]}" if models else provider for provider, models in known.items()]
    others = [f"{provider}:{model}" for provider, models in known.items() for model in models]
    return list(dict.fromkeys([*ready, *defaults, *others, *local]))


def _names(provider: str, listed: Sequence[ListedModel]) -> list[str]:
    """The names of a provider's models: its default, the others by date or version, newest first, then models that are
    retired or can't chat.
    """
    known, by_name = known_models(provider), {model.name: model for model in listed}

    def place(name: str) -> tuple[bool, bool, int]:
        model = by_name[name]
        days = model.created.toordinal() if model.created else 0
        return name not in known[:1], model.is_retired or is_special(name), -days

    return sorted(newest_first(by_name), key=place) if listed else known


def find_models(text: str, models: Iterable[str]) -> list[str]:
    """The models whose names contain all words of `text`, in any order. An exact match comes first.

    If `text` has several words, models whose names have no other words come next. Then come models of a provider that
    `text` names, and models whose names start with one of the words. Models that can't chat come last. If `text` looks
    like the name of an unknown model, it is added as the first result.

    >>> find_models("gpt mini", ["openai:gpt-5.1-codex-mini", "openai:gpt-audio-mini", "openai:gpt-5-mini"])
    ['openai:gpt-5-mini', 'openai:gpt-5.1-codex-mini', 'openai:gpt-audio-mini']
    >>> find_models("claude:my-own", ["claude:claude-sonnet-5"])
    ['claude:my-own']
    """
    typed, words = text.strip(), text.lower().split()
    found = [spec for spec in models if all(word in _searched(spec) for word in words)]
    if words:
        found.sort(key=lambda spec: _rank(spec.lower(), words))
    exact = [spec for spec in found if typed and typed in (spec, spec.partition(":")[2])]
    provider, colon, name = typed.partition(":")
    if provider and colon and name and len(words) == 1 and typed not in exact:
        exact.insert(0, typed)
    return list(dict.fromkeys([*exact, *found]))


def _rank(spec: str, words: Sequence[str]) -> tuple[bool, bool, bool, bool]:
    provider, _, name = spec.partition(":")
    is_family = {*re.findall("[a-z]{2,}", name)} == {*words} - {provider}  # besides its version
    begins = any(name.rpartition("/")[2].startswith(word) for word in words)
    return is_special(spec), len(words) > 1 and not is_family, provider not in words, not begins


def _searched(spec: str) -> str:
    """The text that is searched: the provider, its other names, and the model."""
    provider = spec.partition(":")[0]
    aliases = CATALOG[provider].aliases if provider in CATALOG else ()
    return " ".join([spec, *aliases]).lower()
