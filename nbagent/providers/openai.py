"""OpenAI, over its own SDK."""

from __future__ import annotations

from typing import Any

from nbagent.providers.catalog import Row
from nbagent.providers.transport import SDKTransport
from nbagent.providers.wire.openai_chat import ChatCodec
from nbagent.providers.wire_provider import WireProvider


class OpenAIProvider(WireProvider):
    """GPT models by chat completions. `client` may be any client of the SDK, such as `AsyncAzureOpenAI`."""

    vendor = "openai"

    def _make_codec(self, row: Row) -> ChatCodec:
        return ChatCodec(row)

    def _make_transport(self, client: Any) -> SDKTransport:
        return SDKTransport("openai", "AsyncOpenAI", client)
