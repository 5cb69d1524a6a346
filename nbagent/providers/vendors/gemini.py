"""Gemini, over httpx in its own format."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.http.client import HttpxTransport
from nbagent.providers.http.provider import HTTPProvider
from nbagent.providers.vendors.catalog import Row


class GeminiProvider(HTTPProvider):
    """Gemini models. `base_url` ends in the API's version; `/v1beta` is added where there is none.

    Options such as `max_tokens`, `topP` or `seed` go into `generationConfig`; `safetySettings`, `tools` (Gemini's own)
    and other fields of the body stay beside it. `client` is an `httpx.AsyncClient`.
    """

    vendor = "gemini"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if not re.search(r"/v\d", urlsplit(self.base_url).path):
            self.base_url += "/v1beta"

    def _make_codec(self, row: Row) -> GeminiCodec:
        return GeminiCodec(row)

    def _make_transport(self, client: Any) -> HttpxTransport:
        return HttpxTransport(client, key_header="x-goog-api-key")
