"""DeepSeek. Sources, read in November 2026:

- https://api-docs.deepseek.com/guides/thinking_mode: `reasoning_content` is required after tool calls, even if empty
- https://api-docs.deepseek.com/guides/vision: the flash models accept images
"""

from dataclasses import replace

from nbagent.providers.provider_facts import ModelProfile, ProviderFacts, level_names

_SWITCHED = ModelProfile(
    thinking_on={"thinking": {"type": "enabled"}},
    thinking_off={"thinking": {"type": "disabled"}},
    level_field="reasoning_effort",
    levels=level_names("low", "high", "max"),
    forced_tools="unthinking",
)

PROFILES = (
    ModelProfile(r"reasoner|r1"),
    replace(_SWITCHED, models=r"deepseek-chat", thinks_by_default=False),
    _SWITCHED,
)

FACTS = ProviderFacts(
    "deepseek",
    title="DeepSeek",
    own_models=r"deepseek-.*",
    model="deepseek-v4-flash",
    base_url="https://api.deepseek.com",
    key_vars=("DEEPSEEK_API_KEY",),
    base_url_vars=("DEEPSEEK_BASE_URL",),
    profiles=PROFILES,
    replay_fields=("reasoning_content",),
    replay_always="reasoning_content",
    json_output="object",
    no_images="deepseek-v4-pro",
)
