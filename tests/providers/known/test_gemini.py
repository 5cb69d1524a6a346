"""Gemini: its requests, the schemas that it accepts, and what is special about its answers."""

import json
import re

import httpx2
import pytest
from support.decoding import SAMPLES, as_message, decode
from support.loopback import Answer

from nbagent import Agent
from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.gemini_schema import gemini_schema
from nbagent.providers.formats.tool_schema import tool_schema
from nbagent.providers.http.errors import status_error
from nbagent.providers.options.resolved import ResolvedOptions

CODEC = GeminiCodec(CATALOG["gemini"])
USER = LLMMessage("user", "hi")
ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
SCHEMA = {"parametersJsonSchema": ADD["parameters"]}
CALLS = [FunctionCall("add", {"a": 1}, "c1"), FunctionCall("add", {}, "c2")]


def body(conversation, functions=None, model="m1", **options):
    return json.loads(CODEC.encode_request(conversation, ResolvedOptions(functions, **options), model))


def contents(*conversation):
    return body(conversation)["contents"]


def test_body_fields_stay_outside_the_generation_config():
    config = {"functionCallingConfig": {"mode": "ANY"}}
    extra = {"toolConfig": config, "safetySettings": [], "generationConfig": {"seed": 1}, "topK": 3}
    without = {"safetySettings": [], "generationConfig": {"topK": 3, "seed": 1}}
    assert body([USER], extra=extra) == without | {"contents": contents(USER)}
    assert body([USER], [ADD], extra=extra)["toolConfig"] == config
    search = {"googleSearch": {}}
    declared, own = body([USER], [ADD], extra={"tools": [search]})["tools"]
    assert declared == {"functionDeclarations": [{"name": "add", "description": "Add.", **SCHEMA}]}
    assert own == search


async def test_edited_messages_are_not_replaced_by_their_old_parts():
    response, _ = await decode(CODEC, [(SAMPLES / "gemini_parallel_calls.sse").read_bytes()])
    turn = as_message(response)
    assert b"c2ln" in CODEC.encode_message(turn)
    for change in ({"content": "edited"}, {"tool_calls": CALLS[:1]}):
        assert b"c2ln" not in CODEC.encode_message(turn.replace(**change))


def said(text, finish=None):
    return {"candidates": [{"content": {"parts": [{"text": text}]}, **({"finishReason": finish} if finish else {})}]}


def streamed(*events):
    return "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events).encode()


def test_the_retry_delay_comes_from_the_details_unless_a_header_has_it():
    quota = {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "48.5s"}]}
    body = json.dumps({"error": quota}).encode()
    assert status_error(httpx2.Response(429), body).retry_after == 48.5
    assert status_error(httpx2.Response(429, headers={"retry-after": "2"}), body).retry_after == 2
    quota["details"] = [{"retryDelay": {"seconds": 5}}, "soon", 7]
    odd = status_error(httpx2.Response(429), json.dumps({"error": quota, "request_id": 7}).encode())
    assert (odd.message, odd.request_id) == ("Quota.", "7")


@pytest.mark.parametrize("model", ["models/../x?y", "tunedModels/../../x#y"])
async def test_no_model_name_changes_the_path(loopback, connect, model):
    loopback.answers = [Answer(streamed(said("Hi", "STOP")))]
    provider = connect("gemini", model=model)
    await provider.chat([USER])
    (request,) = loopback.requests
    path, _, query = request.path.partition("?")
    assert query == "alt=sse"
    assert re.fullmatch(r"/v1beta/(models|tunedModels)/[^/]+:streamGenerateContent", path)


async def test_penalties_passed_on_by_the_server_have_geminis_names(loopback, connect):
    loopback.answers = [Answer(streamed(said("Hi", "STOP")))]
    await connect("gemini", model="gemini-3.7-flash").chat([USER], extra_body={"frequency_penalty": 0.5, "labels": {}})
    body = loopback.requests[0].json
    assert body["generationConfig"]["frequencyPenalty"] == 0.5
    assert {"frequency_penalty", "labels"} & body.keys() == {"labels"}


async def test_results_of_its_own_tools_are_billed_as_input(loopback, connect):
    """Google counts them apart from the prompt, and its total is the sum of all four counts."""
    prompt, read, wrote, thought = 132, 1387, 65, 149
    usage = {
        "promptTokenCount": prompt,
        "toolUsePromptTokenCount": read,
        "candidatesTokenCount": wrote,
        "thoughtsTokenCount": thought,
        "totalTokenCount": prompt + read + wrote + thought,
    }
    loopback.answers = [Answer(streamed(said("Hi", "STOP") | {"usageMetadata": usage}))]
    agent = Agent(connect("gemini", model="gemini-3.7-flash", tools=[{"codeExecution": {}}]))
    result = await agent.chat("hi")
    assert (result.usage.input_tokens, result.usage.output_tokens) == (prompt, wrote + thought)
    assert result.cost == pytest.approx(((prompt + read) * 0.75 + (wrote + thought) * 3.75) / 1e6)
    assert json.loads(agent.trace.calls["usage_raw"][0]) == usage


TEXT, COUNT = {"type": "string"}, {"type": "integer"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (TEXT | {"title": "T", "default": "x", "examples": ["x"], "x-own": 1}, TEXT),
        ({"anyOf": [COUNT, {"type": "null"}], "title": "T"}, {"anyOf": [COUNT, {"type": "null"}]}),
        ({"enum": ["a", None], "description": "D"}, {"description": 'D (enum: ["a", null])'}),
        (TEXT | {"format": "uri", "pattern": "^h"}, TEXT | {"description": '(format: "uri"; pattern: "^h")'}),
        ({"allOf": [TEXT], "description": "D"}, TEXT | {"description": "D"}),
        ({"type": "object", "properties": {}, "required": ["a"]}, {"type": "object", "required": []}),
        ({"$ref": "#/$defs/Node"},
         NODE | {"properties": {"next": {"type": "object", "description": "Again Node."}}}),
    ],
)  # fmt: skip
def test_schemas_in_the_keywords_that_gemini_accepts(given, taken):
    schema = {"type": "object", "properties": {"x": given}, "$defs": {"Node": NODE}}
    before = json.dumps(schema)
    assert gemini_schema(tool_schema(schema)) == {"type": "object", "properties": {"x": taken}}
    assert json.dumps(schema) == before
