"""xAI. Sources, read in November 2026:

- https://docs.x.ai/developers/model-capabilities/text/reasoning: each model's levels; only the Responses API returns
  the reasoning
- https://docs.x.ai/developers/cost-tracking: the usage includes the request's cost
"""

from dataclasses import replace

from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, ProviderFacts, level_names

_GRADED = ModelProfile(level_field="reasoning_effort", levels=level_names("low", "medium", "high"))

PROFILES = (
    replace(NOT_THINKING, models=r"non-reasoning|grok-2|grok-3(?!-mini)"),
    replace(_GRADED, models=r"grok-3-mini", levels=level_names("low", "high")),
    replace(_GRADED, models=r"grok-4\.3", thinking_off={"reasoning_effort": "none"}),
    ModelProfile(r"grok-(4(-|$)|4\.20|code|build)"),
    _GRADED,
)

FACTS = ProviderFacts(
    "xai",
    title="xAI (Grok)",
    aliases=("x-ai", "x.ai", "grok"),
    own_models=r"grok-.*",
    model="grok-4.7",
    base_url="https://api.x.ai/v1",
    key_vars=("XAI_API_KEY",),
    base_url_vars=("XAI_BASE_URL",),
    profiles=PROFILES,
    price_name="x-ai",
    reports_cost=True,
    max_tokens_name="max_completion_tokens",
    no_images=r"grok-(3|code|build|2-1)",
)
