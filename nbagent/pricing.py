"""Determines the cost of requests, from the provider's report, your own `price`, or the price list `genai-prices`.

The price of an unknown model is None, never 0. Models on the user's machine and scripted answers cost 0, and
replayed answers are not charged again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from nbagent.checks import is_number
from nbagent.core.messages import Usage
from nbagent.errors import ConfigurationError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.replay.active import current_recording

if TYPE_CHECKING:
    from nbagent.core.run import Provider
    from nbagent.providers.base import LLMProvider

#: A batched answer's share of the usual price. It is the same for every provider with a batch endpoint.
BATCH_SHARE = 0.5
#: The provider of an agent on a server, which reports each run's cost.
NBAGENT_SERVER = "nbagent server"


def price(
    usage: Usage,
    model: str,
    provider: str,
    raw: Any = None,
    is_batched: bool = False,
    *,
    rates: Mapping[str, float] | None = None,
) -> float | None:
    """Return the price of these tokens in US dollars, or None if the price list lacks the model or its tier.

    - `raw`: the provider's own usage object. It may contain the cost itself (OpenRouter), the tier that served the
      request, tokens cached for an hour (Claude charges more), or results from Gemini's own tools, billed as input. Its
      `provider_calls` are calls to the provider's own tools. Searches have a fee.
    - `is_batched`: whether the provider's batch endpoint answered. The answer then costs `BATCH_SHARE` of the usual
      price, unless the list has a batch price.
    - `rates`: the user's own `price` (see `LLMProvider.price`), which replaces the list

    Models on the user's machine are free.

    >>> from nbagent.core.messages import Usage
    >>> price(Usage(1_000_000, 0), "claude-sonnet-5", "claude")
    2.0
    """
    report: dict[str, Any] = raw if isinstance(raw, dict) else {}
    if (reported := _counted(_reported(report, provider))) is not None:
        return reported
    return _counted(_computed(usage, model, provider, report, is_batched, rates))


def _counted(dollars: float | None) -> float | None:
    """Return a cost that limits can count, or None if a server sent NaN, infinity or a negative number."""
    return dollars if dollars is not None and 0 <= dollars < math.inf else None


def _computed(
    usage: Usage, model: str, provider: str, report: dict[str, Any], is_batched: bool, rates: Mapping[str, float] | None
) -> float | None:
    fees = _tool_fees(report, model, provider)
    if rates is not None:
        return _by_rates(usage, rates) * (BATCH_SHARE if is_batched else 1.0) + fees
    if _is_free(provider):
        return 0.0
    listed_at = _listed_at(provider)
    if not _is_listed(model, listed_at):
        return None
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    cached = usage.cache_read_tokens + usage.cache_write_tokens
    tokens = Tokens(
        input_tokens=max(usage.input_tokens, cached) + _tool_use_prompt_tokens(report),  # some servers omit these
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        **_one_hour_cache_writes(report),
    )
    usual = float(calc_price(tokens, model, provider_id=listed_at).total_price)
    if not is_batched:
        if not (tier := _tier(report)):
            return usual + fees
        of_tier = float(calc_price(tokens, model, provider_id=listed_at, price_context=tier).total_price)
        return None if of_tier == usual else of_tier + fees  # the list has no price for the tier
    batched = calc_price(tokens, model, provider_id=listed_at, price_context={"processing": "batch"}).total_price
    return (float(batched) if batched < usual else usual * BATCH_SHARE) + fees


def price_at(usage: Usage, model: str, provider: Provider, raw: Any = None, is_batched: bool = False) -> float | None:
    """Return the price of these tokens, at the rates of the provider's own `price` if it is set."""
    return price(usage, model, provider.provider_name, raw, is_batched, rates=provider.price)


def check_priced(max_cost: float | None, provider: LLMProvider, name: str = "max_cost") -> None:
    """Raise `ConfigurationError` if a dollar limit is set and the price of a model is unknown."""
    tape = current_recording()
    if max_cost in (None, math.inf) or (tape is not None and tape.replay_only):  # replays cost nothing
        return
    for member in provider.members:
        provider_name, model = member.provider_name, member.model_name
        is_free = _is_free(type(member).provider_name)  # a replay's instance has the name of the provider it replays
        if is_free or _reports(provider_name) or price_at(Usage(), model, member) is not None:
            continue
        raise ConfigurationError(
            f"{name}={max_cost:g}: the price of {provider_name}:{model} is unknown, so its costs can't be counted. "
            f"Pass its price in dollars per million tokens, as in create_provider({provider_name!r}, ..., "
            f'price={{"input": 0.5, "output": 1.5, "cached": 0.05}}), or limit tokens instead: '
            "Limits(max_total_tokens=...)."
        )


def _by_rates(usage: Usage, rates: Mapping[str, float]) -> float:
    cached = usage.cache_read_tokens
    new = (usage.input_tokens - cached) * rates["input"]
    return (new + cached * rates.get("cached", rates["input"]) + usage.output_tokens * rates["output"]) / 1e6


def _reports(provider: str) -> bool:
    """Whether the provider reports each request's cost."""
    return provider == NBAGENT_SERVER or (provider in CATALOG and CATALOG[provider].reports_cost)


def _reported(report: Any, provider: str) -> float | None:
    """Return the request's cost with fees, if the provider reports it.

    If you use your own key for the model, OpenRouter reports its fee and the model provider's bill separately. xAI
    counts in ten-billionths of a dollar.
    """
    if not _reports(provider):
        return None
    if is_number(ticks := report.get("cost_in_usd_ticks")):
        return float(ticks) / 1e10
    details: Any = (report.get("is_byok") and report.get("cost_details")) or {}
    cost, billed = report.get("cost"), details.get("upstream_inference_cost")
    return float(cost) + (float(billed) if is_number(billed) else 0.0) if is_number(cost) else None


#: Names of the usual tier, which has no name in the price list.
_USUAL_TIERS = ("", "auto", "batch", "default", "on_demand", "standard")


def _tier(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the tier that served the request, in the price list's terms. The usual tier is empty."""
    named = {"service_tier": report.get("service_tier") or report.get("serviceTier"), "speed": report.get("speed")}
    tiers = {name: tier.lower() for name, tier in named.items() if isinstance(tier, str)}
    return {name: tier for name, tier in tiers.items() if tier not in _USUAL_TIERS}


def _is_free(provider: str) -> bool:
    return provider in CATALOG and CATALOG[provider].free


def _listed_at(provider: str) -> str:
    """Return the price list's name for a provider."""
    return (CATALOG[provider].price_name if provider in CATALOG else "") or provider


@lru_cache(maxsize=256)
def _is_listed(model: str, listed_at: str) -> bool:
    """Return whether the price list has the model. Cached, because searching for an unknown model is slow."""
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    try:
        calc_price(Tokens(), model, provider_id=listed_at)
    except LookupError:
        return False
    return True


def priced_models(provider: str) -> list[str]:
    """Return the provider's models in the price list, except deprecated models. The list is part of the package
    `genai-prices`.

    >>> "claude-sonnet-5" in priced_models("claude")
    True
    """
    from genai_prices.data_snapshot import get_snapshot

    listed = [model for each in get_snapshot().providers if each.id == _listed_at(provider) for model in each.models]
    # an id that ends in "-" or "." is a prefix
    return [model.id for model in listed if not model.deprecated and model.id[-1].isalnum()]


def context_window(provider: LLMProvider) -> int | None:
    """Return the context window of the provider's model in tokens, or None if it is unknown.

    >>> context_window(create_provider("claude:claude-sonnet-5"))           # doctest: +SKIP
    1000000
    """
    return getattr(provider, "n_ctx", None) or listed_window(provider.model_name, provider.provider_name)


@lru_cache(maxsize=1024)
def listed_window(model: str, provider: str) -> int | None:
    """Return a model's context window in tokens from the price list, or None for an unknown model.

    >>> listed_window("claude-sonnet-5", "claude")
    1000000
    """
    from genai_prices.data_snapshot import get_snapshot

    if _is_free(provider):
        return None
    try:
        return get_snapshot().find_provider_model(model, None, _listed_at(provider), None)[1].context_window
    except LookupError:
        return None


def _one_hour_cache_writes(report: Mapping[str, Any]) -> dict[str, int]:
    written = report.get("cache_creation")
    tokens = written.get("ephemeral_1h_input_tokens") if isinstance(written, dict) else None
    return {"cache_write_1h_tokens": tokens} if isinstance(tokens, int) and tokens else {}


def _tool_fees(report: Mapping[str, Any], model: str, provider: str) -> float:
    """Return the known fees for calls of the provider's own tools, in US dollars."""
    calls = report.get("provider_calls", ()) if provider in CATALOG else ()
    fees, billed = 0.0, set[str]()
    for call in calls:
        forms = CATALOG[provider].tools.get(call["name"], ())
        form = next((form for form in forms if re.search(form.models, model.lower())), None)
        if form is None or call["is_error"] or (form.priced_once and call["name"] in billed):
            continue
        billed.add(call["name"])
        queries = set(call["arguments"].get("queries") or [""])
        fees += form.price * (1 if form.priced_once else len(queries))
    return fees


def _tool_use_prompt_tokens(report: Mapping[str, Any]) -> int:
    """Return the tokens that Gemini's own tools (code execution, URLs, files) added to the prompt.

    Gemini counts them separately from `promptTokenCount`, and bills both as input:
    https://ai.google.dev/gemini-api/docs/code-execution#billing
    """
    tokens = report.get("toolUsePromptTokenCount")
    return tokens if isinstance(tokens, int) else 0
