"""What a request costs, from the price list of the `genai-prices` package. An unknown model has no price, never 0."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbagent.core.messages import Usage

#: Our vendor names where the price list has another.
_PROVIDER_IDS = {"claude": "anthropic", "gemini": "google", "zhipu": "zai"}
_FREE = {"local", "scripted"}


def price(usage: Usage, model: str, vendor: str, raw: Any = None) -> float | None:
    """US dollars for these tokens, or None where the list does not know the model at this vendor.

    `raw` is the usage in the vendor's words, which may say more: what is kept in Claude's cache for an hour costs more,
    and what Gemini read of its own tools' results is billed as input. A model on the user's own machine is free.

    >>> from nbagent.core.messages import Usage
    >>> price(Usage(1_000_000, 0), "claude-sonnet-5", "claude")
    2.0
    """
    if vendor in _FREE:
        return 0.0
    listed_at = _PROVIDER_IDS.get(vendor, vendor)
    if not _is_listed(model, listed_at):
        return None
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    tokens = Tokens(
        input_tokens=usage.input_tokens + _read_of_its_own_tools(raw),
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        **_kept_for_an_hour(raw),
    )
    return float(calc_price(tokens, model, provider_id=listed_at).total_price)


@lru_cache(maxsize=256)
def _is_listed(model: str, listed_at: str) -> bool:
    """Whether the list knows the model there. It looks long for what it does not know, so it is asked once."""
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    try:
        calc_price(Tokens(), model, provider_id=listed_at)
    except LookupError:
        return False
    return True


def priced_models(vendor: str) -> list[str]:
    """The models of a vendor that the price list knows and that are still sold; the list is part of the package.

    >>> "claude-sonnet-5" in priced_models("claude")
    True
    """
    from genai_prices.data_snapshot import get_snapshot

    listed = [each for each in get_snapshot().providers if each.id == _PROVIDER_IDS.get(vendor, vendor)]
    models = [model for each in listed for model in each.models if not model.deprecated]
    return [model.id for model in models if model.id[-1].isalnum()]  # others stand for the beginning of a name


def _kept_for_an_hour(raw: Any) -> dict[str, int]:
    written = raw.get("cache_creation") if isinstance(raw, dict) else None
    tokens = written.get("ephemeral_1h_input_tokens") if isinstance(written, dict) else None
    return {"cache_write_1h_tokens": tokens} if isinstance(tokens, int) and tokens else {}


def _read_of_its_own_tools(raw: Any) -> int:
    """Gemini counts what its own tools (code execution, URLs, files) gave it beside the prompt.

    `totalTokenCount` is the sum of both, the candidates and the thoughts; both are billed as input:
    https://ai.google.dev/gemini-api/docs/code-execution#billing
    """
    tokens = raw.get("toolUsePromptTokenCount") if isinstance(raw, dict) else None
    return tokens if isinstance(tokens, int) else 0
