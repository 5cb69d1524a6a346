"""Requests that no client of ours would send: none crashes or hangs the server, and each gets a clear response."""

import os
import socket
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
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
QUIET = list(HealthCheck)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    limits = {"requests_per_minute": None, "max_body_bytes": 100_000}
    agent = Agent(ScriptedProvider(lambda messages, functions: "Yes."))
    agent.use(SkillHost(builtin=True, discover=False))
    with chdir(tmp_path_factory.mktemp("searched")), served(agent, **limits) as running:
        yield running


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("examples", [FEW, pytest.param(MANY, marks=pytest.mark.full)])
def test_the_server_matches_its_openapi_document(server, examples, mode):
    document = server.client().get("/openapi.json").json()
    paths = set(document["paths"])
    assert {"/agent/chat", "/agent/conversations", "/agent/approvals/{approval_id}", "/skills", "/healthz"} <= paths
    tried = set()
    for found in schemathesis.openapi.from_dict(document).get_all_operations():
        try:
            checked(found.ok(), mode, server.url, tried, examples)()
        except Unsatisfiable:  # a request without parameters can't be wrong
            assert mode is GenerationMode.NEGATIVE
    assert len(tried) > 5
    assert server.client().get("/healthz").status_code == 200


def checked(operation, mode, url, tried, examples):
    """A property test: the response to any request matches the document."""

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True, suppress_health_check=QUIET)
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        tried.add(operation.label)
        case.call_and_validate(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, checks=CHECKS, timeout=60)

    return check


def test_a_body_that_never_ends_times_out():
    with served(Agent("scripted"), body_seconds=0.2) as server:
        host, port = server.url.removeprefix("http://").split(":")
        head = (
            f"POST /agent/chat HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 50\r\n\r\n"
        )
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head.encode() + b"{")
            assert connection.recv(65536).startswith(b"HTTP/1.1 408")
