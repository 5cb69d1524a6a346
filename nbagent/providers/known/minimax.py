"""MiniMax, through the anthropic SDK.

Sources, read in November 2026:

- https://platform.minimax.io/docs/api-reference/text-anthropic-api: the temperature is above 0 and at most 1
- https://github.com/MiniMax-AI/MiniMax-MCP: key and host must belong to the same region
"""

from nbagent.providers.known.claude import AnthropicBaseProvider
from nbagent.providers.provider_facts import ModelProfile, ProviderFacts, Region, level_names

PROFILES = (
    ModelProfile(r"m2"),
    ModelProfile(
        r"m3\.[1-9]|m[4-9]",
        level_field="output_config.effort",
        levels=level_names("low", "medium", "high", "xhigh", "max"),
    ),
    ModelProfile(thinking_on={"thinking": {"type": "adaptive"}}, thinking_off={"thinking": {"type": "disabled"}}),
)

FACTS = ProviderFacts(
    "minimax",
    title="MiniMax",
    own_models=r"minimax-.*",
    format="anthropic_messages",
    factory=f"{__name__}:MiniMaxProvider",
    model="MiniMax-M3",
    regions={
        "china": Region("https://api.minimaxi.com/anthropic"),
        "international": Region("https://api.minimax.io/anthropic"),
    },
    key_vars=("MINIMAX_API_KEY",),
    base_url_vars=("MINIMAX_BASE_URL",),
    profiles=PROFILES,
    body={"max_tokens": 32_000},
    min_temperature=0.01,
    cache_ttls=("5m",),
    no_images="MiniMax-M2",
    json_output="",
    unsigned_thinking=True,
)


class MiniMaxProvider(AnthropicBaseProvider):
    """MiniMax models. For a key from platform.minimax.io, pass `region="international"`.

    MiniMax refuses a temperature of 0, so at least 0.01 is sent.
    """

    provider_name = "minimax"
