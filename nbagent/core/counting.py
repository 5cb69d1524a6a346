"""Token counts: the provider's own, or else an estimate from the text, marked as one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nbagent.core.history.history import CHARS_PER_TOKEN, estimate_tokens
from nbagent.core.messages import LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import ModelRequest


def with_counts(response: LLMResponse, request: ModelRequest) -> LLMResponse:
    """The response with token counts. Input and output counts are estimated if the provider omits them.

    `metadata["usage_estimated"]` marks an estimate. A non-empty answer and its request always count as tokens, unless
    the provider itself says that nothing is estimated.
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
    """The estimated tokens of a request whose answer broke off after this many characters.

    Providers also bill these.
    """
    return Usage(estimated_input(request), max(1, chars // CHARS_PER_TOKEN))


def estimated_input(request: ModelRequest) -> int:
    """The approximate number of tokens that a request sends."""
    return estimated_tokens(request.all_messages, request.tools or ())


def estimated_tokens(messages: Iterable[LLMMessage], functions: Iterable[Mapping[str, Any]]) -> int:
    """The sum of the estimates of each message and each tool."""
    return sum(map(estimate_tokens, messages)) + sum(map(estimate_function_tokens, functions))


def estimate_function_tokens(function: Mapping[str, Any]) -> int:
    """A rough count of the tokens that describe one function to the model."""
    return len(json.dumps(function, default=str)) // CHARS_PER_TOKEN


def _estimated_output(response: LLMResponse) -> int:
    thinking = (response.metadata or {}).get("thinking") or ""
    if not (response.message_content or response.function_calls or thinking):
        return 0
    answer = LLMMessage("assistant", response.message_content, tool_calls=response.function_calls)
    return estimate_tokens(answer) + len(thinking) // CHARS_PER_TOKEN
