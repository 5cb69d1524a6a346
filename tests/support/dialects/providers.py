"""Each provider's answers and refusals. Providers that are not listed here are lenient.

Sources: the providers' API references and errors.
"""

from __future__ import annotations

from nbagent.providers.catalog import CATALOG
from support.dialects.anthropic_messages import MessagesDialect
from support.dialects.base import Dialect
from support.dialects.gemini import GeminiDialect
from support.dialects.openai_chat import MISTRAL_FIELDS, OPENAI_FIELDS, TEXTS, WORDS, ZHIPU_FIELDS, ChatDialect
from support.dialects.openai_responses import ResponsesDialect

_ONLY = frozenset({"max_completion_tokens"})
_BOTH = _ONLY | {"max_tokens"}


def _too_long(text: str) -> dict[str, str]:
    """The error for a conversation that exceeds the context."""
    return TEXTS | {"context": text}


DIALECTS: dict[str, Dialect] = {
    "openai chat": ChatDialect(
        thinking="",
        fields=OPENAI_FIELDS,
        limits=_ONLY,
        cool=("gpt-5", "o1", "o3", "o4"),
        id_pattern=".{1,40}",
        pedantic=True,
        counts_written=True,
    ),
    "openai responses": ResponsesDialect(),
    "claude": MessagesDialect(),
    "minimax": MessagesDialect(
        signed=False,
        cool=(),
        least_temperature=0.01,
        id_pattern=".+",
        texts=_too_long("invalid params, context window exceeds limit (2013)"),
    ),
    "qwen": ChatDialect(
        texts=_too_long("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 8192]")
    ),
    "zhipu": ChatDialect(
        sees=False,
        returned="reasoning_content",
        fields=ZHIPU_FIELDS,
        pedantic=True,
        usage_unasked=True,
        words=WORDS | {"content_filter": "sensitive"},
    ),
    "deepseek": ChatDialect(returned="reasoning_content", mandatory=True),
    "openrouter": ChatDialect(
        thinking="reasoning_details",
        returned="reasoning_details",
        limits=_BOTH,
        numbered=True,
        id_pattern=".{1,40}",
        texts=_too_long("This endpoint's maximum context length is 8192 tokens. However, you requested about 9001."),
    ),
    "mistral": ChatDialect(fields=MISTRAL_FIELDS, usage_unasked=True, id_pattern="[a-zA-Z0-9]{9}"),
    "xai": ChatDialect(limits=_ONLY),
    "groq": ChatDialect(thinking="reasoning", returned="reasoning", sees=False),
    "moonshot": ChatDialect(returned="reasoning_content", limits=_ONLY, cool=("kimi",)),
    "gemini": GeminiDialect(),
    "ollama": ChatDialect(
        thinking="reasoning",
        returned="reasoning",
        limits=_BOTH,
        texts=_too_long("the input length exceeds the context length"),
    ),
    "open_source vllm": ChatDialect(thinking="reasoning", returned="reasoning", limits=_BOTH, numbered=True),
    "open_source llama.cpp": ChatDialect(
        returned="reasoning_content",
        alternates=True,
        texts=_too_long("request (9001 tokens) exceeds the available context size (8192 tokens)"),
    ),
    "open_source tags": ChatDialect(thinking="<think>"),
    "local": ChatDialect(thinking="", sees=False),
}


def dialect_of(name: str) -> Dialect:
    """A provider's dialect. One that is not listed accepts anything well-formed."""
    if name in DIALECTS:
        return DIALECTS[name]
    provider = CATALOG[name]
    returned = (
        {"thinking": provider.replay_fields[0], "returned": provider.replay_fields[0]} if provider.replay_fields else {}
    )
    lenient = {
        "openai_chat": ChatDialect(limits=_BOTH, **returned),
        "openai_responses": ResponsesDialect(cool=()),
        "anthropic_messages": MessagesDialect(signed=False, cool=(), id_pattern=".+"),
        "gemini": GeminiDialect(),
    }
    return lenient[provider.format]
