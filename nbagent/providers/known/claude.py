"""Claude, through the anthropic SDK, and the base of all providers with the Messages format.

Thinking: https://platform.claude.com/docs/en/build-with-claude/thinking, …/preserved-thinking and the models' guides
(read in November 2026)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nbagent.checks import check_choice
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.http.transport import SDKTransport
from nbagent.providers.http_provider import HTTPProvider
from nbagent.providers.provider_facts import (
    NOT_THINKING,
    Compaction,
    Fields,
    ModelProfile,
    OwnTool,
    ProviderFacts,
    level_names,
)

# adaptive since 4.6, with a token budget before
_ADAPTIVE_THINKING = {"type": "adaptive", "display": "summarized"}
#: Otherwise the API refuses a thinking block once anything before it has changed, such as a trimmed history or a tool.
_DROP = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
_LEVELS = level_names("low", "medium", "high", "xhigh", "max")
#: https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool
_TOOLS = {"memory": {"type": "memory_20250818", "name": "memory"}}

_ADAPTIVE = ModelProfile(
    show_thinking={"thinking": _ADAPTIVE_THINKING},
    thinking_on={"thinking": _ADAPTIVE_THINKING},
    thinking_off={"thinking": {"type": "disabled"}},
    level_field="output_config.effort",
    levels=_LEVELS,
    temperature="never",
    native_tools=_TOOLS,
)
_BOUND = replace(
    _ADAPTIVE,
    show_thinking={"thinking": {**_ADAPTIVE_THINKING, **_DROP}},
    thinking_on={"thinking": {**_ADAPTIVE_THINKING, **_DROP}},
    betas=("thinking-binding-controls-2026-08-01",),
)
_UNASKED_OFF = replace(_ADAPTIVE, thinks_by_default=False, show_thinking={}, thinking_off={})
_BUDGETED = ModelProfile(
    thinks_by_default=False,
    thinking_on={"thinking": {"type": "enabled", "budget_tokens": 8192}},
    thinking_off={},
    level_field="thinking.budget_tokens",
    levels={"minimal": 1024, "low": 4096, "medium": 8192, "high": 16_384, "xhigh": 24_576, "max": 28_672},
    below_max_tokens=True,
    temperature="unthinking",
    forced_tools="unthinking",
    betas=("interleaved-thinking-2025-05-14",),
    native_tools=_TOOLS,
)

PROFILES = (
    replace(
        _BOUND,
        models=r"(fable|mythos)-5[-.][1-9](?!\d)|opus-5[-.][5-9](?!\d)",
        thinking_off=None,
        forced_tools="never",
    ),
    replace(
        _BOUND,
        models=r"sonnet-5[-.][5-9](?!\d)",
        thinking_off={"thinking": {"type": "between_tools"}},
        forced_tools="never",
    ),
    replace(_BOUND, models=r"haiku-5"),
    replace(_ADAPTIVE, models=r"mythos-preview", thinking_off=None, forced_tools="never"),
    replace(_ADAPTIVE, models=r"fable|mythos", thinking_off=None),
    replace(_ADAPTIVE, models=r"(opus|sonnet)-5"),
    replace(_UNASKED_OFF, models=r"opus-4[-.][78]"),
    replace(
        _UNASKED_OFF,
        models=r"(opus|sonnet)-4[-.]6",
        levels=level_names("low", "medium", "high", "max"),
        temperature="unthinking",
    ),
    replace(_BUDGETED, models=r"(opus|sonnet|haiku)-4"),
    replace(_BUDGETED, models=r"claude-3[-.]7", betas=(), native_tools={}),
    replace(NOT_THINKING, models=r"claude-(3|2|instant)"),
    replace(_BOUND, models=r"claude-[a-z]+-\d"),
    replace(_ADAPTIVE, thinks_by_default=None, show_thinking={}, temperature="always"),
)


def _remote_mcp(options: Fields) -> tuple[Fields, Fields]:
    """https://platform.claude.com/docs/en/agents-and-tools/mcp-connector (read in November 2026)"""
    toolset: dict[str, Any] = {"type": "mcp_toolset", "mcp_server_name": options["server"]}
    if (allowed := options.get("allowed_tools")) is not None:
        toolset |= {"default_config": {"enabled": False}, "configs": {name: {"enabled": True} for name in allowed}}
    return toolset, {"mcp_servers": [{"type": "url", "url": options["url"], "name": options["server"]}]}


_NOT_BEFORE_4 = r"^(?!.*claude-(2|3|instant))"
_DOMAINS = {name: name for name in ("max_uses", "allowed_domains", "blocked_domains")}
#: https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-reference (read in November 2026). Newer versions
#: of the search run code in a sandbox to filter results, which nobody asked for.
TOOLS = {
    "web_search": (
        OwnTool(
            {"type": "web_search_20250305", "name": "web_search"},
            {**_DOMAINS, "user_location": "user_location"},
            price=0.01,
            models=_NOT_BEFORE_4,
        ),
    ),
    "web_fetch": (
        OwnTool(
            {"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": True}},
            {**_DOMAINS, "max_content_tokens": "max_content_tokens"},
            models=_NOT_BEFORE_4,
        ),
    ),
    "code_execution": (OwnTool({"type": "code_execution_20250825", "name": "code_execution"}, models=_NOT_BEFORE_4),),
    "remote_mcp": (OwnTool(make=_remote_mcp, betas=("mcp-client-2025-11-20",), models=_NOT_BEFORE_4),),
    "tool_search": (
        OwnTool(
            {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
            function_fields={"defer_loading": True},
            models=_NOT_BEFORE_4,
        ),
    ),
}


def _compacted(tokens: int) -> dict[str, Any]:
    """Clear old tool results first, then summarise all earlier messages."""
    clear = {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": tokens * 3 // 4}}
    compact = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": tokens}}
    return {"context_management": {"edits": [clear, compact]}}


#: https://platform.claude.com/docs/en/build-with-claude/compaction and …/context-editing (read in November 2026)
_COMPACTION = Compaction(
    _compacted,
    least_tokens=50_000,
    betas=("context-management-2025-06-27", "compact-2026-01-12"),
    models=r"(opus|sonnet|haiku)-(4[-.][6-9]|[5-9])|fable|mythos",
    format="anthropic_messages",
)

FACTS = ProviderFacts(
    "claude",
    title="Anthropic",
    aliases=("anthropic",),
    own_models=r"claude-.*",
    format="anthropic_messages",
    factory=f"{__name__}:ClaudeProvider",
    model="claude-sonnet-5",
    base_url="https://api.anthropic.com",
    key_vars=("ANTHROPIC_API_KEY",),
    base_url_vars=("ANTHROPIC_BASE_URL",),
    profiles=PROFILES,
    price_name="anthropic",
    body={"max_tokens": 32_000},
    call_id="[a-zA-Z0-9_-]+",
    cache_ttls=("5m", "1h"),
    schema_with_tools=".",
    compaction=_COMPACTION,
    tools=TOOLS,
    pdfs=True,
)


class AnthropicBaseProvider(HTTPProvider):
    """A provider that uses the Messages format.

    `cache` sets how long the provider caches the start of a conversation: `"5m"` (or True, the default), or False for
    no caching. Claude also accepts `"1h"`, whose cache writes cost more. A request has at most four breakpoints. Your
    own breakpoints (`cache_control` in a content part) count towards these four and take precedence.

    >>> from nbagent.providers import MiniMaxProvider
    >>> MiniMaxProvider(cache="1h")
    Traceback (most recent call last):
    nbagent.errors.ConfigurationError: cache: expected True, False or '5m', got '1h'.
    """

    provider_name = "claude"
    package = "anthropic"

    def __init__(self, *args: Any, cache: str | bool = True, **options: Any) -> None:
        self._cache = cache
        super().__init__(*args, **options)
        self.base_url = self.base_url.removesuffix("/v1")  # the SDK's base URL has no version
        headers = self.access.headers
        if betas := [*filter(None, [headers.get("anthropic-beta")]), *self._options_resolver.profile.betas]:
            headers["anthropic-beta"] = ",".join(betas)

    def _make_codec(self, facts: ProviderFacts) -> MessagesCodec:
        check_choice("cache", self._cache, (True, False, *facts.cache_ttls))
        return MessagesCodec(facts, self._cache)

    def _make_transport(self, client: Any) -> SDKTransport:
        return SDKTransport(self.package, "AsyncAnthropic", client)


class ClaudeProvider(AnthropicBaseProvider):
    """Claude models. `client` can be any async client from the SDK, such as `AsyncAnthropicBedrock`."""

    provider_name = "claude"
