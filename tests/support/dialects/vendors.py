"""How each vendor answers and what it refuses. Vendors that are not listed here are taken to be lenient.

Sources: each vendor's API reference; what their errors say.
"""

from __future__ import annotations

from dataclasses import replace

from nbagent.providers.catalog import CATALOG
from support.dialects.anthropic_messages import MessagesDialect
from support.dialects.base import Dialect
from support.dialects.gemini import GeminiDialect
from support.dialects.openai_chat import (
    OPENAI_FIELDS,
    TEXTS,
    WORDS,
    ZHIPU_FIELDS,
    ChatDialect,
    numbered_error,
    zhipu_error,
)
from support.dialects.openai_responses import ResponsesDialect

_BOTH = frozenset({"max_tokens", "max_completion_tokens"})
_OVERLONG = "This endpoint's maximum context length is 8192 tokens. However, you requested about 9001 tokens."

DIALECTS: dict[str, Dialect] = {
    "openai chat": ChatDialect(
        thinking="",
        fields=OPENAI_FIELDS,
        limits=frozenset({"max_completion_tokens"}),
        cool=("gpt-5", "o1", "o3", "o4"),
        longest_id=40,
        pedantic=True,
        written_as="cache_write_tokens",
    ),
    "openai responses": ResponsesDialect(),
    "claude": MessagesDialect(),
    "minimax": MessagesDialect(
        signed=False,
        cool=(),
        least_temperature=0.01,
        id_pattern=".+",
        texts={
            "key": "login fail: Please carry the API secret key in the 'X-Api-Key' field of the request header",
            "rate_limit": "rate limit exceeded(RPM) (1002)",
            "overloaded": "server overloaded (1039)",
            "context": "invalid params, context window exceeds limit (2013)",
        },
    ),
    "qwen": ChatDialect(
        written_as="cache_creation_input_tokens",
        empty_ids=True,
        texts=TEXTS
        | {"context": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 8192]"},
    ),
    "zhipu": ChatDialect(
        sees=False,
        returned="reasoning_content",
        fields=ZHIPU_FIELDS,
        pedantic=True,
        usage_unasked=True,
        error=zhipu_error,
        words=WORDS | {"content_filter": "sensitive"},
        texts={
            "key": "身份验证失败。",
            "rate_limit": "您当前使用该API的并发数过高,请降低并发",
            "overloaded": "当前API请求过多,请稍后重试。",
            "context": "Prompt exceeds max length",
        },
    ),
    "deepseek": ChatDialect(returned="reasoning_content", mandatory=True, cached_by="hit"),
    "openrouter": ChatDialect(
        thinking="reasoning_details",
        returned="reasoning_details",
        limits=_BOTH,
        error=numbered_error,
        longest_id=40,
        texts=TEXTS | {"context": _OVERLONG},
    ),
    "gemini": GeminiDialect(),
    "ollama": ChatDialect(
        thinking="reasoning",
        returned="reasoning",
        limits=_BOTH,
        one_piece=True,
        texts=TEXTS | {"context": "the input length exceeds the context length"},
    ),
    "open_source vllm": ChatDialect(thinking="reasoning", returned="reasoning", limits=_BOTH, error=numbered_error),
    "open_source llama.cpp": ChatDialect(
        returned="reasoning_content",
        texts=TEXTS | {"context": "request (9001 tokens) exceeds the available context size (8192 tokens)"},
    ),
    "open_source tags": ChatDialect(thinking="<think>"),
    "local": ChatDialect(thinking="", sees=False),
}

#: For vendors that are not listed: they take everything that is well-formed.
_LENIENT: dict[str, Dialect] = {
    "openai_chat": ChatDialect(limits=_BOTH),
    "openai_responses": ResponsesDialect(cool=()),
    "anthropic_messages": MessagesDialect(signed=False, cool=(), id_pattern=".+"),
    "gemini": GeminiDialect(),
}


def dialect_of(name: str) -> Dialect:
    """The dialect of a vendor. One that is not listed gets a lenient dialect of its format."""
    if name in DIALECTS:
        return DIALECTS[name]
    vendor = CATALOG[name]
    dialect = _LENIENT[vendor.format]
    if isinstance(dialect, ChatDialect) and vendor.replay_fields:
        dialect = replace(dialect, thinking=vendor.replay_fields[0], returned=vendor.replay_fields[0])
    return dialect
