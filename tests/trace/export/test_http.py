"""The table of HTTP exchanges, and `curl` commands that run."""

import asyncio
import os
import shutil

import pytest
from support.loopback import Answer, Loopback, said, sse

from nbagent import Agent, Trace, create_provider
from nbagent.core.events import Http
from nbagent.core.http_exchange import Exchange
from nbagent.errors import ConfigurationError
from nbagent.trace.columns import COLUMNS

KEY = "sk-MARKER0123456789"
GOOD = sse(said("Good."))


@pytest.fixture
async def server():
    async with Loopback() as server:
        server.answers = [Answer(GOOD, headers={"x-request-id": "req_1"})]
        yield server


async def recorded(server, text="hi", **options):
    """The trace of one prompt."""
    provider = create_provider("deepseek", api_key=KEY, base_url=f"{server.url}/v1", max_retries=0, **options)
    agent = Agent(provider, trace=Trace(record_http=True))
    await asyncio.gather(agent.chat(text), return_exceptions=True)
    await provider.aclose()
    return agent.trace


def exchange(**changes):
    values = {
        "method": "POST",
        "url": "https://host/v1/chat",
        "request_headers": {"content-type": "application/json"},
        "request_body": "{}",
        "request_bytes": 2,
        "started": 1_800_000_000.5,
        "duration_s": 0.25,
        "secrets": ["GEMINI_API_KEY"],
    }
    return Exchange(**{**values, **changes})


def trace_of(*exchanges):
    trace = Trace()
    for each in exchanges:
        trace.record(Http(metadata={"run_id": None, **each.summary()}, exchange=each))
    return trace


async def test_the_table_and_its_short_display(server):
    trace = await recorded(server, "x" * 100_000)
    trace.record(Http(metadata={"run_id": None}, exchange=exchange(error_type="X", error_message="no")))
    trace.record(Http("loading the model", metadata={"run_id": "run_1"}))  # a note is not an exchange
    assert trace.http.dtypes.astype(str).to_dict() == COLUMNS["http"]
    assert trace.http["status"].fillna(0).tolist() == [200, 0]
    assert trace.http["error_message"][1] == "no"
    assert len(trace.http["request_body"][0]) > 100_000
    for shown in (repr(trace.http), trace.http._repr_html_()):
        assert "chat/completions" in shown
        assert len(shown) < 3_000


needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="needs curl, which .ci/run installs")


@needs_curl
@pytest.mark.parametrize("text", ['it\'s "quoted" $HOME `date` \\n\n BODY\nüñ 你好 &<>', "x" * 300_000])
async def test_the_curl_command_sends_the_same_request(server, text):
    """Run it with a real shell and curl, with the key from the environment."""
    headers = {"X-Odd": 'it\'s "odd" $HOME `date` \\ !', "X-Corp-Token": "corp-0123456789"}
    command = (await recorded(server, text, headers=headers)).curl()
    assert KEY not in command
    secrets = {"DEEPSEEK_API_KEY": KEY, "X_CORP_TOKEN": "corp-0123456789"}
    process = await asyncio.create_subprocess_exec(
        "sh", stdin=-1, stdout=-1, stderr=-1, env={**os.environ, **secrets, "no_proxy": "*"}
    )
    out, err = await process.communicate(command.encode())
    assert (out, err, process.returncode) == (GOOD, b"", 0)
    sent, again = server.requests
    assert (again.method, again.path, again.body) == (sent.method, sent.path, sent.body + b"\n")
    own = ("host", "content-length", "user-agent", "accept-encoding", "connection")
    assert {**sent.headers, **dict.fromkeys(own)} == {**again.headers, **dict.fromkeys(own)}


def test_curl_commands_without_a_body_and_by_index():
    get = exchange(method="GET", url="https://host/v1/models?key=$GEMINI_API_KEY&x=1", request_body="", request_bytes=0)
    trace = trace_of(get, exchange())
    assert trace.curl(0) == (
        "curl -gsSN -X GET \"https://host/v1/models?key=$GEMINI_API_KEY&x=1\" \\\n  -H 'content-type: application/json'"
    )
    assert trace.curl() == trace.curl(1) == trace.curl(-1)
    assert trace.curl().endswith("--data-binary @- <<'BODY'\n{}\nBODY")
    with pytest.raises(IndexError):
        trace.curl(2)
    with pytest.raises(ConfigurationError, match="record_http=True"):
        Trace().curl()
