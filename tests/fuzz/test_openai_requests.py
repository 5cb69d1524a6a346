"""Malformed requests to the addresses of OpenAI's API: an answer as the SDK knows it, or an error in the envelope."""

import json

import pytest
from support.fuzzing import fuzz, mutations
from support.openai_answers import checked_chunk, checked_completion, checked_event, checked_response
from support.serving import served
from support.small_agent import add, call

from nbagent import Agent, LLMResponse, ScriptedProvider

pytestmark = pytest.mark.fuzz

JSON = {"content-type": "application/json"}
IMAGE = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
SCHEMA = {"name": "sum", "schema": {"type": "object", "properties": {"value": {"type": "integer"}}}, "strict": True}
FUNCTION = {"name": "add", "arguments": "{}"}
COMPLETION = {
    "model": "nbagent",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "image_url", "image_url": {"url": IMAGE}}]},
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}]},
        {"role": "tool", "tool_call_id": "c1", "content": "0"},
        {"role": "assistant", "content": "0", "refusal": None},
        {"role": "user", "content": "1 + 2?", "name": "ann"},
    ],
    "response_format": {"type": "json_schema", "json_schema": SCHEMA},
    "stop": ["."],
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 100,
    "reasoning_effort": "low",
    "tool_choice": "auto",
}  # fmt: skip
RESPONSE = {
    "model": "nbagent",
    "input": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "?"}, {"type": "input_image", "image_url": IMAGE}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "A sum."}]},
        {"type": "mcp_call", "id": "mcp_1", "name": "add", "arguments": "{}", "output": "0", "error": None},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "0"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "0", "annotations": []}]},
        {"role": "user", "content": "1 + 2?"},
    ],
    "text": {"format": {"type": "json_schema", **SCHEMA}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "instructions": "Be kind.",
    "max_output_tokens": 100,
    "store": True,
    "previous_response_id": None,
}  # fmt: skip


def answer(messages, functions):
    """Adds, and then answers."""
    if messages[-1].role == "tool":
        return "It is 3."
    return LLMResponse("", [call("add", f"c{len(messages)}", a=1, b=2)], "tool_calls", {"thinking": "A sum."})


@pytest.fixture(scope="module")
def http():
    with served(Agent(ScriptedProvider(answer), tools=[add]), requests_per_minute=None) as server:
        yield server.client()


def check_answer(path, response):
    """The answer is as the API has it."""
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        error = response.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["message"]
        assert error["param"] is None or isinstance(error["param"], str)
    elif response.headers["content-type"].startswith("text/event-stream"):
        check = checked_chunk if path.endswith("completions") else checked_event
        for line in response.text.removesuffix("data: [DONE]\n\n").splitlines():
            if line.startswith("data: "):
                check(json.loads(line.removeprefix("data: ")))
    else:
        check = checked_completion if path.endswith("completions") else checked_response
        check(response.json())


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("path", "body"), [("/v1/chat/completions", COMPLETION), ("/v1/responses", RESPONSE)])
def test_changed_bodies(http, path, body, streamed):
    response = http.post(path, json={**body, "stream": streamed})
    assert response.status_code == 200, response.text

    def check(changed):
        check_answer(path, http.post(path, content=json.dumps(changed), headers=JSON))

    fuzz(check, mutations({**body, "stream": streamed}), count=25)
