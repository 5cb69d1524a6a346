"""Gemini, over HTTP in its own format. Thinking: https://ai.google.dev/gemini-api/docs/thinking (November 2026)"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.http.transport import HttpxTransport
from nbagent.providers.http_provider import HTTPProvider
from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, OwnTool, ProviderFacts, level_names

# a level since Gemini 3, a token budget before
_THOUGHTS = {"thinkingConfig": {"includeThoughts": True}}
_LEVEL = ModelProfile(
    show_thinking=_THOUGHTS,
    thinking_on=_THOUGHTS,
    level_field="thinkingConfig.thinkingLevel",
    levels=level_names("low", "medium", "high"),
)
_BUDGET = ModelProfile(
    show_thinking=_THOUGHTS,
    thinking_on=_THOUGHTS,
    thinking_off={"thinkingConfig": {"thinkingBudget": 0}},
    level_field="thinkingConfig.thinkingBudget",
    levels={"minimal": 512, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 20_480, "max": 24_576},
)

PROFILES = (
    replace(NOT_THINKING, models=r"image|tts|audio|live|embedding|gemma|gemini-(1|2\.0)"),
    replace(_BUDGET, models=r"gemini-2\.5-pro", thinking_off=None, levels={**_BUDGET.levels, "max": 32_768}),
    replace(
        _BUDGET,
        models=r"gemini-2\.5-flash-lite",
        thinks_by_default=False,
        show_thinking={},
        thinking_on={"thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1}},
    ),
    replace(_BUDGET, models=r"gemini-2\.5"),
    replace(_LEVEL, models=r"gemini-3-pro", levels=level_names("low", "high")),
    replace(
        _LEVEL,
        models=r"gemini-3.*flash-lite|gemini-flash-lite-latest|gemini-3(\.[0-6])?-flash",
        levels=level_names("minimal", "low", "medium", "high"),
    ),
    replace(_LEVEL, models=r"gemini-([3-9]|\d\d)|gemini-(pro|flash)-latest"),
    replace(_LEVEL, thinks_by_default=None, show_thinking={}, thinking_off={"thinkingConfig": {"thinkingBudget": 0}}),
)

#: Since Gemini 3, Google's own tools can be combined with functions, and their calls and results are in the answer.
_WITH_CALLS = {"toolConfig": {"includeServerSideToolInvocations": True}}


def _tool(entry: str, price: float = 0.0) -> tuple[OwnTool, ...]:
    """https://ai.google.dev/gemini-api/docs/tools (read in November 2026)

    Before Gemini 3, a prompt is billed once, however many searches it makes:
    https://ai.google.dev/gemini-api/docs/google-search
    """
    before_3 = OwnTool({entry: {}}, models=r"gemini-(1|2)", with_functions=False, price=price * 2.5, priced_once=True)
    since_3 = replace(before_3, body=_WITH_CALLS, models="", with_functions=True, price=price, priced_once=False)
    return (before_3, since_3)


FACTS = ProviderFacts(
    "gemini",
    title="Google Gemini",
    aliases=("google", "google-genai", "googleai"),
    own_models=r"gemini-.*",
    format="gemini",
    factory=f"{__name__}:GeminiProvider",
    model="gemini-3.7-flash",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    key_vars=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    base_url_vars=("GOOGLE_GEMINI_BASE_URL",),
    profiles=PROFILES,
    price_name="google",
    max_tokens_name="maxOutputTokens",
    pdfs=True,
    schema_with_tools=r"(models/)?gemini-([3-9]|\d\d|(pro|flash)-latest)",  # 2.5 responds with 400
    image_urls="https://generativelanguage.googleapis.com/|gs://",
    tools={
        "web_search": _tool("googleSearch", price=0.014),
        "web_fetch": _tool("urlContext"),
        "code_execution": _tool("codeExecution"),
    },
)


class GeminiProvider(HTTPProvider):
    """Gemini models. If `base_url` has no API version, `/v1beta` is added.

    Options such as `max_tokens`, `top_p` or `seed` are added to your own `generationConfig`. Pass `safetySettings` and
    Gemini's own `tools` as separate options. `client` is an `AsyncClient` of httpx2 or httpx.
    """

    provider_name = "gemini"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if not re.search(r"/v\d", urlsplit(self.base_url).path):
            self.base_url += "/v1beta"

    def _make_codec(self, facts: ProviderFacts) -> GeminiCodec:
        return GeminiCodec(facts)

    def _make_transport(self, client: Any) -> HttpxTransport:
        return HttpxTransport(client, key_header="x-goog-api-key")
