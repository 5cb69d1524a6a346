"""Requests of many parts: the work of each door grows with their number, not with its square."""

import time
from contextlib import suppress

import acp
import pytest
from support.doubling import TIMES, grown
from support.mcp_sessions import configured, session
from support.serving import served

from nbagent import Agent, ScriptedProvider
from nbagent.acp.agent import ACPAgent
from nbagent.core.answer_json import json_in
from nbagent.core.json_schema import validator_of
from nbagent.mcp.server.http import HTTPServing
from nbagent.mcp.server.tool_server import ToolServer
from nbagent.server.conversations.opening import open_store
from nbagent.server.routes.dependencies import MAX_MESSAGES

pytestmark = pytest.mark.fuzz

#: Parts of the large request.
LARGE = MAX_MESSAGES - 100
ASK = {"role": "user", "content": "?"}
CALL = {"type": "function", "function": {"name": "f", "arguments": "{}"}}


def completion(*before, **more):
    return "/v1/chat/completions", {"model": "nbagent", "messages": [*before, ASK], **more}


def response(*before, **more):
    return "/v1/responses", {"model": "nbagent", "input": [*before, ASK], **more}


def ag_ui(thread, messages=(), **more):
    body = {"threadId": thread, "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {}, **more}
    return "/ag-ui", {**body, "messages": [*messages, {"id": "last", **ASK}]}


def schema(count):
    return {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(count)}}


#: A request with as many parts as it is told.
REQUESTS = {
    "messages": lambda n: completion(*[ASK] * n),
    "long messages": lambda n: completion(*[{"role": "user", "content": "x" * 900}] * n),
    "turns": lambda n: completion(*[ASK, {"role": "assistant", "content": "!"}] * (n // 2)),
    "parts": lambda n: completion({"role": "user", "content": [{"type": "text", "text": "?"}] * n}),
    "tool calls": lambda n: completion(
        ASK, {"role": "assistant", "tool_calls": [{"id": f"c{i}", **CALL} for i in range(n)]}
    ),
    "a schema": lambda n: completion(
        response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": schema(n // 4)}}
    ),
    "items": lambda n: response(*[ASK] * n),
    "function calls": lambda n: response(
        *({"type": "function_call", "call_id": f"c{i}", "name": "f", "arguments": "{}"} for i in range(n))
    ),
    "a question": lambda n: ("/agent/chat", {"message": "word " * n * 50}),
    "AG-UI's messages": lambda n: ag_ui(
        f"m{n}", [{"id": f"m{i}", "role": ("user", "assistant")[i % 2], "content": "?"} for i in range(n)]
    ),
    "AG-UI's context": lambda n: ag_ui(f"c{n}", context=[{"description": "d", "value": "v"}] * n),
}  # fmt: skip


@pytest.fixture(scope="module")
def http():
    with served(Agent(ScriptedProvider(lambda messages, functions: "Yes.")), requests_per_minute=None) as server:
        yield server.client()


@pytest.mark.parametrize("name", REQUESTS)
def test_the_work_for_a_request_grows_with_its_parts(http, name):
    def post(request):
        path, body = request
        answer = http.post(path, json=body)
        assert answer.status_code == 200, answer.text

    small, large = map(REQUESTS[name], (LARGE // TIMES, LARGE))
    post(small)  # what is imported and cached at first
    assert not grown(post, small, large, time.process_time)


def test_a_request_over_a_bound_is_refused_at_once(http):
    deep = {"type": "string"}
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    format_ = {"type": "json_schema", "name": "s"}
    for path, body in (
        completion(*[ASK] * MAX_MESSAGES),
        response(*[ASK] * MAX_MESSAGES),
        response(text={"format": {**format_, "schema": deep}}),
        response(text={"format": {**format_, "schema": schema(10_000)}}),
        ag_ui("t", [{"id": "m", **ASK}] * MAX_MESSAGES),
    ):
        began = time.process_time()
        assert http.post(path, json=body).status_code in (400, 422)
        assert time.process_time() - began < 1


async def test_the_work_of_an_mcp_client_and_an_editor_grows_with_their_parts():
    agent = Agent(ScriptedProvider(lambda messages, functions: "Yes."))
    agent.register_function("count", "Count.", lambda items: len(items), {"type": "object"})
    serving = HTTPServing(ToolServer(agent, only=["count"])).start()
    store = open_store("memory:")
    await store.open()
    editor = ACPAgent(agent, store)
    editor.on_connect(Editor())
    try:
        async with session(configured(serving.client_configuration())) as client:
            spent = []
            for count in (1, LARGE // TIMES, LARGE):
                began = time.process_time()
                await client.call_tool("count", {"items": ["word"] * count})
                chat = (await editor.new_session("/")).session_id
                await editor.prompt(chat, [acp.text_block("word")] * count)
                spent.append(time.process_time() - began)
    finally:
        serving.stop()
        await store.aclose()
    assert spent[2] < 3 * TIMES * spent[1] + 0.05


class Editor:
    async def session_update(self, session_id, update):
        """Shows nothing."""


@pytest.mark.parametrize("text", ["```json\n{} {}", '[1] {}x{} "', '{}{{}"[{{}x', "{{}[{}", '{{"a": 1}}{}x{{"a": 2}}'])
def test_json_is_found_in_an_answer_of_blanks(text):
    def find(count):
        with suppress(ValueError):
            json_in(text.format(" \n" * count, " " * count))

    assert not grown(find, 2_000, 2_000 * TIMES, time.thread_time)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a?)+$", r"^(\w+\s?)*$"])
def test_a_pattern_of_a_foreign_schema_is_matched_in_linear_time(pattern):
    inside = {"pattern": pattern, "patternProperties": {pattern: {"pattern": pattern}}}
    validator = validator_of({"additionalProperties": inside, **inside})
    text = "a" * 5_000 + "!"
    began = time.thread_time()
    assert not validator.is_valid(text)
    assert not validator.is_valid({text: text})
    assert time.thread_time() - began < 1
