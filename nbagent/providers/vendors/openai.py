"""OpenAI, over its own SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nbagent.errors import ConfigurationError
from nbagent.providers.formats.codec import Codec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.providers.http.client import SDKTransport
from nbagent.providers.http.provider import HTTPProvider
from nbagent.providers.vendors.catalog import Row
from nbagent.providers.vendors.families import family_of

if TYPE_CHECKING:
    from pydantic import SecretStr

_APIS = ("responses", "chat")


class OpenAIProvider(HTTPProvider):
    """GPT models, by the Responses API or by chat completions. See `HTTPProvider` for the other options.

    - `api`: `"responses"`, `"chat"`, or None: Responses for models that reason (only there does their reasoning last
      from one turn to the next) at OpenAI's own address, chat completions for all others. A `base_url` or `client` that
      leads elsewhere means chat completions, which every gateway speaks; Azure users say `api="responses"`.
    - `client`: any client of the SDK, such as `AsyncAzureOpenAI`

    Responses requests ask for encrypted reasoning and for nothing to be stored. At an address that is not OpenAI's,
    a model that does not reason may refuse the former: pass `include=[]`. Summaries of the reasoning are asked for and
    come as thinking; OpenAI gives them to verified organizations alone.

    The prompt's beginning is cached by itself; `prompt_cache_key="name"` helps requests that begin alike to meet.

    Raises `ConfigurationError` for any other `api`.

    >>> OpenAIProvider(model="gpt-4.1-mini", api="responses").codec.path("gpt-4.1-mini", True)
    '/responses'
    """

    vendor = "openai"

    def __init__(
        self,
        api_key: str | SecretStr | None = None,
        model: str | None = None,
        base_url: str | None = None,
        *,
        api: str | None = None,
        **options: Any,
    ) -> None:
        if api not in (None, *_APIS):
            raise ConfigurationError(f"api={api!r} is none of OpenAI's: pass 'responses', 'chat', or None to choose.")
        self._api = api
        super().__init__(api_key, model, base_url, **options)

    def _make_codec(self, row: Row) -> Codec:
        family = family_of("openai", "openai_chat", self.model_name)
        reasons = family.thinks and bool(family.models)  # the last row is for models that nobody knows
        at_home = self._at_openai()
        api = self._api or ("responses" if reasons and at_home else "chat")
        # elsewhere a model may go by any name: only OpenAI's own are known not to reason
        return ChatCodec(row) if api == "chat" else ResponsesCodec(row, reasoning=reasons or not at_home)

    def _make_transport(self, client: Any) -> SDKTransport:
        return SDKTransport("openai", "AsyncOpenAI", client)

    def _at_openai(self) -> bool:
        """Whether requests go to OpenAI itself, in whatever region."""
        address = self.base_url if self._client is None else str(getattr(self._client, "base_url", ""))
        return f".{urlsplit(address).hostname}".endswith(".api.openai.com")
