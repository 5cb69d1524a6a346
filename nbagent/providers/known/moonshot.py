"""Kimi models from Moonshot AI. Sources, read in November 2026:

- https://platform.kimi.ai/docs/api/models-overview: only moonshot-v1 accepts a temperature
- https://platform.kimi.ai/docs/guide/use-thinking-effort: K3 always thinks; reasoning is sent back with tool results
- https://platform.kimi.ai and https://platform.kimi.com/docs/api/overview: the two sites have separate keys
"""

from dataclasses import replace

from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, ProviderFacts, Region, level_names

_K2 = ModelProfile(r"kimi-k2", temperature="never", forced_tools="never")

PROFILES = (
    replace(NOT_THINKING, models=r"moonshot-v1"),
    replace(NOT_THINKING, models=r"kimi-k2-(0\d\d\d|turbo)"),
    replace(
        _K2,
        models=r"kimi-k2\.[56]",
        thinking_on={"thinking": {"type": "enabled"}},
        thinking_off={"thinking": {"type": "disabled"}},
        forced_tools="unthinking",
    ),
    _K2,
    ModelProfile(level_field="reasoning_effort", levels=level_names("low", "high", "max"), temperature="never"),
)

FACTS = ProviderFacts(
    "moonshot",
    title="Moonshot AI (Kimi)",
    aliases=("kimi", "moonshotai"),
    own_models=r"(?:kimi|moonshot)-.*",
    model="kimi-k3",
    regions={
        "china": Region("https://api.moonshot.cn/v1"),
        "international": Region("https://api.moonshot.ai/v1"),
    },
    key_vars=("MOONSHOT_API_KEY",),
    base_url_vars=("MOONSHOT_BASE_URL",),
    profiles=PROFILES,
    price_name="moonshotai",
    max_tokens_name="max_completion_tokens",
    replay_fields=("reasoning_content",),
    json_output="object",
    no_images=r"moonshot-v1-(?!.*vision)|kimi-k2(?!\.)",
)
