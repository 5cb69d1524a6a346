"""Fireworks AI, which runs open models.

https://docs.fireworks.ai/guides/reasoning (read in November 2026): levels vary by model;
`reasoning_content` is sent back
"""

from dataclasses import replace

from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, ProviderFacts, level_names

_GRADED = ModelProfile(
    thinks_by_default=None,
    thinking_off={"reasoning_effort": "none"},
    level_field="reasoning_effort",
    levels=level_names("low", "medium", "high"),
)

PROFILES = (
    replace(_GRADED, models=r"gpt-oss|kimi-k[23]|minimax-m[2-9]", thinks_by_default=True, thinking_off=None),
    replace(_GRADED, models=r"glm-[5-9]", thinks_by_default=True, levels=level_names("high", "max")),
    replace(_GRADED, models=r"deepseek-v[4-9]", levels=level_names("low", "medium", "high", "xhigh")),
    replace(NOT_THINKING, models=r"llama|gemma|mixtral|instruct|coder"),
    _GRADED,
)

FACTS = ProviderFacts(
    "fireworks",
    title="Fireworks AI",
    aliases=("fireworks_ai", "fireworks-ai"),
    own_models=r"accounts/fireworks/.*",
    model="accounts/fireworks/models/glm-5p2",
    base_url="https://api.fireworks.ai/inference/v1",
    key_vars=("FIREWORKS_API_KEY",),
    base_url_vars=("FIREWORKS_BASE_URL",),
    profiles=PROFILES,
    replay_fields=("reasoning_content",),
)
