"""How the models of each vendor think, as rows of data: what says so in a request, and what it rules out.

A row is for the models whose name its pattern is found in; the first that fits counts, and the last of each vendor fits
any name, so that a model which is not known yet gets what the vendor's latest ones take. What a row has wrong for a
model, the vendor's 400 corrects once (`wire/refused.py`). Sources, read in November 2026:

- Claude: https://platform.claude.com/docs/en/build-with-claude/thinking, …/preserved-thinking and the models' guides
- GPT: https://developers.openai.com/api/docs/guides/reasoning and the models' pages
- Gemini: https://ai.google.dev/gemini-api/docs/thinking
- Qwen: https://help.aliyun.com/en/model-studio/deep-thinking
- GLM: https://docs.z.ai/guides/capabilities/thinking-mode
- DeepSeek: https://api-docs.deepseek.com/guides/thinking_mode
- MiniMax: https://platform.minimax.io/docs/api-reference/text-anthropic-api
- OpenRouter: https://openrouter.ai/docs/use-cases/reasoning-tokens
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

Fields = Mapping[str, Any]

#: From little to much.
LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True)
class Family:
    """Models that think alike."""

    #: A regular expression that is found in their names.
    models: str = ""
    thinks: bool = True
    #: They think when a request says nothing of it; None where that is not known.
    unasked: bool | None = True
    #: What a request holds that says nothing of it, so that thinking is shown where it happens.
    shown: Fields = field(default_factory=dict)
    #: What switches it on, at the vendor's own depth.
    on: Fields = field(default_factory=dict)
    #: What switches it off; None where nothing does.
    off: Fields | None = None
    #: The field that says how deep, a field of a field with a dot, and its value for each level; None is left out.
    depth: str = ""
    levels: Mapping[str, Any] = field(default_factory=dict)
    #: The depth is a number of tokens that must stay below `max_tokens`.
    below_max_tokens: bool = False
    #: Whether a temperature, and a `tool_choice` that forces a call, are taken: "always", "unthinking" or "never".
    temperature: str = "always"
    forced_tools: str = "always"
    #: Betas of the API that its requests name.
    betas: tuple[str, ...] = ()


def family_of(name: str, wire: str, model: str) -> Family:
    """The row for a model: `name` says which vendor's rows, `wire` in which format it is asked.

    >>> family_of("claude", "anthropic_messages", "claude-opus-4-5").depth
    'thinking.budget_tokens'
    """
    return _found(f"{name} {wire}" if f"{name} {wire}" in FAMILIES else name, model.lower())


@lru_cache(maxsize=256)
def _found(name: str, model: str) -> Family:
    rows = FAMILIES.get(name) or FAMILIES["open_source"]
    return next(family for family in rows if re.search(family.models, model))


def _words(*names: str, **others: str) -> dict[str, str]:
    """Levels that the vendor calls by the same word."""
    return {name: name for name in names} | others


# --- Claude: adaptive since 4.6, a budget of tokens before ---

_ADAPTIVE = {"type": "adaptive", "display": "summarized"}
#: Without it a block of thinking is refused once anything before it has changed: a trimmed history, a redefined tool.
_DROP = {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
_BINDING = "thinking-binding-controls-2026-08-01"
_INTERLEAVED = "interleaved-thinking-2025-05-14"
_DISABLED: Fields = {"thinking": {"type": "disabled"}}
_EFFORTS = _words("low", "medium", "high", "xhigh", "max")

_ADAPTIVE_FAMILY = Family(
    shown={"thinking": _ADAPTIVE},
    on={"thinking": _ADAPTIVE},
    off=_DISABLED,
    depth="output_config.effort",
    levels=_EFFORTS,
    temperature="never",
)
_BOUND = replace(
    _ADAPTIVE_FAMILY,
    shown={"thinking": {**_ADAPTIVE, **_DROP}},
    on={"thinking": {**_ADAPTIVE, **_DROP}},
    betas=(_BINDING,),
)
_BUDGETED = Family(
    unasked=False,
    on={"thinking": {"type": "enabled", "budget_tokens": 8192}},
    off={},
    depth="thinking.budget_tokens",
    levels={"minimal": 1024, "low": 4096, "medium": 8192, "high": 16_384, "xhigh": 24_576, "max": 28_672},
    below_max_tokens=True,
    temperature="unthinking",
    forced_tools="unthinking",
    betas=(_INTERLEAVED,),
)
_NOTHING = Family(thinks=False, unasked=False, off={})

_CLAUDE = (
    replace(_BOUND, models=r"(fable|mythos)-5[-.][1-9](?!\d)|opus-5[-.][5-9](?!\d)", off=None, forced_tools="never"),
    replace(
        _BOUND,
        models=r"sonnet-5[-.][5-9](?!\d)",
        off={"thinking": {"type": "between_tools"}},
        forced_tools="never",
    ),
    replace(_BOUND, models=r"haiku-5"),
    replace(_ADAPTIVE_FAMILY, models=r"mythos-preview", off=None, forced_tools="never"),
    replace(_ADAPTIVE_FAMILY, models=r"fable|mythos", off=None),
    replace(_ADAPTIVE_FAMILY, models=r"(opus|sonnet)-5"),
    replace(_ADAPTIVE_FAMILY, models=r"opus-4[-.][78]", unasked=False, shown={}, off={}),
    replace(
        _ADAPTIVE_FAMILY,
        models=r"(opus|sonnet)-4[-.]6",
        unasked=False,
        shown={},
        off={},
        levels=_words("low", "medium", "high", "max"),
        temperature="unthinking",
    ),
    replace(_BUDGETED, models=r"(opus|sonnet|haiku)-4"),
    replace(_BUDGETED, models=r"claude-3[-.]7", betas=()),
    replace(_NOTHING, models=r"claude-(3|2|instant)"),
    replace(_BOUND, models=r"claude-[a-z]+-\d"),
    replace(_ADAPTIVE_FAMILY, unasked=None, shown={}, temperature="always"),
)

# --- GPT: an effort. Only Responses shows what was thought, as a summary ---

_GPT_ALWAYS = Family(on={}, depth="reasoning_effort", temperature="never")
_GPT_DEFAULT_ON = replace(_GPT_ALWAYS, off={"reasoning_effort": "none"}, temperature="unthinking")
_GPT_DEFAULT_OFF = replace(_GPT_DEFAULT_ON, unasked=False, on={"reasoning_effort": "medium"})
_LOW_TO_HIGH = _words("low", "medium", "high")
_LOW_TO_XHIGH = _words("low", "medium", "high", "xhigh")

_GPT = (
    replace(_NOTHING, models=r"gpt-5-chat|gpt-[34]|chatgpt|davinci"),
    replace(_GPT_ALWAYS, models=r"gpt-5\.\d-chat", levels=_words("medium")),
    replace(_GPT_ALWAYS, models=r"gpt-5-pro", levels=_words("high")),
    replace(_GPT_ALWAYS, models=r"gpt-5\.\d-pro", levels=_words("medium", "high", "xhigh")),
    replace(_GPT_DEFAULT_ON, models=r"gpt-5\.[6-9]", levels=_EFFORTS),
    replace(_GPT_DEFAULT_ON, models=r"gpt-5\.5", levels=_LOW_TO_XHIGH),
    replace(_GPT_ALWAYS, models=r"gpt-5\.1-codex-max", levels=_LOW_TO_XHIGH),
    replace(_GPT_ALWAYS, models=r"gpt-5(\.1)?-codex", levels=_LOW_TO_HIGH),
    replace(_GPT_DEFAULT_OFF, models=r"gpt-5\.[2-4]", levels=_LOW_TO_XHIGH),
    replace(_GPT_DEFAULT_OFF, models=r"gpt-5\.1", levels=_LOW_TO_HIGH),
    replace(_GPT_ALWAYS, models=r"gpt-5", levels=_words("minimal", "low", "medium", "high")),
    replace(_GPT_ALWAYS, models=r"gpt-([6-9]|\d\d)", levels=_EFFORTS),
    replace(_GPT_ALWAYS, models=r"\bo\d|codex", levels=_LOW_TO_HIGH),
    replace(_GPT_ALWAYS, models=r"gpt-oss", levels=_LOW_TO_HIGH, temperature="always"),
    replace(_GPT_DEFAULT_OFF, unasked=None, levels=_LOW_TO_HIGH, temperature="always"),
)
_SUMMARY: Fields = {"reasoning": {"summary": "auto"}}


def _with_summary(family: Family) -> Family:
    """The first models that reasoned have no summary to show."""
    if not family.thinks or family.models.startswith(r"\bo"):
        return family
    return replace(family, shown=_SUMMARY if family.unasked else {}, on={**family.on, **_SUMMARY})


# --- Gemini: a level since 3, a budget of tokens before ---

_THOUGHTS: Fields = {"thinkingConfig": {"includeThoughts": True}}
_GEMINI_LEVEL = Family(shown=_THOUGHTS, on=_THOUGHTS, depth="thinkingConfig.thinkingLevel", levels=_LOW_TO_HIGH)
_GEMINI_BUDGET = Family(
    shown=_THOUGHTS,
    on=_THOUGHTS,
    off={"thinkingConfig": {"thinkingBudget": 0}},
    depth="thinkingConfig.thinkingBudget",
    levels={"minimal": 512, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 20_480, "max": 24_576},
)
_MINIMAL_TO_HIGH = _words("minimal", "low", "medium", "high")

_GEMINI = (
    replace(_NOTHING, models=r"image|tts|audio|live|embedding|gemma|gemini-(1|2\.0)"),
    replace(_GEMINI_BUDGET, models=r"gemini-2\.5-pro", off=None, levels={**_GEMINI_BUDGET.levels, "max": 32_768}),
    replace(
        _GEMINI_BUDGET,
        models=r"gemini-2\.5-flash-lite",
        unasked=False,
        shown={},
        on={"thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1}},
    ),
    replace(_GEMINI_BUDGET, models=r"gemini-2\.5"),
    replace(_GEMINI_LEVEL, models=r"gemini-3-pro", levels=_words("low", "high")),
    replace(
        _GEMINI_LEVEL,
        models=r"gemini-3.*flash-lite|gemini-flash-lite-latest|gemini-3(\.[0-6])?-flash",
        levels=_MINIMAL_TO_HIGH,
    ),
    replace(_GEMINI_LEVEL, models=r"gemini-([3-9]|\d\d)|gemini-(pro|flash)-latest"),
    replace(_GEMINI_LEVEL, unasked=None, shown={}, off={"thinkingConfig": {"thinkingBudget": 0}}),
)

# --- Those that speak chat completions or, as MiniMax does, Messages ---

_SWITCH = Family(on={"thinking": {"type": "enabled"}}, off=_DISABLED)
_EFFORT = "reasoning_effort"
_DEEPSEEK = replace(_SWITCH, depth=_EFFORT, levels=_words("low", "high", "max"), forced_tools="unthinking")
_QWEN = Family(
    unasked=False,
    on={"enable_thinking": True},
    off={"enable_thinking": False},
    depth="thinking_budget",
    levels={"minimal": 1024, "low": 4096, "medium": 8192, "high": 16_384, "xhigh": 32_768, "max": None},
    forced_tools="unthinking",
)
_TEMPLATE = Family(
    unasked=None,
    on={"chat_template_kwargs": {"enable_thinking": True}},
    off={"chat_template_kwargs": {"enable_thinking": False}},
)
_GPT_OSS = Family(r"gpt-oss", depth=_EFFORT, levels=_LOW_TO_HIGH)

_FAMILIES: Mapping[str, Iterable[Family]] = {
    "claude": _CLAUDE,
    "openai": _GPT,
    "openai openai_responses": map(_with_summary, _GPT),
    "gemini": _GEMINI,
    "minimax": [
        Family(r"m2"),
        Family(r"m3\.[1-9]|m[4-9]", depth="output_config.effort", levels=_EFFORTS),
        Family(on={"thinking": {"type": "adaptive"}}, off=_DISABLED),
    ],
    "qwen": [
        replace(_NOTHING, models=r"coder|instruct|qwen-?2|qwen1|math|-mt|-ocr"),
        replace(_QWEN, models=r"thinking|qwq|qvq", unasked=True, off=None),
        replace(_QWEN, models=r"qwen3\.[5-9]|qwen([4-9]|\d\d)|qwen3-[\d.]+b", unasked=True),
        replace(_QWEN, models=r"qwen(3-max|-plus|-turbo|-flash|3-)"),
        replace(_QWEN, unasked=None),
    ],
    "zhipu": [
        replace(_NOTHING, models=r"glm-4(?!\.[5-9])|glm-3|glm-z"),
        Family(r"glm-5\.2", on=_SWITCH.on, off=_DISABLED, depth=_EFFORT, levels=_words(*LEVELS)),
        Family(r"glm-(5\.[3-9]|[6-9])", depth=_EFFORT, levels=_words("low", "high", "max")),
        _SWITCH,
    ],
    "deepseek": [
        Family(r"reasoner|r1"),
        replace(_DEEPSEEK, models=r"deepseek-chat", unasked=False),
        _DEEPSEEK,
    ],
    "openrouter": [
        Family(
            unasked=None,
            on={"reasoning": {"effort": "medium"}},
            off={"reasoning": {"effort": "none"}},
            depth="reasoning.effort",
            levels=_words(*LEVELS),
        )
    ],
    "ollama": [
        _GPT_OSS,
        Family(
            unasked=None,
            on={_EFFORT: "medium"},
            off={_EFFORT: "none"},
            depth=_EFFORT,
            levels=_words("low", "medium", "high", "max"),
        ),
    ],
    # vLLM, llama.cpp and others hand this to the model's own template
    "open_source": [
        _GPT_OSS,
        replace(_NOTHING, models=r"smollm2"),
        replace(
            _TEMPLATE,
            models=r"granite|deepseek",
            on={"chat_template_kwargs": {"thinking": True}},
            off={"chat_template_kwargs": {"thinking": False}},
        ),
        _TEMPLATE,
    ],
}
FAMILIES: Mapping[str, tuple[Family, ...]] = {name: tuple(rows) for name, rows in _FAMILIES.items()}
