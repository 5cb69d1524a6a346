"""Claude and MiniMax, over the anthropic SDK."""

from __future__ import annotations

from typing import Any

from nbagent.errors import ConfigurationError
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.http.client import SDKTransport
from nbagent.providers.http.provider import HTTPProvider
from nbagent.providers.vendors.catalog import Row


class AnthropicBaseProvider(HTTPProvider):
    """A vendor that speaks the Messages format.

    `cache` says how long the beginning of a conversation stays in the vendor's prompt cache: `"5m"` (or True, which is
    what you get), Claude also `"1h"`, whose writing costs more; `False` for not at all. A request holds at most four
    breakpoints; those of your own, `cache_control` in a content part, count and come first.

    >>> MiniMaxProvider(cache="1h")
    Traceback (most recent call last):
    nbagent.errors.ConfigurationError: cache='1h' is none of minimax's: pass True, False or '5m'.
    """

    vendor = "claude"

    def __init__(self, *args: Any, cache: str | bool = True, **options: Any) -> None:
        self._cache = cache
        super().__init__(*args, **options)
        self.base_url = self.base_url.removesuffix("/v1")  # the SDK's base URL has no version
        betas = [name for name in (self._headers.get("anthropic-beta"), *self._ask.family.betas) if name]
        if betas:
            self._headers = {**self._headers, "anthropic-beta": ",".join(betas)}

    def _make_codec(self, row: Row) -> MessagesCodec:
        if self._cache not in (True, False, *row.cache):
            times = " or ".join(map(repr, row.cache))
            raise ConfigurationError(f"cache={self._cache!r} is none of {row.name}'s: pass True, False or {times}.")
        return MessagesCodec(row, self._cache)

    def _make_transport(self, client: Any) -> SDKTransport:
        return SDKTransport("anthropic", "AsyncAnthropic", client)


class ClaudeProvider(AnthropicBaseProvider):
    """Claude models. `client` may be any client of the SDK, such as `AsyncAnthropicBedrock`."""

    vendor = "claude"


class MiniMaxProvider(AnthropicBaseProvider):
    """MiniMax models. Outside China, pass `base_url="https://api.minimax.io/anthropic"`.

    MiniMax refuses a temperature of 0: the lowest that is sent is 0.01.
    """

    vendor = "minimax"
