"""The user's own client: what exactly arrives at Azure, Bedrock, Vertex and others, and that it stays open."""

import base64
import json
import struct
import zlib

import anthropic
import httpx
import httpx2
import openai
import pytest
from support.loopback import Answer, claude_said, gemini_said, said, sse

from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.providers import create_provider

HI = [LLMMessage("user", "hi")]
JSON = {"content-type": "application/json"}
CHAT = Answer(sse(said("Good.")))
CHAT_WHOLE = Answer(json.dumps({"choices": [{"message": {"content": "Good."}, "finish_reason": "stop"}]}).encode())
CLAUDE = Answer(claude_said("Good."))
SAID = {"content": [{"type": "text", "text": "Good."}], "stop_reason": "end_turn", "usage": {"input_tokens": 1}}
CLAUDE_WHOLE = Answer(json.dumps({"type": "message", "role": "assistant", **SAID}).encode(), headers=JSON)


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streaming(request):
    return request.param


async def ask(loopback, answer, provider_name, client, **options):
    """Get one answer through the user's client, which stays open, and return the request that arrived."""
    loopback.answers = [answer]
    provider = create_provider(provider_name, client=client, **{"model": "m1", "max_retries": 0, **options})
    assert (await provider.chat(HI)).content == "Good."
    await provider.aclose()
    assert not (client.is_closed if isinstance(client, httpx.AsyncClient | httpx2.AsyncClient) else client.is_closed())
    return loopback.requests[-1]


async def test_azure_by_deployment(loopback, streaming):
    async with openai.AsyncAzureOpenAI(
        azure_endpoint=loopback.url, azure_deployment="my-gpt", api_version="2026-05-01", api_key="azure-key"
    ) as client:
        request = await ask(loopback, CHAT if streaming else CHAT_WHOLE, "openai", client, streaming=streaming)
    assert request.path == "/openai/deployments/my-gpt/chat/completions?api-version=2026-05-01"
    assert request.headers["api-key"] == "azure-key"
    assert "authorization" not in request.headers
    assert request.json["messages"] == [{"role": "user", "content": "hi"}]
    assert bool(request.json.get("stream")) == streaming


async def test_openai_with_the_users_http_client_inside(loopback):
    async with httpx.AsyncClient(headers={"x-team": "blue"}) as inner:
        client = openai.AsyncOpenAI(api_key="mine", base_url=f"{loopback.url}/v1", http_client=inner)
        request = await ask(loopback, CHAT, "openai", client, headers={"x-more": "green"})
    assert (request.path, request.headers["x-team"]) == ("/v1/chat/completions", "blue")
    assert (request.headers["authorization"], request.headers["x-more"]) == ("Bearer mine", "green")


async def test_vertex(loopback, streaming):
    async with anthropic.AsyncAnthropicVertex(
        region="europe-west1", project_id="proj", access_token="ya29.token", base_url=f"{loopback.url}/v1"
    ) as client:
        answer = CLAUDE if streaming else CLAUDE_WHOLE
        request = await ask(loopback, answer, "claude", client, model="claude-sonnet-5", streaming=streaming)
    place = "/v1/projects/proj/locations/europe-west1/publishers/anthropic/models/claude-sonnet-5"
    assert request.path == f"{place}:{'streamRawPredict' if streaming else 'rawPredict'}"
    assert request.headers["authorization"] == "Bearer ya29.token"
    assert request.json["anthropic_version"]  # which one is the SDK's affair
    assert "model" not in request.json
    assert request.json["messages"][0]["role"] == "user"


# ------------------------------------------------------------------ Bedrock


def frame(payload: dict, **headers: str) -> bytes:
    """One message of AWS's binary event stream.

    Lengths, checksum of the lengths, headers (name, type 7 for a string, value), payload, checksum of everything:
    https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html
    """
    body = json.dumps(payload).encode()
    names = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in ((f":{key.replace('_', '-')}", value) for key, value in headers.items())
    )
    prelude = struct.pack("!II", 16 + len(names) + len(body), len(names))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + names + body
    return message + struct.pack("!I", zlib.crc32(message))


def chunks(stream: bytes) -> bytes:
    """A Messages stream as Bedrock sends it: each event's JSON in base64, in a frame."""
    lines = [line.removeprefix(b"data: ") for line in stream.splitlines() if line.startswith(b"data: ")]
    types = {"message_type": "event", "event_type": "chunk", "content_type": "application/json"}
    return b"".join(frame({"bytes": base64.b64encode(line).decode()}, **types) for line in lines)


EVENTS = {"content-type": "application/vnd.amazon.eventstream"}


@pytest.fixture
async def bedrock(loopback):
    async with anthropic.AsyncAnthropicBedrock(
        aws_access_key="AKIDEXAMPLE", aws_secret_key="aws-secret", aws_region="eu-west-1", base_url=loopback.url
    ) as client:
        yield client


async def test_bedrock(loopback, bedrock, streaming):
    answer = Answer(chunks(CLAUDE.body), headers=EVENTS) if streaming else CLAUDE_WHOLE
    request = await ask(loopback, answer, "claude", bedrock, model="eu.claude-v1:0", streaming=streaming)
    assert request.path == f"/model/eu.claude-v1:0/invoke{'-with-response-stream' if streaming else ''}"
    assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert "/eu-west-1/bedrock/aws4_request" in request.headers["authorization"]
    assert request.json["anthropic_version"]
    assert not {"model", "stream"} & set(request.json)


# ------------------------------------------------------------------ httpx, and what does not fit


@pytest.mark.parametrize(("provider", "library"), [("open_source", httpx), ("open_source", httpx2), ("gemini", httpx)])
async def test_httpx(loopback, provider, library):
    answer = CHAT if provider == "open_source" else Answer(gemini_said("Good."))
    async with library.AsyncClient(headers={"x-team": "blue"}) as client:
        request = await ask(loopback, answer, provider, client, base_url=f"{loopback.url}/v1", api_key="mine")
    assert request.headers["x-team"] == "blue"


@pytest.mark.parametrize(
    ("provider", "make", "says"),
    [
        ("claude", lambda: openai.AsyncOpenAI(api_key="k"), "AsyncOpenAI is of the wrong type.*anthropic"),
        ("openai", lambda: anthropic.AsyncAnthropic(api_key="k"), "AsyncAnthropic is of the wrong type.*openai"),
        ("gemini", lambda: openai.AsyncOpenAI(api_key="k"), "AsyncOpenAI is of the wrong type.*httpx"),
        ("open_source", lambda: anthropic.AsyncAnthropic(api_key="k"), "AsyncAnthropic is of the wrong type.*httpx"),
        ("openai", lambda: "sk-123", "str is of the wrong type.*openai"),
        ("openai", lambda: openai.OpenAI(api_key="k"), "async client"),
    ],
)
async def test_a_client_that_does_not_fit(provider, make, says):
    with pytest.raises(ConfigurationError, match=says):
        create_provider(provider, client=make())
