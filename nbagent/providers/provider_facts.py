"""The facts about a provider, as data: its addresses, its format, its models' behaviour.

They control *encoding and connecting* only; decoding is the same for all providers of a format. Each provider's facts
are in one file under `known/`; `catalog` looks them up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from nbagent.checks import check_choice
from nbagent.errors import ConfigurationError
from nbagent.providers.keys import keys

Fields = Mapping[str, Any]
When = Literal["always", "unthinking", "never"]

#: How deeply a model thinks, from least to most.
LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """A group of models that behave alike: how they think, and which options can't be combined with thinking.

    If a profile is wrong about a model, the provider's first 400 error corrects it (see `formats.refused`).
    """

    #: A regular expression to search for in a model's name.
    models: str = ""
    thinks: bool = True
    #: Whether these models think by default; None if unknown.
    thinks_by_default: bool | None = True
    #: The fields of a request that leaves thinking to the provider. They make the thinking visible.
    show_thinking: Fields = field(default_factory=dict)
    #: The fields that switch thinking on, at the provider's default depth.
    thinking_on: Fields = field(default_factory=dict)
    #: The fields that switch thinking off; None if that is not possible.
    thinking_off: Fields | None = None
    #: The field for the level (`outer.inner` if nested), and its value for each level. None omits the field.
    level_field: str = ""
    levels: Mapping[str, Any] = field(default_factory=dict)
    #: Whether the level is a number of tokens that must stay below `max_tokens`.
    below_max_tokens: bool = False
    #: When the models accept a temperature, and a `tool_choice` that forces a call.
    temperature: When = "always"
    forced_tools: When = "always"
    #: API betas for requests to these models.
    betas: tuple[str, ...] = ()
    #: The provider's form of the tools that these models have built in, by nbagent's name.
    native_tools: Mapping[str, Fields] = field(default_factory=dict)


NOT_THINKING = ModelProfile(thinks=False, thinks_by_default=False, thinking_off={})


@dataclass(frozen=True, slots=True)
class OwnTool:
    """How a request to some of the provider's models offers a tool that the provider itself runs."""

    #: The tool's entry in the list of tools; empty if `body` offers the tool.
    entry: Fields = field(default_factory=dict)
    #: Where each of our options goes: a field of the entry (`outer.inner` if nested), or, after a slash, of the body.
    options: Mapping[str, str] = field(default_factory=dict)
    #: Further fields of the body.
    body: Fields = field(default_factory=dict)
    #: Further fields of each function in the request.
    function_fields: Fields = field(default_factory=dict)
    #: A regular expression to search for in the names of the models that have the tool.
    models: str = ""
    #: The format that has the tool; empty for every format that the provider speaks.
    format: str = ""
    #: Builds entry and body from the options, if placing each one is not enough.
    make: Callable[[Fields], tuple[Fields, Fields]] | None = None
    #: API betas for the request.
    betas: tuple[str, ...] = ()
    #: US dollars per call, if the provider bills calls; for a search, per distinct query.
    price: float = 0.0
    #: Whether the price is per request, regardless of the number of calls.
    priced_once: bool = False
    #: Whether a request may combine the tool with functions.
    with_functions: bool = True


@dataclass(frozen=True, slots=True)
class Compaction:
    """How to make a provider summarise a long conversation."""

    #: The request fields that make the provider summarise after a number of tokens.
    fields: Callable[[int], Fields]
    #: The lowest number of tokens that the provider accepts.
    least_tokens: int = 0
    #: API betas for such requests.
    betas: tuple[str, ...] = ()
    #: A regular expression to search for in the names of the models that can summarise.
    models: str = ""
    #: The format that supports summaries.
    format: str = ""

    def fits(self, tokens: int, format_name: str, model: str) -> bool:
        """Whether a request with this format, model and number of tokens can ask for a summary."""
        fits = tokens >= self.least_tokens and format_name == self.format
        return fits and re.search(self.models, model.lower()) is not None


def level_names(*names: str, **others: str) -> dict[str, str]:
    """The provider's names for nbagent's thinking levels: `names` are the same in both, `others` differ.

    >>> level_names("low", "high", max="highest")
    {'low': 'low', 'high': 'high', 'max': 'highest'}
    """
    return {name: name for name in names} | others


@dataclass(frozen=True, slots=True)
class Region:
    """One of a provider's sites. Each site has its own accounts and refuses the other sites' keys."""

    base_url: str
    #: The variables for keys of this region only.
    key_vars: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """One provider, or one way to reach it."""

    name: str
    #: The name of the format: "openai_chat", "openai_responses", "anthropic_messages" or "gemini".
    format: str = "openai_chat"
    #: `"module:Class"`, imported when a provider is created.
    factory: str = "nbagent.providers.known.open_source:OpenSourceProvider"
    #: Its full name for the documentation, if the short one is not clear.
    title: str = ""
    #: Other names, for the error that suggests nbagent's name.
    aliases: tuple[str, ...] = ()
    #: A regular expression that matches the full names of its models; empty if it may serve any model.
    own_models: str = ""
    #: The default model.
    model: str = ""
    #: Empty if there are `regions`.
    base_url: str = ""
    #: The sites with separate keys, by their names for `region=`, the default first.
    regions: Mapping[str, Region] = field(default_factory=dict)
    #: The environment variables that may contain the key, and those for the base URL.
    key_vars: tuple[str, ...] = ()
    base_url_vars: tuple[str, ...] = ()
    #: Whether requests need no key.
    keyless: bool = False
    #: Many people set the key for something else, so it does not make this the default provider.
    only_by_name: bool = False
    #: Its models by behaviour. The first match applies. The last profile matches any name, since new models behave like
    #: the latest ones.
    profiles: tuple[ModelProfile, ...] = ()
    #: The profiles for its other formats.
    format_profiles: Mapping[str, tuple[ModelProfile, ...]] = field(default_factory=dict)
    #: Its name in the price list, if different.
    price_name: str = ""
    #: Whether requests cost nothing.
    free: bool = False
    #: Whether its usage reports the request's cost in US dollars, as `cost`.
    reports_cost: bool = False
    #: Fields of every request body, unless the caller gives them.
    body: Fields = field(default_factory=dict)
    #: Further fields of request bodies that offer tools.
    tools_body: Fields = field(default_factory=dict)
    #: The provider's name for the output limit, which is `max_tokens` here.
    max_tokens_name: str = "max_tokens"
    #: The lowest temperature that the provider accepts. It replaces lower ones.
    min_temperature: float = 0.0
    #: Whether a streamed request asks for token counts with `stream_options`.
    stream_usage: bool = True
    #: Fields of an assistant message that the provider needs back unchanged. The first one that arrived is sent.
    replay_fields: tuple[str, ...] = ()
    #: A field that every assistant message must have. It is empty if the provider sent nothing.
    replay_always: str = ""
    #: Whether an answer's images are sent back unchanged in its `images` (chat completions).
    replay_images: bool = False
    #: A regular expression for the call ids that the provider accepts. Others are replaced.
    call_id: str = ""
    #: How long the provider can cache a prompt, the default first (Messages API). Empty: no breakpoints are sent.
    cache_ttls: tuple[str, ...] = ()
    #: A regular expression for the start of text-only models' names. All other models may be sent images.
    no_images: str = ""
    #: A regular expression for the start of image addresses that the provider fetches itself.
    image_urls: str = "https?://"
    #: Whether models that accept images also accept PDFs.
    pdfs: bool = False
    #: The output form that the provider can enforce: a JSON "schema", any JSON "object", or "" for neither.
    json_output: str = "schema"
    #: A regular expression for the start of the names of models that accept a schema and tools in one request.
    schema_with_tools: str = ""
    #: Whether thinking blocks without a signature may be sent back (Messages API).
    unsigned_thinking: bool = False
    #: Whether a model that thinks answers only in a stream.
    streams_to_think: bool = False
    #: The tools that it runs itself, by our names (see `functions.provider_tools`). The first form that fits applies.
    tools: Mapping[str, tuple[OwnTool, ...]] = field(default_factory=dict)
    #: How to make it summarise a conversation; None if it can't.
    compaction: Compaction | None = None
    #: Values of `tool_choice` other than `"auto"`.
    tool_choices: tuple[str, ...] = ("none", "required", "named")

    def profile(self, model: str, format_name: str = "") -> ModelProfile:
        """A model's profile in this format, or by default in the provider's first format."""
        profiles = self.format_profiles.get(format_name, self.profiles)
        return next((each for each in profiles if re.search(each.models, model.lower())), NOT_THINKING)

    def takes_images(self, model: str) -> bool:
        """Whether the model accepts images. An unknown model is assumed to accept them."""
        return not (self.no_images and re.match(self.no_images, model, re.IGNORECASE))

    def takes_pdfs(self, model: str) -> bool:
        """Whether the model reads PDFs. If not, it receives their text."""
        return self.pdfs and self.takes_images(model)

    def holds_schema_with_tools(self, model: str) -> bool:
        """Whether the model can call tools and then give an answer that fits a schema. Other models would call no
        tools, or refuse the request.
        """
        return bool(self.schema_with_tools and re.match(self.schema_with_tools, model, re.IGNORECASE))

    def api_key(self, address: str = "") -> str | None:
        """The key for an address, if `providers.keys` finds one. Without an address, any of the provider's keys is
        used.
        """
        return keys.find(names) if (names := self.key_vars_at(address)) else None

    def key_variable(self, address: str = "") -> str:
        """The environment variable for the key of this address. Redacted text shows its name, and a typed key is kept
        under that name.
        """
        if not self.key_vars:
            return re.sub(r"\W", "_", f"{self.name}_API_KEY").upper()
        names = self.key_vars_at(address or self.chosen_address())
        return next((name for name in names if keys.find([name])), names[0])

    def keep_key(self, key: str) -> None:
        """Remember a typed key in this process only, and not in an environment variable."""
        keys.keep(self.key_variable(), key.strip())

    def key_vars_at(self, address: str) -> tuple[str, ...]:
        """The environment variables that may contain the key for an address.

        For a region's address, the region's own variables come first, and other regions' variables are omitted.
        """
        host = urlsplit(address).netloc
        region = next((each for each in self.regions.values() if urlsplit(each.base_url).netloc == host), None)
        if region is None:
            return self.key_vars
        of_one_region = {name for each in self.regions.values() for name in each.key_vars}
        return (*region.key_vars, *(name for name in self.key_vars if name not in of_one_region))

    @property
    def region_vars(self) -> tuple[str, ...]:
        """The environment variables that may name the region."""
        return tuple(name.replace("_BASE_URL", "_REGION") for name in self.base_url_vars if self.regions)

    def chosen_address(self, region: str | None = None) -> str:
        """The base URL that `region` or the environment chooses; empty if neither does (see `address_of`).

        Raises `ConfigurationError` for an unknown region.
        """
        source = "region"
        if region is None:
            if address := _first_set(self.base_url_vars)[1]:
                return address
            source, region = _first_set(self.region_vars)
        if not region:
            return ""
        if not self.regions:
            raise ConfigurationError(f"region: {self.name} has no regions. Pass base_url for another address.")
        check_choice(source, region, tuple(self.regions))
        return self.regions[region].base_url

    def address_of(self, key: str | None) -> str:
        """The base URL to use with a key if no URL was chosen. It belongs to the region whose variable contains the
        key, or is the default.
        """
        for region in self.regions.values():
            if key and region.key_vars and keys.find(region.key_vars) == key:
                return region.base_url
        return next((region.base_url for region in self.regions.values()), self.base_url)

    def other_regions(self, address: str) -> str:
        """Advice for a key that the site at `address` refused; empty if the address is not a region's."""
        hosts: dict[str, str] = {}
        for name, region in self.regions.items():
            hosts.setdefault(urlsplit(region.base_url).netloc, name)
        site = urlsplit(address).netloc
        if hosts.pop(site, None) is None:
            return ""
        others = ", ".join(f"{name!r} ({host})" for host, name in hosts.items())
        way = f"pass region={others}, or set {self.region_vars[0]}"
        return f"The key was sent to {site}, which accepts only its own keys. If yours is from another site, {way}."


def _first_set(names: Iterable[str]) -> tuple[str, str]:
    """The first of these environment variables that is set, and its value; two empty strings if none is."""
    return next(((name, value) for name in names if (value := os.environ.get(name))), ("", ""))
