"""OpenRouter, which passes requests on to many providers.

Thinking: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens (read in November 2026)
"""

from nbagent.providers.provider_facts import LEVELS, ModelProfile, OwnTool, ProviderFacts, level_names

PROFILES = (
    ModelProfile(
        thinks_by_default=None,
        thinking_on={"reasoning": {"effort": "medium"}},
        thinking_off={"reasoning": {"effort": "none"}},
        level_field="reasoning.effort",
        levels=level_names(*LEVELS),
    ),
)

FACTS = ProviderFacts(
    "openrouter",
    title="OpenRouter",
    own_models=r"[\w.-]+/[\w.:-]+",
    model="openrouter/auto",
    base_url="https://openrouter.ai/api/v1",
    key_vars=("OPENROUTER_API_KEY",),
    base_url_vars=("OPENROUTER_BASE_URL",),
    profiles=PROFILES,
    reports_cost=True,
    replay_fields=("reasoning_details",),
    replay_images=True,
    call_id=".{1,40}",
    tools={"web_search": (OwnTool({"type": "openrouter:web_search"}, {"max_uses": "parameters.max_uses"}),)},
)
