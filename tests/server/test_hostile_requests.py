"""Requests that no client of ours would send: none crashes the server, none hangs, and each gets a clear answer."""

import json
import os
import random
import socket
from collections import Counter
from contextlib import chdir

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from support.serving import TOKEN, served

from nbagent import Agent, ScriptedProvider, SkillHost

#: Examples for each operation: few in `make test`, more in `make test-all`.
FEW, MANY = 2, int(os.environ.get("NBAGENT_SERVER_EXAMPLES", "10"))
MALFORMED = 1_000
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
QUIET = list(HealthCheck)
LIMITS = {"requests_per_minute": None, "max_body_bytes": 100_000, "body_seconds": 2.0}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    agent = Agent(ScriptedProvider(lambda messages, functions: "Yes."))
    agent.use(SkillHost(builtin=True, discover=False, in_process=True))
    with chdir(tmp_path_factory.mktemp("searched")), served(agent, **LIMITS) as running:
        yield running


@pytest.fixture(scope="module")
def without_tools():
    """Clients that break off interrupt tools in their threads; that is shown elsewhere."""
    with served(Agent(ScriptedProvider(lambda messages, functions: "Yes.")), **LIMITS) as running:
        yield running


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.full)])
def test_the_server_is_as_its_openapi_document_says(server, examples, mode):
    document = server.client().get("/openapi.json").json()
    paths = set(document["paths"])
    assert {"/agent/chat", "/agent/conversations", "/agent/approvals/{approval_id}", "/skills", "/healthz"} <= paths
    tried = set()
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        try:
            checked(found.ok(), mode, server.url, tried, examples)()
        except Unsatisfiable:  # nothing can be wrong about a request without parameters
            assert mode is GenerationMode.NEGATIVE
    assert len(tried) > 5
    assert server.client().get("/healthz").status_code == 200


def checked(operation, mode, url, tried, examples):
    """A property: what the operation answers to any request is as the document says."""

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=QUIET)
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        tried.add(operation.label)
        case.call_and_validate(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, checks=CHECKS, timeout=60)

    return check


def malformed(random):
    """One malformed request, as bytes."""
    body = json.dumps({"message": "?"}).encode()
    wrong = {
        "Host": ["evil.example", "", "127.0.0.1:x", "[::1", "a" * 5000],
        "Authorization": ["Bearer", "Bearer \xff", "Basic !!!", "Basic YTpi", "Digest x", f"Bearer {TOKEN}x"],
        "Content-Type": ["text/html", "application/json; charset=utf-16", "\x00", "x/", "multipart/form-data"],
        "Accept": ["text/event-stream;q=x", "\x01", "a" * 9000],
        "Idempotency-Key": ["", "\xe9", "k" * 400, "\t"],
        "Origin": ["null", "http://[", "https://evil.example", "\x7f"],
        "Content-Length": ["-1", "1e9", "99999999999999999999", "x", "", "0", "5", "50"],
        "Transfer-Encoding": ["chunked", "gzip", "chunked, chunked"],
        "method": ["BREW", "post", "", "GET /x", "OPTIONS", "DELETE", "\x16\x03\x01"],
        "path": [
            *("/agent/conversations/%00", "/agent/conversations/../../etc", "/agent/approvals/%ff", "//", "*", "/?q=%"),
            *("/" * 3000, "/skills/%2e%2e/invoke", "/skills/calculator/invoke", "http://evil.example/"),
        ],
        "version": ["HTTP/1.0", "HTTP/9", "", "FTP"],
        "body": [
            b"[" * 50_000,
            b'{"message": ' + b'"' * 99,
            body[:5],
            b"\xff\xfe",
            b"fffffffff\r\n",
            random.randbytes(99),
        ],
    }
    right = {"Host": "127.0.0.1", "Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    parts = {**right, "method": "POST", "path": "/agent/chat", "version": "HTTP/1.1", "body": body}
    for name in random.sample(sorted(wrong), random.choice([1, 1, 1, 2, 3])):
        parts[name] = random.choice(wrong[name])
    method, path, version, body = (parts.pop(name) for name in ("method", "path", "version", "body"))
    parts.setdefault("Content-Length", str(len(body)))
    if random.random() < 0.1:
        del parts[random.choice(sorted(parts))]
    head = "".join(f"{name}: {value}\r\n" for name, value in parts.items())
    return f"{method} {path} {version}\r\n{head}\r\n".encode("latin-1") + body


def test_malformed_requests_by_sockets(without_tools):
    source = random.Random(15)
    host, port = without_tools.url.removeprefix("http://").split(":")
    statuses = Counter()
    for _ in range(MALFORMED // 2):
        data = malformed(source)
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)  # nothing more comes: nothing may wait for it
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        status = answer[9:12].decode() or "none"
        statuses[status] += 1
        assert not status.startswith("5"), (data, answer)
        assert b"Traceback" not in answer
    assert len(statuses) > 4, statuses
    assert without_tools.client().post("/agent/chat", json={"message": "?"}).json()["response"] == "Yes."


VALUES = [None, True, -1, 10**30, 1e308, "", " ", "\0", "\u202e", "x" * 70_000, [], {}, [[]], {"a": {}}, "\ud800"]


def test_malformed_bodies(server):
    source = random.Random(16)
    fields = ["message", "conversation_id", "provider", "model", "max_tool_calls", "max_tokens", "max_total_tokens"]
    fields += ["max_cost", "temperature", "waits_for_approval", "events", "unknown", "decision", "arguments"]
    paths = ["/agent/chat"] * 4 + ["/agent/approvals/x", "/skills/calculator/invoke", "/skills/echo/invoke"]
    client = server.client()
    statuses = Counter()
    for _ in range(MALFORMED // 2):
        body = {source.choice(fields): source.choice(VALUES) for _ in range(source.randrange(5))}
        if source.random() < 0.5:
            body["message"] = "?"
        text = json.dumps(body if source.random() < 0.9 else source.choice(VALUES))
        answer = client.post(source.choice(paths), content=text, headers={"Content-Type": "application/json"})
        statuses[answer.status_code] += 1
        assert answer.status_code < 500, (text, answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == answer.status_code
    assert {200, 422} <= set(statuses)


def test_a_body_that_never_ends_is_given_up(server):
    host, port = server.url.removeprefix("http://").split(":")
    head = f"POST /agent/chat HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 50\r\n\r\n{{"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")
