"""Requests to a provider without an agent: resolved and sent as the loop does it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from nbagent.core.events import Event
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.core.model_request import Functions, ModelRequest
from nbagent.providers.base import LLMProvider


def streamed(
    provider: LLMProvider, messages: Sequence[LLMMessage], tools: Functions | None = None, **options: Any
) -> AsyncGenerator[Event | LLMResponse]:
    """The provider's answer in pieces."""
    return provider.stream(provider.resolve(ModelRequest(list(messages), tools, options)))  # type: ignore[return-value]
