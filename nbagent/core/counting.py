"""Token counts from the provider, or estimates from the text, which are marked as estimates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nbagent.core.history.history import CHARS_PER_TOKEN, estimate_tokens
from nbagent.core.messages import LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import ModelRequest


def with_counts(response: LLMResponse, request: ModelRequest) -> LLMResponse:
    """Add token counts to a response. Counts that the provider omits or sends as zeros are estimated.

    `metadata["usage_estimated"]` is True for an estimate. A provider whose zeros are exact can set it to False.
    """
    if (response.metadata or {}).get("usage_estimated") is False:
        return response
    usage = response.usage
    if not usage.input_tokens:
        usage = replace(usage, input_tokens=estimated_input(request))
    if not usage.output_tokens:
        usage = replace(usage, output_tokens=_estimated_output(response))
    if usage == response.usage and response.is_counted:
        return response
    return replace(response, metadata={**(response.metadata or {}), "usage": usage, "usage_estimated": True})


def broken_attempt(request: ModelRequest, chars: int) -> Usage:
    """Estimate the tokens that a provider bills for a request whose answer broke off after this many characters."""
    return Usage(estimated_input(request), max(1, chars // CHARS_PER_TOKEN))


def estimated_input(request: ModelRequest) -> int:
    """Estimate the number of tokens that a request sends."""
    return estimated_tokens(request.all_messages, request.tools or ())


def estimated_tokens(messages: Iterable[LLMMessage], functions: Iterable[Mapping[str, Any]]) -> int:
    """Estimate the number of tokens in messages and tool definitions."""
    return sum(map(estimate_tokens, messages)) + sum(map(estimate_function_tokens, functions))


def estimate_function_tokens(function: Mapping[str, Any]) -> int:
    """Estimate the number of tokens in one function's definition."""
    return len(json.dumps(function, default=str)) // CHARS_PER_TOKEN


def _estimated_output(response: LLMResponse) -> int:
    thinking = (response.metadata or {}).get("thinking") or ""
    if not (response.message_content or response.function_calls or thinking):
        return 0
    answer = LLMMessage("assistant", response.message_content, tool_calls=response.function_calls)
    return estimate_tokens(answer) + len(thinking) // CHARS_PER_TOKEN
