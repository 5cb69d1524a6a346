"""Together AI, which runs open models. Sources, read in November 2026:

- https://docs.together.ai/docs/inference/openai-compatibility
- https://docs.together.ai/docs/inference/chat/reasoning: hybrid models have a switch, gpt-oss has levels
"""

from dataclasses import replace

from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, ProviderFacts, level_names

PROFILES = (
    ModelProfile(r"gpt-oss", level_field="reasoning_effort", levels=level_names("low", "medium", "high")),
    ModelProfile(r"minimax-m2|deepseek-r1|kimi-k2-thinking"),
    replace(NOT_THINKING, models=r"llama|gemma|mistral|mixtral|instruct|coder"),
    ModelProfile(
        thinks_by_default=None,
        thinking_on={"reasoning": {"enabled": True}},
        thinking_off={"reasoning": {"enabled": False}},
    ),
)

FACTS = ProviderFacts(
    "together",
    title="Together AI",
    aliases=("togetherai", "together_ai"),
    model="zai-org/GLM-5.2",
    base_url="https://api.together.ai/v1",
    key_vars=("TOGETHER_API_KEY",),
    base_url_vars=("TOGETHER_BASE_URL",),
    profiles=PROFILES,
    replay_fields=("reasoning_content", "reasoning"),
)
