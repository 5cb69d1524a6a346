"""One option for which tool is called: each format's form, choices that a provider lacks, and how a run continues."""

import json

import pytest
from support.loopback import Answer, said, sse
from support.small_agent import add

from nbagent import Agent, create_provider
from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.core.model_request import ModelRequest
from nbagent.errors import ConfigurationError

HI = [LLMMessage("user", "hi")]
ADD, MUL = ({"name": name, "parameters": {"type": "object", "properties": {}}} for name in ("add", "mul"))
RESULT = [
    *HI,
    LLMMessage("assistant", "", tool_calls=[FunctionCall("add", {}, "c1")]),
    LLMMessage("tool", "2", name="add", tool_call_id="c1"),
]
NO = ConfigurationError


def body(spec, choice, functions=(ADD, MUL), messages=HI, **options):
    provider = create_provider(spec, api_key="test-key", **options)
    request = provider.resolve(ModelRequest(messages, list(functions), {"tool_choice": choice}))
    return json.loads(provider._encode(request, {}))


def names(sent):
    tools = sent.get("tools", [])
    if tools and "functionDeclarations" in tools[0]:
        tools = tools[0]["functionDeclarations"]
    return [tool.get("name") or tool["function"]["name"] for tool in tools]


def mode(word, **more):
    return {"functionCallingConfig": {"mode": word, **more}}


CHAT_ADD = {"type": "function", "function": {"name": "add"}}
BOTH = ["add", "mul"]
#: provider and model -> for "none", "required" and "add": the fields that are sent, and the offered tools
TABLE = {
    "openai:gpt-5.6-terra": (("none", BOTH), ("required", BOTH), ({"type": "function", "name": "add"}, BOTH)),
    "openai:gpt-4o": (("none", BOTH), ("required", BOTH), (CHAT_ADD, BOTH)),
    "claude:claude-sonnet-5": (({"type": "none"}, BOTH), ({"type": "any"}, BOTH),
                               ({"type": "tool", "name": "add"}, BOTH)),
    "claude:claude-opus-5-5": (({"type": "none"}, BOTH), NO, NO),
    "minimax:MiniMax-M3": (({"type": "none"}, BOTH), ({"type": "any"}, BOTH), ({"type": "tool", "name": "add"}, BOTH)),
    "gemini:gemini-3.7-flash": ((mode("NONE"), BOTH), (mode("ANY"), BOTH),
                                (mode("ANY", allowedFunctionNames=["add"]), BOTH)),
    # only "auto": without the tools no tool is called
    "zhipu:glm-5.2": ((None, []), NO, NO),
    "ollama:qwen3": ((None, []), NO, NO),
    # no "required"; forced calls not while it thinks
    "qwen:qwen-plus": (("none", BOTH), NO, (CHAT_ADD, BOTH)),
    "qwen:qwen3.7-plus": (("none", BOTH), NO, NO),
}  # fmt: skip


@pytest.mark.parametrize("spec", TABLE)
def test_tool_choice_fields_for_each_provider(spec):
    for choice, sent in zip(("none", "required", "add"), TABLE[spec], strict=True):
        if sent is NO:
            with pytest.raises(ConfigurationError, match=f"tool_choice='{choice}'.*Pass"):
                body(spec, choice)
        else:
            got = body(spec, choice)
            assert (got.get("tool_choice") or got.get("toolConfig"), names(got)) == sent
    assert body(spec, "auto") == body(spec, None)
    assert names(body(spec, "auto")) == BOTH
    assert not {"tool_choice", "toolConfig", "tools"} & set(body(spec, "none", []))


THINKING = [
    ("qwen:qwen3.7-plus", {"thinking": False}, CHAT_ADD),
    ("qwen:qwen-plus", {"thinking": True}, NO),
    ("qwen:qwen-plus", {"extra_body": {"enable_thinking": True}}, NO),
    ("deepseek:deepseek-v4-flash", {"thinking": False}, CHAT_ADD),
    ("deepseek:deepseek-v4-flash", {"thinking": {"type": "disabled"}}, CHAT_ADD),
    ("claude:claude-haiku-4-5", {"thinking": "low"}, NO),
    ("claude:claude-haiku-4-5", {}, {"type": "tool", "name": "add"}),
    ("claude:claude-opus-4-6", {"thinking": "low"}, {"type": "tool", "name": "add"}),
    ("claude:claude-opus-5-5", {}, NO),
]


@pytest.mark.parametrize(("spec", "options", "sent"), THINKING)
def test_forcing_a_call_from_a_model_that_thinks(spec, options, sent):
    if sent is NO:
        with pytest.raises(ConfigurationError, match="can't be made to call a tool"):
            body(spec, "add", **options)
    else:
        assert body(spec, "add", **options)["tool_choice"] == sent


def test_required_becomes_the_name_of_the_only_tool_if_unsupported():
    assert body("qwen:qwen-plus", "required", [ADD])["tool_choice"] == CHAT_ADD
    sent = body("claude:claude-haiku-4-5", "加", [ADD | {"name": "加"}])
    assert [sent["tool_choice"]["name"]] == names(sent)
    with pytest.raises(ConfigurationError, match="'auto', 'none' or a tool's name"):
        body("qwen:qwen-plus", "required")


def test_an_invalid_choice_is_refused_with_the_possible_ones():
    with pytest.raises(ConfigurationError, match="while it thinks. Pass thinking=False with it"):
        body("deepseek:deepseek-v4-flash", "required")
    with pytest.raises(ConfigurationError, match="can't be made to call a tool. Pass 'auto' or 'none'"):
        body("claude:claude-opus-5-5", "required")
    with pytest.raises(ConfigurationError, match="tool_choice: .*'add' or 'mul', got 'sub'"):
        body("openai:gpt-4o", "sub")
    with pytest.raises(ConfigurationError, match="'required' needs tools"):
        body("openai:gpt-4o", "required", [])
    with pytest.raises(ConfigurationError, match="tool_choice: expected"):
        body("openai:gpt-4o", 7)


@pytest.mark.parametrize(
    ("spec", "own", "name"),
    [
        ("openai:gpt-4o", {"type": "allowed_tools", "allowed_tools": {}}, "tool_choice"),
        ("claude:claude-opus-5", {"type": "auto", "disable_parallel_tool_use": True}, "tool_choice"),
        ("gemini:gemini-3.7-flash", mode("VALIDATED"), "toolConfig"),
    ],
)
def test_the_providers_own_form_is_sent_unchanged(spec, own, name):
    assert body(spec, own)[name] == own


@pytest.mark.parametrize("spec", ["openai:gpt-4o", "claude:claude-opus-5", "gemini:gemini-3.7-flash"])
def test_a_call_is_forced_only_once(spec):
    """Otherwise a run would never end."""
    for choice in ("required", "add"):
        assert not {"tool_choice", "toolConfig"} & set(body(spec, choice, messages=RESULT))
        assert {"tool_choice", "toolConfig"} & set(body(spec, choice, messages=[*RESULT, *HI]))
    assert {"tool_choice", "toolConfig"} & set(body(spec, "none", messages=RESULT))


def calls(name, **arguments):
    call = {"index": 0, "id": "c1", "function": {"name": name, "arguments": json.dumps(arguments)}}
    delta = {"tool_calls": [call]}
    return {"id": "c", "model": "m1", "choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}


async def test_a_run_with_a_forced_tool_and_its_trace(loopback, connect):
    loopback.answers = [Answer(sse(calls("add", a=1, b=2))), Answer(sse(said("3")))]
    agent = Agent(connect("open_source"), tools=[add])
    result = await agent.chat("1 + 2?", tool_choice="add")
    assert (result.content, result.iterations) == ("3", 2)
    assert [request.json.get("tool_choice") for request in loopback.requests] == [CHAT_ADD, None]
    assert agent.trace.calls["tool_choice"].tolist() == ["add", "auto"]
    await agent.chat("And now?")
    assert agent.trace.calls["tool_choice"].isna().tolist() == [False, False, True]


async def test_a_request_can_override_the_providers_choice(loopback, connect):
    loopback.answers = [Answer(sse(said("Good.")))]
    provider = connect("open_source", tool_choice="required")
    for choice in (None, "none"):
        await provider.chat(HI, [ADD], tool_choice=choice)
    await provider.chat(HI)  # there is nothing to choose
    sent = [request.json.get("tool_choice") for request in loopback.requests]
    assert sent == ["required", "none", None]


async def test_tool_choice_with_tools_described_in_the_prompt(loopback, connect):
    loopback.answers = [Answer(sse(said("Good.")))]
    agent = Agent(connect("open_source", function_calling=False), tools=[add])
    assert (await agent.chat("add 1 and 2", tool_choice="none")).content == "Good."
    assert "add(" not in json.dumps(loopback.requests[0].json["messages"][:-1])
    assert agent.trace.calls["tool_choice"].tolist() == ["none"]
    loopback.answers = [Answer(sse(said('{"name": "add", "arguments": {"a": 1, "b": 2}}'))), Answer(sse(said("3")))]
    assert (await agent.chat("add 1 and 2", tool_choice="add")).content == "3"
    assert "null" not in json.dumps(loopback.requests[1].json["response_format"])
