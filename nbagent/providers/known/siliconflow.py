"""SiliconFlow, which runs open models.

https://docs.siliconflow.cn/docs/api/chat-completions-post and https://docs.siliconflow.com/en/api-reference (read in
November 2026): `enable_thinking`, with a budget of 128 to 32768 tokens. The two sites have separate keys.
"""

from dataclasses import replace

from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, ProviderFacts, Region

PROFILES = (
    replace(NOT_THINKING, models=r"instruct|coder|llama|deepseek-v[23](?!\.)"),
    ModelProfile(r"deepseek-r1|qwq|-thinking"),
    ModelProfile(
        thinks_by_default=None,
        thinking_on={"enable_thinking": True},
        thinking_off={"enable_thinking": False},
        level_field="thinking_budget",
        levels={"minimal": 1024, "low": 4096, "medium": 8192, "high": 16_384, "xhigh": 32_768, "max": None},
    ),
)

FACTS = ProviderFacts(
    "siliconflow",
    title="SiliconFlow",
    aliases=("silicon", "siliconcloud"),
    model="deepseek-ai/DeepSeek-V4-Flash",
    regions={
        "china": Region("https://api.siliconflow.cn/v1"),
        "international": Region("https://api.siliconflow.com/v1"),
    },
    key_vars=("SILICONFLOW_API_KEY",),
    base_url_vars=("SILICONFLOW_BASE_URL",),
    profiles=PROFILES,
    replay_fields=("reasoning_content",),
    json_output="object",
)
