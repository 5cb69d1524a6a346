"""One option for how deeply a model thinks: the fields in each provider's request, as tables."""

import json

import pytest
from support.loopback import Answer, claude_said

from nbagent import create_provider
from nbagent.core.messages import LLMMessage
from nbagent.core.model_request import ModelRequest
from nbagent.errors import ConfigurationError

HI = [LLMMessage("user", "hi")]
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
BOUND = ADAPTIVE | {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}
DISABLED = {"thinking": {"type": "disabled"}}
ENABLED = {"thinking": {"type": "enabled"}}
SUMMARY = {"reasoning": {"summary": "auto"}}
THOUGHTS = {"includeThoughts": True}
NO = ConfigurationError

#: The fields about thinking.
OTHER = {"model", "stream", "messages", "input", "contents", "max_tokens", "stream_options", "store", "include"}


def made(spec, **options):
    return create_provider(spec, api_key="test-key", **options)


def fields(provider, **options):
    """A request's fields about thinking, without Gemini's `generationConfig` around them."""
    raw = provider._encode(provider.resolve(ModelRequest(HI, options=options)), {})
    body = {name: value for name, value in json.loads(raw).items() if name not in OTHER}
    return body.pop("generationConfig", {}) | body


def budget(tokens):
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


def effort(word, thinking=ADAPTIVE):
    return {"thinking": thinking, "output_config": {"effort": word}}


def reasons(word):
    return {"reasoning": {"effort": word, "summary": "auto"}}


def gemini(**config):
    return {"thinkingConfig": THOUGHTS | config}


def kwargs(**template):
    return {"chat_template_kwargs": template}


#: model -> the fields for None, False, True, "minimal", "high", "max"
TABLE = {
    # always adaptive; the newest bind their thinking to the messages before it
    "claude:claude-fable-5-1": ({"thinking": BOUND}, NO, {"thinking": BOUND}, effort("low", BOUND),
                                effort("high", BOUND), effort("max", BOUND)),
    "claude:claude-sonnet-5-5": ({"thinking": BOUND}, {"thinking": {"type": "between_tools"}}, {"thinking": BOUND},
                                 effort("low", BOUND), effort("high", BOUND), effort("max", BOUND)),
    "claude:claude-sonnet-5": ({"thinking": ADAPTIVE}, DISABLED, {"thinking": ADAPTIVE}, effort("low"),
                               effort("high"), effort("max")),
    # adaptive when asked
    "claude:claude-opus-4-8": ({}, {}, {"thinking": ADAPTIVE}, effort("low"), effort("high"), effort("max")),
    "claude:us.anthropic.claude-opus-4-6-v1": ({}, {}, {"thinking": ADAPTIVE}, effort("low"), effort("high"),
                                               effort("max")),
    # a budget when asked
    "claude:claude-sonnet-4-5@20250929": ({}, {}, budget(8192), budget(1024), budget(16_384), budget(24_000)),
    "claude:claude-3-haiku-20240307": ({}, {}, NO, NO, NO, NO),
    "claude:claude-opus-7": ({"thinking": BOUND}, DISABLED, {"thinking": BOUND}, effort("low", BOUND),
                             effort("high", BOUND), effort("max", BOUND)),
    "claude:some-gateway-name": ({}, DISABLED, {"thinking": ADAPTIVE}, effort("low"), effort("high"), effort("max")),
    "openai:gpt-5.6-terra": (SUMMARY, {"reasoning": {"effort": "none"}}, SUMMARY, reasons("low"), reasons("high"),
                             reasons("max")),
    "openai:gpt-5.4-mini": ({}, {"reasoning": {"effort": "none"}}, reasons("medium"), reasons("low"), reasons("high"),
                            reasons("xhigh")),
    "openai:gpt-5": (SUMMARY, NO, SUMMARY, reasons("minimal"), reasons("high"), reasons("high")),
    "openai:gpt-5.2-chat-latest": (SUMMARY, NO, SUMMARY, *[reasons("medium")] * 3),
    "openai:o3": ({}, NO, {}, {"reasoning": {"effort": "low"}}, *[{"reasoning": {"effort": "high"}}] * 2),
    "openai:gpt-4o": ({}, {}, NO, NO, NO, NO),
    "openai:my-finetune": ({}, {"reasoning_effort": "none"}, {"reasoning_effort": "medium"},
                           {"reasoning_effort": "low"}, *[{"reasoning_effort": "high"}] * 2),
    "gemini:gemini-3.7-flash": (gemini(), NO, gemini(), gemini(thinkingLevel="low"), gemini(thinkingLevel="high"),
                                gemini(thinkingLevel="high")),
    "gemini:gemini-3.5-flash": (gemini(), NO, gemini(), gemini(thinkingLevel="minimal"), gemini(thinkingLevel="high"),
                                gemini(thinkingLevel="high")),
    "gemini:gemini-2.5-pro": (gemini(), NO, gemini(), gemini(thinkingBudget=512), gemini(thinkingBudget=16_384),
                              gemini(thinkingBudget=32_768)),
    "gemini:gemini-2.5-flash": (gemini(), {"thinkingConfig": {"thinkingBudget": 0}}, gemini(),
                                gemini(thinkingBudget=512), gemini(thinkingBudget=16_384),
                                gemini(thinkingBudget=24_576)),
    "gemini:gemini-2.5-flash-lite": ({}, {"thinkingConfig": {"thinkingBudget": 0}}, gemini(thinkingBudget=-1),
                                     gemini(thinkingBudget=512), gemini(thinkingBudget=16_384),
                                     gemini(thinkingBudget=24_576)),
    "qwen:qwen3.7-plus": ({}, {"enable_thinking": False}, {"enable_thinking": True},
                          {"enable_thinking": True, "thinking_budget": 1024},
                          {"enable_thinking": True, "thinking_budget": 16_384}, {"enable_thinking": True}),
    "zhipu:glm-5.3": ({}, NO, {}, {"reasoning_effort": "low"}, {"reasoning_effort": "high"},
                      {"reasoning_effort": "max"}),
    "zhipu:glm-5.2": ({}, DISABLED, ENABLED, ENABLED | {"reasoning_effort": "minimal"},
                      ENABLED | {"reasoning_effort": "high"}, ENABLED | {"reasoning_effort": "max"}),
    "deepseek:deepseek-v4-flash": ({}, DISABLED, ENABLED, ENABLED | {"reasoning_effort": "low"},
                                   ENABLED | {"reasoning_effort": "high"}, ENABLED | {"reasoning_effort": "max"}),
    "deepseek:deepseek-reasoner": ({}, NO, *[{}] * 4),
    "minimax:MiniMax-M3": ({}, DISABLED, *[{"thinking": {"type": "adaptive"}}] * 4),
    "minimax:MiniMax-M3.1-Flash": ({}, NO, {}, *[{"output_config": {"effort": word}} for word in
                                                 ("low", "high", "max")]),
    "openrouter:anthropic/claude-sonnet-5": ({}, {"reasoning": {"effort": "none"}}, {"reasoning": {"effort": "medium"}},
                                             *[{"reasoning": {"effort": word}} for word in ("minimal", "high", "max")]),
    "ollama:qwen3": ({}, {"reasoning_effort": "none"}, {"reasoning_effort": "medium"}, {"reasoning_effort": "low"},
                     {"reasoning_effort": "high"}, {"reasoning_effort": "max"}),
    "ollama:gpt-oss:20b": ({}, NO, {}, {"reasoning_effort": "low"}, *[{"reasoning_effort": "high"}] * 2),
    "open_source:Qwen/Qwen3-8B": ({}, kwargs(enable_thinking=False), *[kwargs(enable_thinking=True)] * 4),
}  # fmt: skip
VALUES = (None, False, True, "minimal", "high", "max")


@pytest.mark.parametrize("spec", TABLE)
def test_thinking_fields_for_each_model(spec):
    for value, sent in zip(VALUES, TABLE[spec], strict=True):
        if sent is NO:
            with pytest.raises(ConfigurationError, match="thinking"):
                made(spec, thinking=value)
            with pytest.raises(ConfigurationError, match="thinking"):
                fields(made(spec), thinking=value)
        else:
            assert fields(made(spec, thinking=value)) == sent, value
            assert fields(made(spec), thinking=value) == sent, value


def test_chat_completions_get_an_effort_but_no_summary():
    provider = made("openai:gpt-5.6-terra", api="chat", thinking="high")
    assert fields(provider) == {"reasoning_effort": "high"}
    assert fields(made("openai:gpt-5.6-terra", api="chat")) == {}


def test_words_for_off_and_on():
    assert fields(made("deepseek"), thinking="off") == fields(made("deepseek"), thinking="none") == DISABLED
    assert fields(made("deepseek"), thinking="on") == ENABLED


def test_a_request_overrides_its_provider():
    provider = made("deepseek", thinking="low")
    assert fields(provider, thinking=False) == DISABLED
    assert fields(provider, thinking=None) == ENABLED | {"reasoning_effort": "low"}


@pytest.mark.parametrize(
    ("spec", "value", "words"),
    [
        ("claude:claude-sonnet-5", "hihg", "'minimal', 'low', 'medium', 'high', 'xhigh', 'max'"),
        ("claude:claude-sonnet-5", 0.5, "'minimal', 'low', 'medium', 'high', 'xhigh', 'max'"),
        ("claude:claude-opus-5-5", "off", "claude-opus-5-5 always thinks.*'low', 'medium', 'high', 'xhigh', 'max'"),
        ("deepseek:deepseek-reasoner", "off", "always thinks.*Omit the option"),
        ("local", "high", "does not think"),
    ],
)
def test_an_impossible_value_is_refused_with_the_possible_ones(spec, value, words):
    with pytest.raises(ConfigurationError, match=words):
        create_provider(spec, thinking=value)


#: provider's own fields -> what is sent with thinking="high", and with none
OWN = [
    ("claude:claude-opus-5", {"thinking": {"type": "disabled"}}, None, DISABLED),
    ("claude:claude-opus-5", {"extra_body": {"output_config": {"effort": "low"}}}, effort("low"), effort("low")),
    ("claude:claude-opus-5", {"extra_body": {"output_config": {"format": {}}}},
     {"thinking": ADAPTIVE, "output_config": {"effort": "high", "format": {}}},
     {"thinking": ADAPTIVE, "output_config": {"format": {}}}),
    ("openai:gpt-5.6-sol", {"extra_body": {"reasoning": {"effort": "low"}}},
     {"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning": {"effort": "low"}}),
    ("openai:gpt-5.6-sol", {"extra_body": {"reasoning": {"mode": "pro"}}},
     {"reasoning": {"effort": "high", "summary": "auto", "mode": "pro"}}, {"reasoning": {"mode": "pro"}}),
    ("gemini:gemini-3.5-flash", {"thinking": {"thinkingBudget": 7}}, None, {"thinkingConfig": {"thinkingBudget": 7}}),
    ("qwen:qwen3.7-plus", {"extra_body": {"enable_thinking": False, "thinking_budget": 7}},
     {"enable_thinking": False, "thinking_budget": 7}, {"enable_thinking": False, "thinking_budget": 7}),
    ("open_source:qwen3", {"extra_body": {"chat_template_kwargs": {"tone": "dry"}}},
     {"chat_template_kwargs": {"enable_thinking": True, "tone": "dry"}}, {"chat_template_kwargs": {"tone": "dry"}}),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "own", "with_level", "alone"), OWN)
def test_the_providers_own_fields_take_precedence(spec, own, with_level, alone):
    assert fields(made(spec, **own)) == alone
    if with_level is not None:
        assert fields(made(spec, **own), thinking="high") == with_level


def test_a_budget_leaves_room_for_the_answer():
    provider = made("claude:claude-opus-4-5", thinking="high", max_tokens=4000)
    assert fields(provider) == budget(3000)
    assert fields(provider, max_tokens=1200) == budget(1024)
    with pytest.raises(ConfigurationError, match="max_tokens=500: .* more than 1024"):
        fields(provider, max_tokens=500)
    assert fields(provider, max_tokens=500, thinking=False) == {}


@pytest.mark.parametrize(
    ("model", "own", "betas"),
    [
        ("claude-opus-5-5", None, "thinking-binding-controls-2026-08-01"),
        ("claude-opus-4-5", "context-1m-2025-08-07", "context-1m-2025-08-07,interleaved-thinking-2025-05-14"),
        ("claude-opus-5", None, None),
    ],
)
async def test_betas_that_thinking_needs(loopback, connect, model, own, betas):
    loopback.answers = [Answer(claude_said("Good."))]
    await connect("claude", model=model, headers={"anthropic-beta": own} if own else None).chat(HI)
    assert loopback.requests[0].headers.get("anthropic-beta") == betas
