"""Groq, which runs open models. Sources, read in November 2026:

- https://console.groq.com/docs/openai: unsupported fields
- the fields of https://pypi.org/project/groq/ 1.7: `reasoning_effort` varies by model; `reasoning` may be sent back
- https://console.groq.com/docs/structured-outputs: structured outputs exclude streaming and tools
"""

from dataclasses import replace

from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, ProviderFacts, level_names

_LEVELS = level_names("low", "medium", "high")
_QWEN = ModelProfile(thinking_on={"reasoning_effort": "default"}, thinking_off={"reasoning_effort": "none"})

PROFILES = (
    ModelProfile(r"gpt-oss", level_field="reasoning_effort", levels=_LEVELS),
    replace(_QWEN, models=r"qwen3\.[8-9]|qwen[4-9]", level_field="reasoning_effort", levels=_LEVELS),
    replace(_QWEN, models=r"qwen3"),
    replace(NOT_THINKING, models=r"llama|gemma|mistral|mixtral|allam|compound|kimi-k2-instruct"),
    ModelProfile(thinks_by_default=None),
)

FACTS = ProviderFacts(
    "groq",
    title="Groq",
    aliases=("groqcloud",),
    model="openai/gpt-oss-120b",
    base_url="https://api.groq.com/openai/v1",
    key_vars=("GROQ_API_KEY",),
    base_url_vars=("GROQ_BASE_URL",),
    profiles=PROFILES,
    replay_fields=("reasoning",),
    json_output="",
    no_images=r"openai/gpt-oss|llama-3|qwen/qwen3-|groq/",
)
