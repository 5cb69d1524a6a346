"""Only known options and `extra_body` reach a provider. Any other name is an error before anything is sent."""

import pytest
from support.loopback import Answer, claude_said, gemini_said, responses_said, said, sse

from nbagent import Agent, create_provider
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError

ANSWERS = {
    "open_source": sse(said("Hi")),
    "openai": responses_said("Hi"),
    "claude": claude_said("Hi"),
    "gemini": gemini_said("Hi"),
}
MODELS = {"openai": {"api": "responses"}}
SECRET = "sk-marker-0815"

WRONG = {
    "temprature": (3, "temprature is not a request option; did you mean temperature?"),
    "reasoning_effort": ("low", "reasoning_effort is not a request option; did you mean thinking?"),
    "conversation_id": (
        SECRET,
        "not a request option. Put fields that only this provider knows into extra_body",
    ),
    "max_cost": (1, r"max_cost is a limit: pass limits=Limits(max_cost=1)"),
    "max_total_tokens": (SECRET, r"pass limits=Limits(max_total_tokens=…)"),
    "api_key": (SECRET, "api_key can't be set for a single request. Create a provider with such settings"),
    "messages": ([], "The message is the first argument"),
}


@pytest.mark.parametrize(
    ("name", "provider_name"),
    [*((name, "open_source") for name in WRONG), *(("temprature", each) for each in [*ANSWERS][1:])],
)
async def test_an_unknown_name_is_an_error_before_anything_is_sent(loopback, connect, provider_name, name):
    value, says = WRONG[name]
    provider = connect(provider_name)
    agent = Agent(provider)
    calls = {
        "chat": lambda: agent.chat("Hi", **{name: value}),
        "extract": lambda: agent.extract("one", int, **{name: value}),
        "provider": lambda: provider.chat([LLMMessage("user", "Hi")], **({} if name == "messages" else {name: value})),
    }
    if name == "messages":
        del calls["provider"]
    for call in calls.values():
        with pytest.raises(ConfigurationError) as caught:
            await call()
        assert says in str(caught.value)
        assert SECRET not in str(caught.value)
    with pytest.raises(ConfigurationError):
        agent.chat_stream("Hi", **{name: value})
    assert not loopback.requests
    assert agent.conversation_history == []


def test_a_provider_accepts_only_known_options():
    for provider, name, says in [
        ("openai", "api_ky", "did you mean api_key?"),
        ("local", "n_ctxt", "did you mean n_ctx?"),
        ("qwen", "provider_nam", "did you mean provider_name?"),
        ("claude", "max_cost", "max_cost is a limit"),
        ("claude", "verify", "Name the certificates to trust in the environment variable SSL_CERT_FILE."),
    ]:
        with pytest.raises(ConfigurationError) as caught:
            create_provider(provider, **{name: SECRET})
        assert says in str(caught.value)
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("provider_name", ANSWERS)
async def test_extra_body_is_merged_into_the_body_unchanged(loopback, connect, provider_name):
    loopback.answers = [Answer(ANSWERS[provider_name])]
    provider = connect(provider_name, extra_body={"theirs": 1, "both": {"a": 1}}, **MODELS.get(provider_name, {}))
    agent = Agent(provider)
    await agent.chat("Hi", extra_body={"maxTokens": {"x": None}, "both": {"b": [2]}})
    body = loopback.requests[-1].json
    assert (body["theirs"], body["maxTokens"], body["both"]) == (1, {"x": None}, {"b": [2]})
    assert "extra_body" not in body
    assert str(body).count("maxTokens") == 1, "Gemini takes unknown fields nowhere"
    params = agent.trace.calls["params"][0]
    assert "maxTokens" in str(params)


@pytest.mark.parametrize(("provider", "field"), [("claude", "messages"), ("gemini", "contents")])
async def test_extra_body_can_not_contain_the_conversation(loopback, connect, provider, field):
    with pytest.raises(ConfigurationError, match=f"extra_body can't contain '{field}'"):
        await Agent(connect(provider)).chat("Hi", extra_body={field: []})
    with pytest.raises(ConfigurationError, match="extra_body: expected a Mapping"):
        await Agent(connect(provider)).chat("Hi", extra_body="seed")
    with pytest.raises(ConfigurationError, match="extra_body: expected a Mapping"):
        connect(provider, extra_body=None)
    with pytest.raises(ConfigurationError, match="extra_body: expected a Mapping"):
        await Agent(connect(provider, extra_body={"a": 1})).chat("Hi", extra_body=None)
    assert not loopback.requests


@pytest.mark.parametrize(
    ("provider", "sent"),
    [
        ("open_source", {"stop": "END", "top_p": 0.5}),
        ("claude", {"stop_sequences": ["END"], "top_p": 0.5}),
        ("gemini", {"stopSequences": ["END"], "topP": 0.5}),
    ],
)
async def test_common_options_have_the_providers_spelling(loopback, connect, provider, sent):
    loopback.answers = [Answer(ANSWERS[provider])]
    await Agent(connect(provider)).chat("Hi", stop="END", top_p=0.5)
    body = loopback.requests[-1].json
    assert sent.items() <= (body["generationConfig"] if provider == "gemini" else body).items()
