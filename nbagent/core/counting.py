"""Token counts: the provider's own, or else an estimate from the text, which is marked as one."""

from __future__ import annotations

from dataclasses import replace

from nbagent.core.history.history import CHARS_PER_TOKEN, estimate_tokens
from nbagent.core.history.preview import estimate_function_tokens
from nbagent.core.messages import LLMMessage, LLMResponse, Usage
from nbagent.core.model_request import ModelRequest


def with_counts(response: LLMResponse, request: ModelRequest) -> LLMResponse:
    """The response with token counts. Those of input and output are estimated if the provider left them out.

    `metadata["usage_estimated"]` says so. An answer that says something has taken tokens, and so has its request,
    unless the provider itself says that nothing is estimated.
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
    """The estimated tokens of a request whose answer broke off after so many characters. Vendors bill these, too."""
    return Usage(estimated_input(request), max(1, chars // CHARS_PER_TOKEN))


def estimated_input(request: ModelRequest) -> int:
    """About how many tokens a request sends."""
    return sum(map(estimate_tokens, request.all_messages)) + sum(map(estimate_function_tokens, request.tools or ()))


def _estimated_output(response: LLMResponse) -> int:
    thinking = (response.metadata or {}).get("thinking") or ""
    if not (response.message_content or response.function_calls or thinking):
        return 0
    answer = LLMMessage("assistant", response.message_content, tool_calls=response.function_calls)
    return estimate_tokens(answer) + len(thinking) // CHARS_PER_TOKEN
