"""Alibaba Cloud's Qwen models. Sources, read in November 2026:

- https://help.aliyun.com/zh/model-studio: earlier reasoning is ignored, calls are parallel only on request, and open
  models think only when streaming
- https://help.aliyun.com/en/model-studio/deep-thinking
- https://help.aliyun.com/en/model-studio/base-url: Beijing, Singapore, Virginia, Hong Kong, each with separate keys
- https://help.aliyun.com/zh/model-studio/coding-plan-quickstart: the plan has separate keys and addresses
"""

from dataclasses import replace

from nbagent.providers.provider_facts import NOT_THINKING, ModelProfile, OwnTool, ProviderFacts, Region

_SWITCHED = ModelProfile(
    thinks_by_default=False,
    thinking_on={"enable_thinking": True},
    thinking_off={"enable_thinking": False},
    level_field="thinking_budget",
    levels={"minimal": 1024, "low": 4096, "medium": 8192, "high": 16_384, "xhigh": 32_768, "max": None},
    forced_tools="unthinking",
)

PROFILES = (
    replace(NOT_THINKING, models=r"coder|instruct|qwen-?2|qwen1|math|-mt|-ocr"),
    replace(_SWITCHED, models=r"thinking|qwq|qvq", thinks_by_default=True, thinking_off=None),
    replace(_SWITCHED, models=r"qwen3\.[5-9]|qwen([4-9]|\d\d)|qwen3-[\d.]+b", thinks_by_default=True),
    replace(_SWITCHED, models=r"qwen(3-max|-plus|-turbo|-flash|3-)"),
    replace(_SWITCHED, thinks_by_default=None),
)

FACTS = ProviderFacts(
    "qwen",
    title="DashScope (Qwen)",
    aliases=("dashscope", "alibaba", "bailian", "tongyi"),
    own_models=r"(?:qwen|qwq|qvq)[^/]*",
    model="qwen3.7-plus",
    regions={
        "china": Region("https://dashscope.aliyuncs.com/compatible-mode/v1"),
        "international": Region("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        "us": Region("https://dashscope-us.aliyuncs.com/compatible-mode/v1"),
        "hongkong": Region("https://cn-hongkong.dashscope.aliyuncs.com/compatible-mode/v1"),
        "china-coding": Region("https://coding.dashscope.aliyuncs.com/v1"),
        "international-coding": Region("https://coding-intl.dashscope.aliyuncs.com/v1"),
    },
    key_vars=("DASHSCOPE_API_KEY",),
    base_url_vars=("DASHSCOPE_BASE_URL",),
    profiles=PROFILES,
    tools_body={"parallel_tool_calls": True},
    streams_to_think=True,
    tool_choices=("none", "named"),
    json_output="",  # refused while thinking
    no_images="qwen3-(max|coder)|qwq",
    tools={"web_search": (OwnTool(body={"enable_search": True}),)},  # this API does not report sources
)
