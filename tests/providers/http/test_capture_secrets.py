"""The HTTP log contains no secrets, wherever they were sent and however a server repeats them."""

import json
from pathlib import Path

import anthropic
import httpx
import openai
import pytest
from support.loopback import Answer, said, sse

import nbagent
from nbagent import Agent, Trace
from nbagent.errors import NbagentError
from nbagent.providers.http.redaction import Redactor, is_secret_name

KEY = "sk-MARKER0123456789"


async def test_a_key_that_is_an_ordinary_word_stays_in_texts(loopback, connect, tmp_path):
    """Local servers are given keys such as "none". They are hidden where they are sent, but not in the conversation."""
    key = "not-needed"
    said_all = f"A thousand words: {key} is {key}."
    loopback.answers = [Answer(sse(said(said_all)))]
    agent = Agent(connect(api_key=key), trace=Trace(record_http=True))
    with nbagent.record(tmp_path / "run.jsonl"):
        await agent.chat(f"Repeat: {said_all}")
    (row,) = agent.trace.rows("http")
    for kept in (row["request_body"], row["response_body"], *map(Path.read_text, tmp_path.iterdir())):
        assert said_all in kept
    assert key not in row["request_headers"]
    assert "Bearer $OPEN_SOURCE_API_KEY" in row["request_headers"]


async def test_model_text_and_tool_arguments_are_not_altered(loopback, connect):
    """`token-abc123` is the key in vLLM's documentation, and a model may well write it to a file."""
    line, files = "vllm serve --api-key token-abc123", []

    def write(text: str) -> str:
        """Write a file."""
        files.append(text)
        return f"written: {text}"

    function = {"name": "write", "arguments": json.dumps({"text": line})}
    call = said("", "tool_calls")
    call["choices"][0]["delta"]["tool_calls"] = [{"index": 0, "id": "c1", "function": function}]
    loopback.answers = [Answer(sse(call)), Answer(sse(*[said(char, None) for char in line], said("")))]
    agent = Agent(connect(api_key="token-abc123"), tools=[write], trace=Trace(record_http=True))
    result = await agent.chat("hi")
    assert (files, result.content) == ([line], line)
    assert agent.trace.tool_calls["args"].iloc[0] == {"text": line}
    assert "token-abc123" not in str(agent.trace.rows("http"))


def test_names_of_secrets():
    telling = ["Authorization", "X-API-Key", "x-goog-api-key", "Set-Cookie", "X-Corp-Token", "X-Client-Secret", "sig"]
    harmless = ["content-type", "x-request-id", "x-ratelimit-remaining-tokens", "openai-organization", "design"]
    assert [name for name in telling if not is_secret_name(name)] == []
    assert [name for name in harmless if is_secret_name(name)] == []


def test_addresses():
    url = "https://me:hunter2hunter2@host:8443/v1/models?key=AIzaSECRET123&alt=sse&sig=abc%2Fdefgh"
    redactor = Redactor((), "GEMINI_API_KEY", url)
    assert redactor.url(url) == "https://host:8443/v1/models?key=$GEMINI_API_KEY&alt=sse&sig=$SIG"
    for secret in ("hunter2hunter2", "AIzaSECRET123", "abc/defgh", "abc%2Fdefgh"):
        assert secret not in redactor.text(f"I saw {secret}.")


async def test_the_password_of_an_address_is_hidden_wherever_a_server_repeats_it(loopback, connect, tmp_path):
    said_all = "bad login user:se cret-pass9"
    loopback.answers = [Answer(sse(said(said_all))), Answer(json.dumps({"error": {"message": said_all}}).encode(), 401)]
    url = loopback.url.replace("//", "//user:se%20cret-pass9@")
    agent = Agent(connect(api_key=None, base_url=url), trace=Trace(record_http=True))
    with nbagent.record(tmp_path / "run.jsonl"):
        await agent.chat("hi")
        with pytest.raises(NbagentError, match=r"bad login user:\$") as caught:
            await agent.chat("hi")
    kept = f"{caught.value}{agent.trace.rows('http')}{(tmp_path / 'run.jsonl').read_text()}"
    assert "cret-pass9" not in kept


#: The user's own clients, each with its own way to send a key.
OWN_CLIENTS = {
    "azure": (
        "openai",
        lambda url: openai.AsyncAzureOpenAI(api_key=KEY, azure_endpoint=url, api_version="1", max_retries=0),
    ),
    "anthropic": ("claude", lambda url: anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0)),
    "httpx, query": ("open_source", lambda _: httpx.AsyncClient(params={"key": KEY})),
    "httpx, cookie": ("open_source", lambda _: httpx.AsyncClient(cookies={"session": KEY})),
    "httpx, header": ("gemini", lambda _: httpx.AsyncClient(headers={"X-Gateway-Secret": KEY})),
}


@pytest.mark.parametrize("kind", OWN_CLIENTS)
async def test_the_users_own_clients(loopback, connect, kind, tmp_path):
    provider, make = OWN_CLIENTS[kind]
    headers = {"x-echo": KEY, "set-cookie": f"session={KEY}", "x-request-id": f"req-{KEY}"}
    loopback.answers = [Answer(f'{{"error": {{"message": "I saw {KEY}"}}}}'.encode(), 400, headers)]
    async with make(loopback.url) as client:
        agent = Agent(connect(provider, api_key=None, client=client), trace=Trace(record_http=True))
        with nbagent.record(tmp_path / "run.jsonl"), pytest.raises(NbagentError):
            await agent.chat("hi")
    (request,) = loopback.requests
    assert any(KEY in text for text in (request.path, *request.headers.values()))
    (row,) = agent.trace.rows("http")
    assert row["status"] == 400
    assert "I saw $" in row["response_body"]
    assert KEY not in f"{row}{(tmp_path / 'run.jsonl').read_text()}"
    assert row["request_body"]
