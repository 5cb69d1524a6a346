"""Ollama, a server on the user's machine."""

from nbagent.providers.provider_facts import ModelProfile, ProviderFacts, level_names

PROFILES = (
    ModelProfile(r"gpt-oss", level_field="reasoning_effort", levels=level_names("low", "medium", "high")),
    ModelProfile(
        thinks_by_default=None,
        thinking_on={"reasoning_effort": "medium"},
        thinking_off={"reasoning_effort": "none"},
        level_field="reasoning_effort",
        levels=level_names("low", "medium", "high", "max"),
    ),
)

FACTS = ProviderFacts(
    "ollama",
    title="Ollama on this machine",
    model="qwen3",
    base_url="http://localhost:11434/v1",
    key_vars=("OLLAMA_API_KEY",),
    base_url_vars=("OLLAMA_BASE_URL",),
    keyless=True,
    profiles=PROFILES,
    replay_fields=("reasoning",),
    tool_choices=(),
    image_urls="(?!)",  # it never fetches images
)
