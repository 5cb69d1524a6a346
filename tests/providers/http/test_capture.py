"""The HTTP log with real SDKs and servers: what was sent and received, each attempt, and no other agent's exchanges."""

import asyncio
import contextlib
import json

import pytest
from support.loopback import Answer, claude_said, gemini_said, responses_said, said, sse

from nbagent import Agent, Trace
from nbagent.errors import NbagentError

KEY = "sk-MARKER0123456789"
#: Each wire format over its transport: name, options, a stream with the answer "Good.", and the header with the key.
PROVIDERS = {
    "openai chat": ("openai", {"api": "chat"}, sse(said("Good.")), "authorization"),
    "openai responses": ("openai", {"api": "responses"}, responses_said("Good."), "authorization"),
    "claude": ("claude", {}, claude_said("Good."), None),
    "gemini": ("gemini", {}, gemini_said("Good."), "x-goog-api-key"),
    "open_source": ("open_source", {}, sse(said("Good.")), "authorization"),
}
BUSY = Answer(b'{"error": {"message": "slow down"}}', 429, {"retry-after": "0", "x-request-id": "req_7"})


@pytest.fixture
def provider(request):
    return PROVIDERS[getattr(request, "param", "open_source")]


one_of_each_transport = pytest.mark.parametrize("provider", ["openai chat", "open_source"], indirect=True)


@pytest.fixture
def recording(connect):
    """Creates agents that record HTTP."""

    def make(name="open_source", **options):
        return Agent(connect(name, **{"api_key": KEY, **options}), trace=Trace(record_http=True))

    return make


async def asked(agent, text="hi"):
    """The rows that one prompt adds, whether it is answered or not."""
    before = len(agent.trace.rows("http"))
    with contextlib.suppress(NbagentError):
        await agent.chat(text)
    return agent.trace.rows("http")[before:]


@pytest.mark.parametrize("provider", PROVIDERS, indirect=True)
async def test_requests_and_responses_are_recorded(loopback, recording, provider):
    name, options, stream, key_header = provider
    loopback.answers = [Answer(stream, headers={"x-request-id": "req_1"})]
    agent = recording(name, **options)
    (row,) = await asked(agent, "grüße 你好")
    (request,) = loopback.requests
    assert (row["method"], row["url"]) == ("POST", loopback.url + request.path)
    assert row["request_body"] == request.body.decode()
    assert row["response_body"] == stream.decode()
    assert (row["request_bytes"], row["response_bytes"]) == (len(request.body), len(stream))
    headers = json.loads(row["request_headers"])
    hidden = {header for header, value in request.headers.items() if KEY in value}
    assert hidden
    assert key_header is None or hidden == {key_header}
    assert {**headers, **dict.fromkeys(hidden)} == {**request.headers, **dict.fromkeys(hidden)}
    assert all("_API_KEY" in headers[header] for header in hidden)
    assert (row["status"], row["request_id"], row["http_version"]) == (200, "req_1", "HTTP/1.1")
    assert (row["complete"], row["error_type"]) == (True, None)
    assert 0 < row["ttfb_s"] <= row["duration_s"]
    assert row["call_id"] == agent.trace.rows("calls")[0]["call_id"]
    assert row["run_id"] == agent.trace.rows("runs")[0]["run_id"]


@one_of_each_transport
async def test_every_attempt_is_an_exchange(loopback, recording, provider):
    name, options, stream, _ = provider
    half = stream[: len(stream) // 2]
    loopback.answers = [BUSY, Answer(half, end="drop"), Answer(stream)]
    agent = recording(name, **options)
    busy, broken, good = await asked(agent)
    assert (busy["status"], busy["response_body"], busy["request_id"]) == (429, BUSY.body.decode(), "req_7")
    assert busy["error_type"] is None
    assert (broken["status"], broken["response_body"], broken["complete"]) == (200, half.decode(), False)
    assert broken["error_type"] == "IncompleteStreamError"
    assert (good["response_body"], good["complete"]) == (stream.decode(), True)
    assert [row["attempt"] for row in (busy, broken, good)] == [1, 2, 3]
    assert len({row["call_id"] for row in (busy, broken, good)}) == 1
    assert busy["request_body"] == good["request_body"] != ""


@one_of_each_transport
async def test_a_connection_that_is_refused(recording, provider):
    name, options, _, _ = provider
    agent = recording(name, base_url="http://127.0.0.1:9/v1", max_retries=1, **options)
    rows = await asked(agent)
    assert [row["status"] for row in rows] == [None, None]
    assert {row["error_type"] for row in rows} == {"ProviderConnectionError"}
    assert "connect" in rows[0]["error_message"].lower()
    assert rows[0]["url"].startswith("http://127.0.0.1:9/")
    assert rows[0]["request_body"]
    assert (rows[0]["response_body"], rows[0]["ttfb_s"]) == (None, None)


@pytest.mark.parametrize("name", ["open_source", "openai"])
async def test_an_interrupted_answer_is_kept_up_to_the_interruption(loopback, recording, name):
    piece = sse(said("Half", None), done=False)
    loopback.answers = [Answer(piece, end="stall")]
    agent = recording(name)
    seen = asyncio.Event()

    async def ask():
        async for event in agent.chat_stream("hi"):
            if event.type == "text":
                seen.set()

    task = asyncio.create_task(ask())
    await seen.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (row,) = agent.trace.rows("http")
    assert (row["status"], row["response_body"], row["complete"]) == (200, piece.decode(), False)
    assert agent.trace.events["type"].tolist()[-3:] == ["http", "usage", "interrupted"]


async def test_only_the_recording_agent_has_its_exchanges(loopback, connect):
    """Two agents share one provider and alternate in the middle of their answers. One of them records."""
    loopback.answers = [Answer(sse(*(said(word, None) for word in "abcdef"), said("g")))]
    provider = connect()
    quiet, telling = Agent(provider), Agent(provider, trace=Trace(record_http=True))
    running = [agent.chat_stream(f"from {index}").__aiter__() for index, agent in enumerate([quiet, telling])]
    for _ in range(4):  # step by step in one task, and so in one context
        for events in running:
            await anext(events)
    for events in running:
        async for _ in events:
            pass
    assert len(loopback.requests) == 2
    assert len(quiet.trace.rows("http")) == 0
    (row,) = telling.trace.rows("http")
    assert json.loads(row["request_body"])["messages"][-1]["content"] == "from 1"
    assert row["run_id"] == telling.trace.runs["run_id"].item()


async def test_recording_can_be_switched_on_and_off_and_a_fork_inherits_it(loopback, connect):
    loopback.answers = [Answer(sse(said("Good.")))]
    agent = Agent(connect())
    assert await asked(agent) == []
    assert "http" not in agent.trace.events["type"].tolist()
    agent.trace.record_http = True
    assert len(await asked(agent)) == 1
    assert len(await asked(agent.fork())) == 1
    agent.trace.record_http = False
    assert await asked(agent) == []
