"""Wrong keys, names and addresses, and invalid answers: nbagent's own errors say what to do."""

import json
import logging
import re

import pytest
from support.loopback import Answer, Loopback, claude_said, gemini_said, said, sse

from nbagent import Agent, FunctionDefinition, Limits
from nbagent.core.messages import LLMMessage
from nbagent.errors import (
    ConfigurationError,
    InvalidResponseError,
    NbagentError,
    ProviderConnectionError,
    ProviderError,
    ServerError,
)
from nbagent.providers import create_provider

HI = [LLMMessage("user", "hi")]
KEY = "sk-MARKER0123456789"
#: Each wire format over its transport: the provider's name and options.
PROVIDERS = {
    "openai chat": ("openai", {"api": "chat"}),
    "openai responses": ("openai", {"api": "responses"}),
    "claude": ("claude", {}),
    "gemini": ("gemini", {}),
    "open_source": ("open_source", {}),
}
#: Each provider's error body for a message.
BODIES = {
    "openai": lambda text: {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}},
    "claude": lambda text: {"type": "error", "error": {"type": "some_error", "message": text}, "request_id": "req_7"},
    "gemini": lambda text: {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}},
    "open_source": lambda text: {"object": "error", "message": text, "code": 40000},
}
ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}
MUL = {**ADD, "name": "multiply"}


@pytest.fixture
def make(request, connect):
    """Creates a provider of one wire format."""
    provider_name, fixed = PROVIDERS[getattr(request, "param", "open_source")]

    def provider(**options):
        return connect(provider_name, api_key=KEY, **fixed, **options)

    return provider


each_format = pytest.mark.parametrize("make", PROVIDERS, indirect=True)


def refusal(provider, status, message) -> Answer:
    body = json.dumps(BODIES[provider.provider_name](message)).encode()
    return Answer(body, status, {"content-type": "application/json", "x-request-id": "req_7"})


async def failure(provider, functions=None) -> NbagentError:
    """The error of a request, which is short, names the provider, has a remedy and never contains the key."""
    with pytest.raises(NbagentError) as caught:
        await provider.chat(HI, functions)
    error = caught.value
    shown = f"{error} {error!r} {error.args} {vars(error)}"
    assert KEY not in shown
    assert len(str(error)) < 1500
    assert error.__cause__ is None
    if isinstance(error, ProviderError):
        assert (error.provider, error.model) == (provider.provider_name, "m1")
        assert str(error).startswith(f"{provider.provider_name} m1: ")
        assert error.remedy
        assert str(error).endswith(error.remedy)
    return error


async def test_a_key_cut_off_by_the_explanation_limit_is_masked(loopback, make):
    loopback.answers = [refusal(provider := make(), 401, "x" * 490 + KEY)]
    assert KEY[:5] not in str(await failure(provider))


@pytest.mark.parametrize("make", ["openai chat", "open_source"], indirect=True)
async def test_an_unreachable_host(make):
    error = await failure(make(base_url="http://nowhere.invalid/v1", max_retries=0))
    assert type(error) is ProviderConnectionError
    assert "no connection to nowhere.invalid (" in str(error)
    assert "base_url" in str(error)
    assert error.status is None


@pytest.mark.parametrize(("streaming", "status"), [(True, 200), (False, 200), (True, 400), (False, 404)])
async def test_a_web_page(loopback, make, streaming, status):
    page = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>" + b"<p>" * 1000 + b"</body></html>"
    headers = {"content-type": "text/html", "x-request-id": "req_7"}
    loopback.answers = [Answer(page, status, headers)]
    error = await failure(make(streaming=streaming))
    assert "an HTML page (Sign in)" in str(error)
    assert (error.status, error.request_id) == (status, "req_7")
    assert len(loopback.requests) == 1


@pytest.mark.parametrize("garbage", [b"\xff\x00garbage!", b"garbage\n\n", b"data: [\n\n"])
@pytest.mark.parametrize("streaming", [True, False])
async def test_megabytes_of_garbage(loopback, make, garbage, streaming):
    loopback.answers = [Answer(garbage * (2**20 // len(garbage)), headers={"x-request-id": "req_7"})]
    error = await failure(make(streaming=streaming, max_retries=0))
    assert isinstance(error, ProviderError)
    assert error.request_id == "req_7"


SCHEMA_REFUSALS = {
    "openai chat": "Invalid schema for function 'multiply': In context=(), 'x' is not valid.",
    "claude": "tools.1.custom.input_schema: JSON schema is invalid.",
    "gemini": "* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties: should be non-empty",
    "open_source": "tools[1].function.parameters: 'x' is not a valid type",
}


@pytest.mark.parametrize("name", SCHEMA_REFUSALS)
async def test_a_tool_that_the_provider_refuses_is_omitted(loopback, connect, name, caplog):
    """It is named, even if the provider only gives its index, and not offered again."""
    provider_name, options = PROVIDERS[name]
    provider = connect(provider_name, api_key=KEY, **options)
    refused, good = refusal(provider, 400, SCHEMA_REFUSALS[name]), {"claude": claude_said, "gemini": gemini_said}
    answer = Answer(good[name]("Good.") if name in good else sse(said("Good.")))
    loopback.answer_to = lambda request: refused if b'"multiply"' in request.body else answer
    agent = Agent(provider, tools=[FunctionDefinition(**tool, func=print) for tool in (ADD, MUL)])
    for _ in range(2):
        assert (await agent.chat("hi")).content == "Good."
    assert [b'"add"' in request.body for request in loopback.requests] == [True, True, True]
    assert agent.trace.calls["refused"].tolist() == ['{"tool multiply":null}'] * 2
    assert "The tool 'multiply' is omitted" in caplog.text


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("localhost:8000/v1", "'localhost:8000/v1'"),
        ("ftp://ada:hidden-word@x/v1", "'ftp://x/v1'"),
        ("http://", "'http://'"),
        ("http://h:99999", "'http://h:99999'"),
        ("http://x/v1?key=hidden-word", "without '?' and '#'"),
        ("https://x/v1#hidden-word", "without '?' and '#'"),
    ],
)
def test_an_invalid_address(address, says):
    with pytest.raises(ConfigurationError, match=rf"base_url.*{re.escape(says)}") as caught:
        create_provider("open_source", base_url=address)
    assert "hidden-word" not in str(caught.value)


@each_format
async def test_a_redirect_does_not_send_the_key_to_another_server(loopback, make):
    async with Loopback() as elsewhere:
        elsewhere.answers = [Answer(b"{}")]
        loopback.answers = [Answer(b"", 307, {"location": f"{elsewhere.url}/login"})]
        error = await failure(make())
    assert elsewhere.requests == []
    assert type(error) is InvalidResponseError
    assert f"redirects the request to {elsewhere.url}/login (status 307)" in str(error)
    assert len(loopback.requests) == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(b"", 403), "got an empty answer (status 403)"),
        (Answer(b"no route", 404), "m1: no route (status 404)"),
        (Answer(b"Ollama is running"), "expected JSON, got the text 'Ollama is running'"),
        (Answer(bytes(range(256))), "expected JSON, got binary data"),
        (Answer(b'{"error": "slow"}', 429, {"retry-after": "500"}), "slow (status 429, retry after 500 s)"),
    ],
)
async def test_answers_without_an_explanation(loopback, make, answer, says):
    loopback.answers = [answer]
    assert says in str(await failure(make()))


async def test_a_short_key_is_not_redacted_in_texts(loopback, connect):
    """Local servers are given keys such as "ollama"."""
    loopback.answers = [Answer(b'{"error": "not found, try ollama pull"}', 404)]
    error = await failure(connect("ollama", api_key="ollama"))
    assert "try ollama pull" in str(error)


@pytest.mark.parametrize("provider_name", ["open_source", "openai"])
async def test_a_password_in_the_address_is_sent_instead_of_a_key_and_never_logged(
    loopback, caplog, provider_name, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    caplog.set_level(logging.DEBUG)
    address = loopback.url.replace("http://", "http://ada:hidden-word@")
    provider = create_provider(provider_name, base_url=address, model="m1", max_retries=0)
    loopback.answers = [Answer(b"{}", 500)]
    with pytest.raises(ServerError) as caught:
        await provider.chat([LLMMessage("user", "x")])
    await provider.aclose()
    assert loopback.requests[0].headers["authorization"] == "Basic YWRhOmhpZGRlbi13b3Jk"
    assert "hidden-word" not in f"{caplog.text}{caught.value}{provider!r}"


def test_a_password_in_the_address_and_a_key_are_an_error():
    """Otherwise one of them would silently be dropped."""
    address = "http://ada:hidden-word@127.0.0.1:1/v1"
    for more in ({"api_key": "k"}, {"headers": {"authorization": "Bearer k"}}):
        with pytest.raises(ConfigurationError, match="user name and a password.*omit one") as caught:
            create_provider("openai", base_url=address, **more)
        assert "hidden-word" not in str(caught.value)


#: Keys that a user may pass by mistake instead of something else.
MISPLACED = {
    "provider": lambda: create_provider(KEY),
    "agent": lambda: Agent(KEY).provider,
    "timeout": lambda: create_provider("openai", timeout=KEY),
    "address": lambda: create_provider("openai", base_url=KEY),
    "thinking": lambda: create_provider("openai", thinking=KEY),
    "option": lambda: create_provider("openai", **{KEY: 1}),
    "tool": lambda: Agent("scripted", tools=[KEY]),
    "limit": lambda: Limits(max_cost=KEY),
    "file": lambda: Agent.load(KEY),
}


def test_no_error_repeats_a_key_in_the_wrong_place():
    for place, misplace in MISPLACED.items():
        with pytest.raises(ConfigurationError) as caught:
            misplace()
        assert KEY not in str(caught.value), place
