"""The table of HTTP exchanges, `curl` commands that run, and archives that browsers read."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
from datetime import datetime

import pandas as pd
import pytest

from nbagent import Agent, Trace, create_provider
from nbagent.core.events import Http, TurnStarted
from nbagent.core.http_exchange import Exchange
from nbagent.errors import ConfigurationError
from nbagent.notebook.display.transcript import Transcript
from nbagent.trace.columns import COLUMNS
from nbagent.trace.export import http

KEY = "sk-MARKER0123456789"
GOOD = b'data: {"choices": [{"index": 0, "delta": {"content": "Good."}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


class Server:
    """Keeps the heads and bodies of requests, and gives the same answer to all."""

    def __init__(self, answer=GOOD, status=200):
        self.answer = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n" % (status, len(answer))
        self.answer += b"Content-Type: text/event-stream\r\nX-Request-Id: req_1\r\n\r\n" + answer
        self.requests = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((lines[0], headers, body))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


async def recorded(server, text="hi", **options):
    """The trace of one question."""
    provider = create_provider("deepseek", api_key=KEY, base_url=server.url, max_retries=0, **options)
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


async def test_the_table_is_the_same_with_and_without_rows():
    async with Server() as server:
        full = (await recorded(server)).http
    empty = Trace().http
    assert len(empty) == 0
    assert list(empty.columns) == list(COLUMNS["http"])
    assert empty.dtypes.astype(str).to_dict() == full.dtypes.astype(str).to_dict() == COLUMNS["http"]
    failed = trace_of(exchange(error_type="ProviderConnectionError", error_message="no")).http
    assert failed.dtypes.astype(str).to_dict() == COLUMNS["http"]
    assert pd.isna(failed["status"].iloc[0])
    assert failed["error_message"].tolist() == ["no"]


async def test_the_display_is_short():
    async with Server() as server:
        trace = await recorded(server, "x" * 100_000)
    assert len(trace.http["request_body"].iloc[0]) > 100_000
    for shown in (repr(trace.http), trace.http._repr_html_()):
        assert "chat/completions" in shown
        assert len(shown) < 3_000


def test_a_note_about_waiting_is_not_an_exchange():
    transcript = Transcript()
    transcript.feed(TurnStarted(metadata={"model": "m1"}))
    transcript.feed(Http("loading the model"))
    transcript.feed(Http(metadata={"url": "http://host"}, exchange=exchange()))
    assert transcript.plain() == "loading the model…"
    trace = Trace()
    trace.record(Http("loading the model", metadata={"run_id": "run_1", "call_id": "call_1"}))
    assert (len(trace.http), len(trace.events)) == (0, 1)


@pytest.mark.skipif(shutil.which("curl") is None or os.name == "nt", reason="there is no curl here")
@pytest.mark.parametrize("text", ['it\'s "quoted" $HOME `date` \\n\n BODY\nüñ 你好 &<>', "x" * 300_000])
async def test_the_curl_command_sends_the_same_request(text):
    """Run by a real shell and a real curl, with the key from the environment."""
    async with Server() as server:
        headers = {"X-Odd": 'it\'s "odd" $HOME `date` \\ !', "X-Corp-Token": "corp-0123456789"}
        trace = await recorded(server, text, headers=headers)
        command = trace.curl()
        assert KEY not in command
        secrets = {"DEEPSEEK_API_KEY": KEY, "X_CORP_TOKEN": "corp-0123456789"}
        process = await asyncio.create_subprocess_exec(
            "sh", stdin=-1, stdout=-1, stderr=-1, env={**os.environ, **secrets, "no_proxy": "*"}
        )
        out, err = await process.communicate(command.encode())
    assert (out, err, process.returncode) == (GOOD, b"", 0)
    (line, sent, body), (again, resent, rebody) = server.requests
    assert (again, rebody) == (line, body + b"\n")
    own = ("host", "content-length", "user-agent", "accept-encoding", "connection")
    assert {**sent, **dict.fromkeys(own)} == {**resent, **dict.fromkeys(own)}


@pytest.mark.skipif(shutil.which("curl") is None or os.name == "nt", reason="there is no curl here")
@pytest.mark.parametrize(
    "changes",
    [
        {"method": "$(touch ran)"},
        {"request_headers": {"a": "$X|\\(touch ran\\) $(touch ran)a"}, "secrets": ["X|\\(touch ran\\)"]},
        {"url": "-o ran"},
        {"request_headers": {"a'; touch ran; '": "`touch ran`$(touch ran)'; touch ran; '"}},
        {"request_body": "BODY\ntouch ran\nBODY_\n", "request_bytes": 1},
    ],
)
def test_the_curl_command_of_a_strange_trace_runs_nothing(changes, tmp_path):
    trace = trace_of(exchange(**{"url": "http://127.0.0.1:9/", **changes}))
    with contextlib.suppress(ConfigurationError):
        subprocess.run(["sh", "-c", trace.curl()], cwd=tmp_path, capture_output=True, check=False)
    assert not list(tmp_path.iterdir())


def test_the_curl_command_of_requests_without_a_body_and_by_index():
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
    with pytest.raises(ConfigurationError, match="2,000 bytes"):
        trace_of(exchange(request_bytes=2_000, truncated=True)).curl()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request_headers", None),
        ("request_headers", '{"a": 5}'),
        ("request_body", ["{}"]),
        ("method", None),
        ("url", 7),
        ("secrets", 5),
        ("started", None),
        ("duration_s", "long"),
        ("status", "good"),
        ("response_headers", [1]),
    ],
)
def test_a_row_of_other_types_is_one_clear_error(name, value):
    """As a program may hold it that records its own exchanges."""
    row = {**trace_of(exchange()).rows("http")[0], name: value}
    for use in (http.curl, lambda row: http.har([row])):
        with pytest.raises(ConfigurationError, match=r"This row of trace\.http describes no request: .+"):
            use(row)


def test_the_end_of_a_body_is_found_at_once():
    body = "BODY" + "_" * 1_000_000
    command = trace_of(exchange(request_body=body, request_bytes=len(body))).curl()
    assert command.endswith(f"\n{body}\n{body}_")


async def test_the_http_archive(tmp_path):
    async with Server() as server:
        trace = await recorded(server)
        port = server.url
    trace.record(Http(metadata={"run_id": None}, exchange=exchange(error_type="X", error_message="no way")))
    trace.save_har(tmp_path / "talk.har")
    with pytest.raises(ConfigurationError, match="can't be written: No such file"):
        trace.save_har(tmp_path / "no folder" / "talk.har")
    log = json.loads((tmp_path / "talk.har").read_text("utf-8"))["log"]
    assert (log["version"], log["creator"]["name"]) == ("1.2", "nbagent")
    good, failed = log["entries"]
    assert datetime.fromisoformat(good["startedDateTime"]).tzinfo is not None
    timings = good["timings"]
    assert min(timings.values()) >= 0
    assert sum(timings.values()) == pytest.approx(good["time"])
    request, response = good["request"], good["response"]
    assert (request["method"], request["url"]) == ("POST", f"{port}/chat/completions")
    assert json.loads(request["postData"]["text"])["messages"][-1]["content"] == "hi"
    assert (response["status"], response["statusText"], response["content"]["text"]) == (200, "OK", GOOD.decode())
    assert {"name": "authorization", "value": "Bearer $DEEPSEEK_API_KEY"} in request["headers"]
    assert response["content"]["mimeType"] == "text/event-stream"
    assert (failed["response"]["status"], failed["_error"]) == (0, "X: no way")
    assert failed["startedDateTime"] == "2027-01-15T08:00:00.500000+00:00"
    for part in (request, response, failed["request"], failed["response"]):  # what the format asks for
        assert {"httpVersion", "headers", "cookies", "headersSize", "bodySize"} <= part.keys()
    assert {"queryString", "method", "url"} <= failed["request"].keys()


async def test_an_error_in_the_answer_is_joined_to_its_call():
    async with Server(b'{"error": {"message": "no such model"}}', 404) as server:
        trace = await recorded(server)
    joined = trace.calls.merge(trace.http, on="call_id")
    assert joined["http_status"].tolist() == joined["status"].tolist() == [404]
    assert joined["error_type_x"].tolist() == ["ModelNotFoundError"]
    assert joined["error_type_y"].isna().all()  # an answer is an answer
    assert joined["request_id"].tolist() == ["req_1"]
