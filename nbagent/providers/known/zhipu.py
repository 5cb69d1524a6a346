"""GLM models from Zhipu (Z.ai). Sources, read in November 2026:

- https://docs.bigmodel.cn: reasoning is sent back with tool results, usage always arrives, `tool_stream`
  streams arguments
- https://docs.z.ai/guides/capabilities/thinking-mode
- https://docs.z.ai/devpack/quick-start: the Coding Plan has separate addresses; Z.ai's SDK reads ZAI_API_KEY
"""

from dataclasses import replace

from nbagent.providers.provider_facts import (
    LEVELS,
    NOT_THINKING,
    ModelProfile,
    OwnTool,
    ProviderFacts,
    Region,
    level_names,
)

_ON = {"thinking": {"type": "enabled"}}
_OFF = {"thinking": {"type": "disabled"}}
_EFFORT = "reasoning_effort"

PROFILES = (
    replace(NOT_THINKING, models=r"glm-4(?!\.[5-9])|glm-3|glm-z"),
    ModelProfile(r"glm-5\.2", thinking_on=_ON, thinking_off=_OFF, level_field=_EFFORT, levels=level_names(*LEVELS)),
    ModelProfile(r"glm-(5\.[3-9]|[6-9])", level_field=_EFFORT, levels=level_names("low", "high", "max")),
    ModelProfile(thinking_on=_ON, thinking_off=_OFF),
)

_SEARCH = {"enable": True, "search_engine": "search_std", "search_result": True}

FACTS = ProviderFacts(
    "zhipu",
    title="Zhipu, Z.ai (GLM)",
    aliases=("zai", "z.ai", "bigmodel", "zhipuai", "glm"),
    own_models=r"glm-.*",
    model="glm-5.2",
    regions={
        "china": Region("https://open.bigmodel.cn/api/paas/v4"),
        "international": Region("https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",)),
        "china-coding": Region("https://open.bigmodel.cn/api/coding/paas/v4"),
        "international-coding": Region("https://api.z.ai/api/coding/paas/v4", ("ZAI_API_KEY",)),
    },
    key_vars=("ZHIPUAI_API_KEY", "ZAI_API_KEY"),
    base_url_vars=("ZHIPUAI_BASE_URL", "ZAI_BASE_URL"),
    profiles=PROFILES,
    price_name="zai",
    tools_body={"tool_stream": True},
    stream_usage=False,
    replay_fields=("reasoning_content",),
    tool_choices=(),
    json_output="object",
    no_images=r"glm-(4\.[567]|5(\.[12])?)(-(air|airx|x|turbo|flash|flashx))?$",
    tools={"web_search": (OwnTool({"type": "web_search", "web_search": _SEARCH}),)},
)
