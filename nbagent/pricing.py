"""What a request costs, by the price list of the package `genai-prices`. An unknown model has no price, never 0."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from nbagent.core.messages import Usage
from nbagent.providers.catalog import CATALOG


def price(usage: Usage, model: str, vendor: str, raw: Any = None) -> float | None:
    """US dollars for these tokens, or None if the price list does not have this model of this vendor.

    `raw` is the vendor's own usage object, which may say more: Claude charges more for tokens that it caches for an
    hour, and Gemini bills what its own tools returned as input. Models on the user's machine are free.

    >>> from nbagent.core.messages import Usage
    >>> price(Usage(1_000_000, 0), "claude-sonnet-5", "claude")
    2.0
    """
    if vendor in CATALOG and CATALOG[vendor].free:
        return 0.0
    listed_at = _listed_at(vendor)
    if not _is_listed(model, listed_at):
        return None
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    tokens = Tokens(
        input_tokens=usage.input_tokens + _tool_use_prompt_tokens(raw),
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        **_one_hour_cache_writes(raw),
    )
    return float(calc_price(tokens, model, provider_id=listed_at).total_price)


def _listed_at(vendor: str) -> str:
    """The price list's name for a vendor."""
    return (CATALOG[vendor].price_name if vendor in CATALOG else "") or vendor


@lru_cache(maxsize=256)
def _is_listed(model: str, listed_at: str) -> bool:
    """Whether the price list has the model. Cached, because searching for an unknown model is slow."""
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    try:
        calc_price(Tokens(), model, provider_id=listed_at)
    except LookupError:
        return False
    return True


def priced_models(vendor: str) -> list[str]:
    """The vendor's models in the price list that are not deprecated. The list ships with the package.

    >>> "claude-sonnet-5" in priced_models("claude")
    True
    """
    from genai_prices.data_snapshot import get_snapshot

    listed = [each for each in get_snapshot().providers if each.id == _listed_at(vendor)]
    models = [model for each in listed for model in each.models if not model.deprecated]
    return [model.id for model in models if model.id[-1].isalnum()]  # an id that ends in "-" or "." is a prefix


def _one_hour_cache_writes(raw: Any) -> dict[str, int]:
    written = raw.get("cache_creation") if isinstance(raw, dict) else None
    tokens = written.get("ephemeral_1h_input_tokens") if isinstance(written, dict) else None
    return {"cache_write_1h_tokens": tokens} if isinstance(tokens, int) and tokens else {}


def _tool_use_prompt_tokens(raw: Any) -> int:
    """Tokens that Gemini's own tools (code execution, URLs, files) added to the prompt.

    Gemini counts them separately from `promptTokenCount` and bills both as input:
    https://ai.google.dev/gemini-api/docs/code-execution#billing
    """
    tokens = raw.get("toolUsePromptTokenCount") if isinstance(raw, dict) else None
    return tokens if isinstance(tokens, int) else 0
