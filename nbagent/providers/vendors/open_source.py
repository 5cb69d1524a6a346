"""Any server that speaks OpenAI chat completions: vLLM, llama.cpp, Ollama, LM Studio, LocalAI, and vendors by row."""

from __future__ import annotations

from typing import Any

from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.http.client import HttpxTransport
from nbagent.providers.http.provider import HTTPProvider
from nbagent.providers.vendors.catalog import Row


class OpenSourceProvider(HTTPProvider):
    """Chat completions over httpx, with or without a key. `base_url` usually ends in `/v1`.

    `vendor` names another row of the catalog, as `create_provider("qwen")` does. `client` is an `httpx.AsyncClient`.
    """

    vendor = "open_source"

    def _make_codec(self, row: Row) -> ChatCodec:
        return ChatCodec(row)

    def _make_transport(self, client: Any) -> HttpxTransport:
        return HttpxTransport(client)
