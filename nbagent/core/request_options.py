"""The options of a request, which `Agent.chat` and its twins take by keyword and hand to the model's vendor.

The names are those of this `TypedDict` and no others. So a mistyped option is an error for type checkers, and for
nbagent before anything is sent. What a vendor takes and this list lacks goes into `extra_body`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from nbagent.core.labels import LabelOptions
from nbagent.core.limits import Limits

ThinkingLevel = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
Thinking = bool | ThinkingLevel | Literal["on", "off", "none"] | Mapping[str, Any] | None


class RequestOptions(TypedDict, total=False):
    """Options of one request. Those of the first group have one name for all vendors.

    The others are fields of single vendors and are sent as they are, as is everything in `extra_body`, which is merged
    into the request's body.

    >>> agent.chat_sync("Hi", temperature=0, extra_body={"min_p": 0.1})     # doctest: +SKIP
    """

    temperature: float | None
    thinking: Thinking
    #: `"auto"`, `"none"`, `"required"`, a tool's name, or a dict in the vendor's own form.
    tool_choice: str | Mapping[str, Any] | None
    max_tokens: int
    top_p: float
    top_k: int
    stop: str | Sequence[str]
    seed: int
    frequency_penalty: float
    presence_penalty: float
    extra_body: Mapping[str, Any]

    # OpenAI, and what speaks chat completions
    include: Sequence[str]
    logit_bias: Mapping[str, float]
    logprobs: bool
    parallel_tool_calls: bool
    prompt_cache_key: str
    prompt_cache_retention: str
    reasoning: Mapping[str, Any]
    reasoning_effort: str
    response_format: Mapping[str, Any]
    safety_identifier: str
    service_tier: str
    store: bool
    top_logprobs: int
    truncation: str
    verbosity: str
    # Claude
    context_management: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    mcp_servers: Sequence[Mapping[str, Any]]
    output_config: Mapping[str, Any]
    # Qwen, and servers for open models
    chat_template_kwargs: Mapping[str, Any]
    enable_search: bool
    enable_thinking: bool
    search_options: Mapping[str, Any]
    thinking_budget: int
    # Gemini
    cachedContent: str
    generationConfig: Mapping[str, Any]
    safetySettings: Sequence[Mapping[str, Any]]


class StreamOptions(RequestOptions, LabelOptions, total=False):
    """What `Agent.chat_stream` takes by keyword besides its own arguments: options of each request, and labels."""


class QuestionOptions(StreamOptions, total=False):
    """What `nbagent.compare` hands on to `chat_stream`, which explains the names."""

    use_tools: bool
    tools: str | Iterable[str] | None
    approve_all: bool
    instructions: str
    limits: Limits | None
    output: Any
    deps: Any


class RunOptions(QuestionOptions, total=False):
    """What `Agent.chat`, `chat_sync` and `extract` hand on to `chat_stream`."""

    origin: Mapping[str, Any] | None
