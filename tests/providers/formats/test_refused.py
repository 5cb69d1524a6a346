"""One 400 teaches what a model refuses, and it is omitted from then on, however the provider words it."""

import json

import pytest
from support.loopback import Answer, claude_said, gemini_said, responses_said, said, sse
from support.requests import streamed

from nbagent.core.events import Retry
from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.errors import BadRequestError

HI = [LLMMessage("user", "hi")]
ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}
GOOD = {
    "openai": Answer(sse(said("Good."))),
    "responses": Answer(responses_said("Good.")),
    "claude": Answer(claude_said("Good.")),
    "gemini": Answer(gemini_said("Good.")),
    "open_source": Answer(sse(said("Good."))),
}


def openai(message, param=None):
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": None}}


def claude(message):
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def google(message):
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


def forbidden(name):
    detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]
    return {"detail": detail}


def refused(body) -> Answer:
    return Answer(json.dumps(body).encode(), 400, {"content-type": "application/json"})


#: kind, options, refusal with its status -> the fields that differ in the first and second body
CASES = [
    (
        "openai",
        {"temperature": 0},
        openai("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
               "supported.", "temperature"),
        {"temperature": 0}, {},
    ),
    (
        "open_source",
        {"max_tokens": 9},
        openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
               "instead.", "max_tokens"),
        {"max_tokens": 9}, {"max_completion_tokens": 9},
    ),
    ("open_source", {}, forbidden("stream_options"), {"stream_options": {"include_usage": True}}, {}),
    ("responses", {}, openai("Encrypted content is not supported with this model.", "include"),
     {"include": ["reasoning.encrypted_content"]}, {}),
    ("claude", {"temperature": 0.5, "top_p": 0.5},
     claude("`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
     {"temperature": 0.5}, {}),
    ("gemini", {"top_p": 0.5}, google('Invalid JSON payload received. Unknown name "topP" at \'generation_config\': '
     "Cannot find field."), {"generationConfig": {"topP": 0.5}}, {}),
    ("gemini", {"thinking": {"includeThoughts": True}, "seed": 1},
     google("thinking_config is not supported by this model."),
     {"generationConfig": {"thinkingConfig": {"includeThoughts": True}, "seed": 1}},
     {"generationConfig": {"seed": 1}}),
]  # fmt: skip


def provider_of(connect, kind, **options):
    return connect("openai", api="responses", **options) if kind == "responses" else connect(kind, **options)


async def items_of(provider, **options):
    return [item async for item in streamed(provider, HI, [ADD], **options)]


@pytest.mark.parametrize(("kind", "options", "body", "first", "second"), CASES)
async def test_learned_once_then_remembered(loopback, connect, kind, options, body, first, second):
    loopback.answers = [refused(body), GOOD[kind]]
    provider = provider_of(connect, kind, **options)
    items = await items_of(provider)
    assert items[-1].content == "Good."
    (event,) = [item for item in items if isinstance(item, Retry)]
    assert event.metadata["refused"] in event.content
    assert items[0] is event
    sent, again = (request.json for request in loopback.requests)
    assert {key: sent[key] for key in sent if sent[key] != again.get(key)} == first
    assert {key: again[key] for key in again if again[key] != sent.get(key)} == second
    assert not any(isinstance(item, Retry) for item in await items_of(provider))
    assert loopback.requests[2].json == again


# https://github.com/camel-ai/owl/issues/532
LITELLM = "litellm.UnsupportedParamsError: Anthropic doesn't support tool calling without `tools=` param specified."
BEDROCK = "The toolConfig field must be defined when using toolUse and toolResult content blocks."


@pytest.mark.parametrize("text", [LITELLM, BEDROCK])
async def test_a_conversation_with_calls_continues_without_tools_on_servers_that_require_them(loopback, connect, text):
    loopback.answers = [refused(openai(text)), GOOD["open_source"]]
    made = LLMMessage("assistant", tool_calls=[FunctionCall("add", {}, "c1")])
    provider = connect("open_source")
    *_, answer = [item async for item in streamed(provider, [*HI, made, LLMMessage("tool", "2", tool_call_id="c1")])]
    sent, again = (request.json for request in loopback.requests)
    assert (answer.content, "tools" in sent, again["tool_choice"]) == ("Good.", False, "none")
    assert [tool["function"]["name"] for tool in again["tools"]] == ["add"]


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize(("choice", "stays"), [("add", False), ("mul", True)])
async def test_the_choice_of_an_omitted_tool_is_omitted(loopback, connect, kind, choice, stays):
    loopback.answers = [refused(openai("Invalid schema for function 'add': 'x' is not valid.")), GOOD[kind]]
    provider = provider_of(connect, kind)
    assert (await provider.chat(HI, [ADD, {**ADD, "name": "mul"}], tool_choice=choice)).content == "Good."
    sent, again = (request.json for request in loopback.requests)
    chosen = "toolConfig" if kind == "gemini" else "tool_choice"
    assert again.get(chosen, {}) == (sent[chosen] if stays else {})
    assert [name in json.dumps(again["tools"]) for name in ('"add"', '"mul"')] == [False, True]


@pytest.mark.parametrize("word", ["temperature", "max_tokens", "messages", "stop"])
async def test_a_persistent_refusal_is_raised_and_nothing_is_learned(loopback, connect, word):
    """This never loops: each field is omitted at most once, and the request's meaning never changes."""
    loopback.answers = [refused(openai(f"Unsupported parameter: '{word}' is not supported with this model."))]
    provider = connect("openai", temperature=0.5, max_tokens=9, stop=["x"], extra_body={"store": False})
    with pytest.raises(BadRequestError, match=word):
        await items_of(provider)
    bodies = [request.json for request in loopback.requests]
    assert len(bodies) <= 2
    assert all({"max_tokens", "max_completion_tokens"} & set(body) for body in bodies), "the limit stays"
    for key in ("messages", "tools", "model", "stream", "store", "stop"):
        assert [body[key] for body in bodies] == [bodies[0][key]] * len(bodies)
    count = len(bodies)
    with pytest.raises(BadRequestError):
        await items_of(provider)
    assert loopback.requests[count].json == bodies[0]


@pytest.mark.parametrize(
    "message",
    [
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 5 instead.",
        "max_tokens: 999999 > 64000, which is the maximum allowed number of output tokens for this model",
        "Your account is not permitted to use this model.",
        "tools.0.cache_control: a maximum of 4 blocks with cache_control may be provided",
        "tools.0.cache_control.type: unknown",
        "messages.1.content.0: tools[0].name is not what the call names",
        "More than 128 tools, from tools[0] on",
    ],
)
async def test_errors_for_the_caller_to_correct_are_raised_at_once(loopback, connect, message):
    loopback.answers = [refused(claude(message))]
    with pytest.raises(BadRequestError):
        await connect("claude", temperature=5, max_tokens=999_999).chat(HI, [ADD])
    assert len(loopback.requests) == 1
