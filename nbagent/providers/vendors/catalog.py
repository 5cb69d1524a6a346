"""What is known about each vendor, as rows of data: where it is, how it is encoded, which keys it reads.

A row steers *encoding and connecting* only; decoding is the same for all vendors of a wire format. A new vendor that
speaks the OpenAI chat format is one row here and one `.sse` sample under `tests/wire/`.

The order of the rows is the order in which `resolve(None)` looks for a key:
openai, claude, minimax, qwen, zhipu, deepseek, openrouter, gemini.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbagent.providers.keys import keys


@dataclass(frozen=True, slots=True)
class Row:
    """One vendor, or one way to reach it.

    `factory` is `"module:Class"`, imported when the provider is made. `wire` names the format.
    """

    name: str
    factory: str
    wire: str
    model: str = ""
    base_url: str = ""
    key_vars: tuple[str, ...] = ()
    base_url_vars: tuple[str, ...] = ()
    #: Requests without a key are fine.
    keyless: bool = False
    #: Fields of every request body, unless the caller gives them.
    body: Mapping[str, Any] = field(default_factory=dict)
    #: Fields of request bodies that offer tools.
    tools_body: Mapping[str, Any] = field(default_factory=dict)
    #: The vendor's name of the output limit, which callers always call `max_tokens`.
    max_tokens_name: str = "max_tokens"
    #: Lower temperatures are refused: this one is sent in their place.
    min_temperature: float = 0.0
    #: Ask for token counts in a stream by `stream_options`.
    stream_usage: bool = True
    #: Fields of an assistant message that the vendor wants back as received: the first of these that came.
    replay: tuple[str, ...] = ()
    #: A field that every assistant message must have, empty where nothing was received.
    replay_always: str = ""
    #: What the id of a call may look like, as a regular expression: ids from elsewhere that don't fit get a stand-in.
    call_id: str = ""
    #: How long a cached prompt can be kept (Messages API); the first of these unless told. Empty: no breakpoints.
    cache: tuple[str, ...] = ()
    #: How the names of models begin that take no images, as a regular expression. Those not named here may try.
    no_images: str = ""
    #: How the addresses of images begin that the vendor fetches itself, as a regular expression.
    image_urls: str = "https?://"
    #: The images of an answer go back in its `images`, as they came (chat completions).
    replay_images: bool = False
    #: How an answer can be held to JSON: to a "schema", to be some "object", or "" for not at all.
    json_output: str = "schema"
    #: Thinking blocks without a signature may be sent back (Messages API).
    unsigned_thinking: bool = False
    #: Whose rows of `families` say how the models think; this vendor's where nothing else is said.
    families: str = ""
    #: Answers with thinking come as a stream only.
    streams_to_think: bool = False
    #: What `tool_choice` can be besides `"auto"`.
    tool_choices: tuple[str, ...] = ("none", "required", "named")

    def api_key(self) -> str | None:
        """The key, from wherever `providers.keys` finds one of the key variables."""
        return keys.find(self.key_vars) if self.key_vars else None

    def env_base_url(self) -> str:
        """The base URL: from the environment, else the vendor's own."""
        return next((value for name in self.base_url_vars if (value := os.environ.get(name))), self.base_url)


_CHAT = "nbagent.providers.vendors.open_source:OpenSourceProvider"
_CHAT_REASONING = ("reasoning_details", "reasoning_content", "reasoning")

_ROWS = (
    Row(
        "openai",
        "nbagent.providers.vendors.openai:OpenAIProvider",
        "openai_chat",
        model="gpt-5.6-terra",
        base_url="https://api.openai.com/v1",
        key_vars=("OPENAI_API_KEY",),
        base_url_vars=("OPENAI_BASE_URL",),
        max_tokens_name="max_completion_tokens",
        call_id="[a-zA-Z0-9_-]{1,40}",
        no_images=r"gpt-3\.5|gpt-4(-\d{4}|-32k.*)?$|o1-(mini|preview)|o3-mini",
    ),
    Row(
        "claude",
        "nbagent.providers.vendors.anthropic:ClaudeProvider",
        "anthropic_messages",
        model="claude-sonnet-5",
        base_url="https://api.anthropic.com",
        key_vars=("ANTHROPIC_API_KEY",),
        base_url_vars=("ANTHROPIC_BASE_URL",),
        body={"max_tokens": 32_000},
        call_id="[a-zA-Z0-9_-]+",
        cache=("5m", "1h"),
    ),
    # https://platform.minimax.io/docs/api-reference/text-anthropic-api: temperature is in (0, 1]
    Row(
        "minimax",
        "nbagent.providers.vendors.anthropic:MiniMaxProvider",
        "anthropic_messages",
        model="MiniMax-M3",
        base_url="https://api.minimaxi.com/anthropic",
        key_vars=("MINIMAX_API_KEY",),
        base_url_vars=("MINIMAX_BASE_URL",),
        body={"max_tokens": 32_000},
        min_temperature=0.01,
        cache=("5m",),
        no_images="MiniMax-M2",
        json_output="",
        unsigned_thinking=True,
    ),
    # https://help.aliyun.com/zh/model-studio: earlier reasoning is ignored, parallel calls are off unless asked for,
    # the open models think in a stream only
    Row(
        "qwen",
        _CHAT,
        "openai_chat",
        model="qwen3.7-plus",
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        key_vars=("DASHSCOPE_API_KEY",),
        base_url_vars=("DASHSCOPE_BASE_URL",),
        tools_body={"parallel_tool_calls": True},
        streams_to_think=True,
        tool_choices=("none", "named"),
        json_output="",  # refused while thinking
        no_images="qwen3-(max|coder)|qwq",
    ),
    # https://docs.bigmodel.cn: reasoning goes back with tool results, usage comes unasked, arguments stream on demand
    Row(
        "zhipu",
        _CHAT,
        "openai_chat",
        model="glm-5.2",
        base_url="https://open.bigmodel.cn/api/paas/v4",
        key_vars=("ZHIPUAI_API_KEY", "ZAI_API_KEY"),
        base_url_vars=("ZHIPUAI_BASE_URL",),
        tools_body={"tool_stream": True},
        stream_usage=False,
        replay=("reasoning_content",),
        tool_choices=(),
        json_output="object",
        no_images=r"glm-(4\.[567]|5(\.[12])?)(-(air|airx|x|turbo|flash|flashx))?$",
    ),
    # https://api-docs.deepseek.com/guides/thinking_mode: reasoning_content is mandatory after tool calls, even empty;
    # https://api-docs.deepseek.com/guides/vision: the flash models see
    Row(
        "deepseek",
        _CHAT,
        "openai_chat",
        model="deepseek-v4-flash",
        base_url="https://api.deepseek.com",
        key_vars=("DEEPSEEK_API_KEY",),
        base_url_vars=("DEEPSEEK_BASE_URL",),
        replay=("reasoning_content",),
        replay_always="reasoning_content",
        json_output="object",
        no_images="deepseek-v4-pro",
    ),
    Row(
        "openrouter",
        _CHAT,
        "openai_chat",
        model="openrouter/auto",
        base_url="https://openrouter.ai/api/v1",
        key_vars=("OPENROUTER_API_KEY",),
        base_url_vars=("OPENROUTER_BASE_URL",),
        replay=("reasoning_details",),
        replay_images=True,
        call_id=".{1,40}",
    ),
    # last of those with a key: many set GOOGLE_API_KEY for other services of Google
    Row(
        "gemini",
        "nbagent.providers.vendors.gemini:GeminiProvider",
        "gemini",
        model="gemini-3.7-flash",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_vars=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base_url_vars=("GOOGLE_GEMINI_BASE_URL",),
        max_tokens_name="maxOutputTokens",
        image_urls="https://generativelanguage.googleapis.com/|gs://",
    ),
    Row(
        "ollama",
        _CHAT,
        "openai_chat",
        model="qwen3",
        base_url="http://localhost:11434/v1",
        key_vars=("OLLAMA_API_KEY",),
        base_url_vars=("OLLAMA_BASE_URL",),
        keyless=True,
        replay=("reasoning",),
        tool_choices=(),
        image_urls="(?!)",  # none
    ),
    # vLLM, llama.cpp, LM Studio, LocalAI, gateways: what came is sent back under the name it came with
    Row(
        "open_source",
        _CHAT,
        "openai_chat",
        model="default",
        base_url="http://localhost:8000/v1",
        keyless=True,
        replay=_CHAT_REASONING,
    ),
    # llama.cpp takes a tool's name for "auto"
    Row(
        "local",
        "nbagent.providers.local.provider:LocalProvider",
        "openai_chat",
        keyless=True,
        no_images=".",
        families="open_source",
        tool_choices=("none", "required"),
    ),
    Row("replay", "nbagent.providers.replay.session:ReplayProvider", "", keyless=True),
    Row("scripted", "nbagent.providers.scripted:ScriptedProvider", "", keyless=True),
)

CATALOG: Mapping[str, Row] = {row.name: row for row in _ROWS}


def first_with_key() -> Row | None:
    """The first row, in the order above, whose key is found."""
    return next((row for row in CATALOG.values() if not row.keyless and row.api_key()), None)


def with_keys() -> dict[str, Row]:
    """The vendors that take a key, by name."""
    return {name: row for name, row in CATALOG.items() if row.key_vars}
