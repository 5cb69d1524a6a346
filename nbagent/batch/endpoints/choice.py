"""The providers with a batch endpoint."""

from __future__ import annotations

from typing import Any

from nbagent.batch.endpoints.claude import ClaudeEndpoint
from nbagent.batch.endpoints.endpoint import Endpoint
from nbagent.batch.endpoints.gemini import GeminiEndpoint
from nbagent.batch.endpoints.openai import OpenAIEndpoint
from nbagent.errors import ConfigurationError
from nbagent.providers.http_provider import HTTPProvider

ENDPOINTS: dict[str, type[Endpoint]] = {"openai": OpenAIEndpoint, "claude": ClaudeEndpoint, "gemini": GeminiEndpoint}
#: The providers' own clients. Azure, Bedrock and Vertex have other batch APIs, or none.
_OWN_CLIENTS = ("AsyncOpenAI", "AsyncAnthropic", "AsyncClient")


def endpoint_for(provider: Any) -> Endpoint:
    """Return the provider's batch endpoint. Raises `ConfigurationError` if it has none."""
    client = getattr(provider, "client", None)
    if isinstance(provider, HTTPProvider) and provider.provider_name in ENDPOINTS:
        if client is None or type(client).__name__ in _OWN_CLIENTS:
            return ENDPOINTS[provider.provider_name](provider)
        provider_name = f"{provider.provider_name} through {type(client).__name__}"
    else:
        provider_name = getattr(provider, "provider_name", type(provider).__name__)
    raise ConfigurationError(
        f"engine='batch': nbagent has no batch endpoint for {provider_name}. Use one of {', '.join(ENDPOINTS)}, "
        "or omit engine to send the rows now."
    )
