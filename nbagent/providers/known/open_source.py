"""Any server with the OpenAI chat API: vLLM, llama.cpp, LM Studio, LocalAI, gateways.

Providers without a class of their own also use this one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.http.transport import HttpxTransport
from nbagent.providers.http_provider import HTTPProvider
from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, ProviderFacts, level_names

# servers pass `chat_template_kwargs` to the model's own template
_TEMPLATE = ModelProfile(
    thinks_by_default=None,
    thinking_on={"chat_template_kwargs": {"enable_thinking": True}},
    thinking_off={"chat_template_kwargs": {"enable_thinking": False}},
)

PROFILES = (
    ModelProfile(r"gpt-oss", level_field="reasoning_effort", levels=level_names("low", "medium", "high")),
    replace(NOT_THINKING, models=r"smollm2"),
    replace(
        _TEMPLATE,
        models=r"granite|deepseek",
        thinking_on={"chat_template_kwargs": {"thinking": True}},
        thinking_off={"chat_template_kwargs": {"thinking": False}},
    ),
    _TEMPLATE,
)

FACTS = ProviderFacts(
    "open_source",
    title="any server with the OpenAI chat API: vLLM, llama.cpp, LM Studio, LocalAI",
    model="default",
    base_url="http://localhost:8000/v1",
    keyless=True,
    profiles=PROFILES,
    # sent back under the name under which it arrived
    replay_fields=("reasoning_details", "reasoning_content", "reasoning"),
)


class OpenSourceProvider(HTTPProvider):
    """Chat completions over HTTP, with or without a key. `base_url` usually ends with `/v1`.

    `provider_name` selects another provider in the catalog. `client` is an `AsyncClient` from httpx2 or httpx.
    """

    provider_name = "open_source"

    def _make_codec(self, facts: ProviderFacts) -> ChatCodec:
        return ChatCodec(facts)

    def _make_transport(self, client: Any) -> HttpxTransport:
        return HttpxTransport(client)
