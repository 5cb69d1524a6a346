"""Claude and MiniMax, over the anthropic SDK."""

from __future__ import annotations

from typing import Any

from nbagent.providers.catalog import Row
from nbagent.providers.transport import SDKTransport
from nbagent.providers.wire.anthropic_messages import MessagesCodec
from nbagent.providers.wire_provider import WireProvider

#: Claude leaves its thinking out of the answer unless it is asked for.
_ADAPTIVE = {"type": "adaptive", "display": "summarized"}


class AnthropicBaseProvider(WireProvider):
    """A vendor that speaks the Messages format."""

    vendor = "claude"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.base_url = self.base_url.removesuffix("/v1")  # the SDK's base URL has no version

    def _make_codec(self, row: Row) -> MessagesCodec:
        return MessagesCodec(row)

    def _make_transport(self, client: Any) -> SDKTransport:
        return SDKTransport("anthropic", "AsyncAnthropic", client)


class ClaudeProvider(AnthropicBaseProvider):
    """Claude models. `client` may be any client of the SDK, such as `AsyncAnthropicBedrock`.

    `thinking=True` lets the model decide how much to think and shows a summary; a dict is sent as it is.
    """

    vendor = "claude"

    def __init__(self, *args: Any, thinking: bool | dict[str, Any] | None = None, **options: Any) -> None:
        if thinking:
            options["thinking"] = _ADAPTIVE if thinking is True else thinking
        super().__init__(*args, **options)


class MiniMaxProvider(AnthropicBaseProvider):
    """MiniMax models. Outside China, pass `base_url="https://api.minimax.io/anthropic"`.

    MiniMax refuses a temperature of 0: the lowest that is sent is 0.01.
    """

    vendor = "minimax"
