"""Token counts that can be true: the vendor's own, or else an estimate from the text, which is marked as one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from nbagent.checks import is_number
from nbagent.core.history.context import CHARS_PER_TOKEN, estimate_tokens
from nbagent.core.history.preview import estimate_function_tokens
from nbagent.core.messages import LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import ModelRequest


def with_counts(response: LLMResponse, request: ModelRequest) -> LLMResponse:
    """The response with token counts. Each that the vendor left out, or that can't be true, is estimated.

    `metadata["usage_estimated"]` says so. An answer that says something has taken tokens, and so has its request,
    unless the provider itself says that nothing is estimated.
    """
    if (response.metadata or {}).get("usage_estimated") is False:
        return response
    given = response.usage
    counts = {name: _count(value) for name, value in given.to_dict().items()}
    is_estimated = not response.is_counted
    if not counts["input_tokens"]:
        counts["input_tokens"], is_estimated = estimated_input(request), True
    if not counts["output_tokens"] and (said := _estimated_output(response)):
        counts["output_tokens"], is_estimated = said, True
    cached = min(counts["cache_read_tokens"], counts["input_tokens"])
    written = min(counts["cache_write_tokens"], counts["input_tokens"] - cached)
    usage = Usage(**counts | {"cache_read_tokens": cached, "cache_write_tokens": written})
    if usage == given and not is_estimated:
        return response
    estimated = {"usage_estimated": True} if is_estimated else {}
    return replace(response, metadata={**(response.metadata or {}), "usage": usage, **estimated})


def broken_attempt(request: ModelRequest, chars: int) -> Usage:
    """The estimated tokens of a request whose answer broke off after so many characters. Vendors bill these, too."""
    return Usage(estimated_input(request), max(1, chars // CHARS_PER_TOKEN))


def _count(value: Any) -> int:
    return int(value) if is_number(value) and 0 < value < math.inf else 0


def estimated_input(request: ModelRequest) -> int:
    """About how many tokens a request sends."""
    return sum(map(estimate_tokens, request.all_messages)) + sum(map(estimate_function_tokens, request.tools or ()))


def _estimated_output(response: LLMResponse) -> int:
    thinking = (response.metadata or {}).get("thinking") or ""
    if not (response.message_content or response.function_calls or thinking):
        return 0
    answer = LLMMessage("assistant", response.message_content, tool_calls=response.function_calls)
    return estimate_tokens(answer) + len(thinking) // CHARS_PER_TOKEN
