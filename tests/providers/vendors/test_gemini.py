"""Gemini: what its requests look like, which schemas it takes, and what is special about its answers."""

import json
import re

import pytest
from support.decoding import SAMPLES, decode, text_of
from support.loopback import Answer

from nbagent import Agent
from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.errors import (
    AuthenticationError,
    ContextLengthError,
    IncompleteStreamError,
    RateLimitError,
    ServerError,
)
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.gemini_schema import gemini_schema
from nbagent.providers.http.errors import status_error
from nbagent.providers.options.resolved import ResolvedOptions

CODEC = GeminiCodec(CATALOG["gemini"])
USER = LLMMessage("user", "hi")
ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
NOW = {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}
CALLS = [FunctionCall("add", {"a": 1}, "c1"), FunctionCall("add", {}, "c2")]


def body(conversation, functions=None, model="m1", **options):
    return json.loads(CODEC.encode_request(conversation, ResolvedOptions(functions, **options), model))


def contents(*conversation):
    return body(conversation)["contents"]


def result(call_id, content, **more):
    return LLMMessage("tool", content, tool_call_id=call_id, **{"name": "add", **more})


async def answered(sample):
    """The message that a recorded answer becomes."""
    response, _ = await decode(CODEC, [(SAMPLES / f"{sample}.sse").read_bytes()])
    calls = response.function_calls
    return LLMMessage("assistant", response.content, tool_calls=calls, provider_extras=response.raw_response)


def test_a_whole_conversation():
    conversation = [
        LLMMessage("system", "Be brief."),
        USER,
        LLMMessage("assistant", "Let me see.", tool_calls=CALLS),
        result("c1", "2"),
        result("c2", "no a", is_error=True),
        LLMMessage("user", "And?"),
    ]
    assert body(conversation, [ADD, NOW], temperature=0.5, extra={"max_tokens": 9, "topP": 0.9}) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 9},
        "tools": [{"functionDeclarations": [ADD, {"name": "now"}]}],
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Let me see."},
                    {
                        "functionCall": {"id": "c1", "name": "add", "args": {"a": 1}},
                        "thoughtSignature": "skip_thought_signature_validator",
                    },
                    {"functionCall": {"id": "c2", "name": "add", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "add", "response": {"output": "2"}}},
                    {"functionResponse": {"id": "c2", "name": "add", "response": {"error": "no a"}}},
                    {"text": "And?"},
                ],
            },
        ],
    }


def test_nothing_is_sent_that_was_not_said():
    assert body([USER]) == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    assert contents(USER, LLMMessage("assistant", ""), LLMMessage("user", "yo")) == [
        {"role": "user", "parts": [{"text": "hi"}, {"text": "yo"}]}
    ]


def test_the_bodys_own_fields_stay_beside_the_generation_config():
    config = {"functionCallingConfig": {"mode": "ANY"}}
    extra = {"toolConfig": config, "safetySettings": [], "generationConfig": {"seed": 1}, "topK": 3}
    without = {"safetySettings": [], "generationConfig": {"topK": 3, "seed": 1}}
    assert body([USER], extra=extra) == without | {"contents": contents(USER)}
    assert body([USER], [ADD], extra=extra)["toolConfig"] == config
    search = {"googleSearch": {}}
    assert body([USER], [ADD], extra={"tools": [search]})["tools"] == [{"functionDeclarations": [ADD]}, search]


def test_the_path_names_the_model():
    paths = {
        "m1": "/models/m1",
        "tunedModels/mine": "/tunedModels/mine",
        "publishers/google/models/m1": "/publishers/google/models/m1",
        "a?b": "/models/a%3Fb",
        "a/b": "/models/a%2Fb",
        "models/../x?y#z": "/models/..%2Fx%3Fy%23z",
        "..": "/models/..",
    }
    assert {model: CODEC.path(model, False) for model in paths} == {
        model: f"{path}:generateContent" for model, path in paths.items()
    }
    assert CODEC.path("../..", True) == "/models/..%2F..:streamGenerateContent?alt=sse"


def test_results_without_a_name_take_it_from_their_call():
    turn = LLMMessage("assistant", "", tool_calls=CALLS[:1])
    assert contents(USER, turn, result("c1", "2", name=None))[2]["parts"][0]["functionResponse"]["name"] == "add"


async def test_results_have_the_ids_that_gemini_knows():
    turn = await answered("gemini_parallel_calls")
    made, given, other = [call.id for call in turn.tool_calls]
    assert (given, len({made, given, other})) == ("g2", 3)
    sent = contents(USER, turn, result(made, "1"), result(given, "2"), result(other, "3", name="now"))
    assert [part["functionResponse"].get("id") for part in sent[2]["parts"]] == [None, "g2", None]


@pytest.mark.parametrize("change", [{"content": "edited"}, {"tool_calls": CALLS[:1]}, {"tool_calls": None}])
async def test_edited_messages_are_not_replaced_by_their_old_parts(change):
    turn = await answered("gemini_parallel_calls")
    assert b"c2ln" in CODEC.encode_message(turn)
    assert b"c2ln" not in CODEC.encode_message(turn.replace(**change))


def said(text, finish=None):
    return {"candidates": [{"content": {"parts": [{"text": text}]}, **({"finishReason": finish} if finish else {})}]}


def streamed(*events):
    return "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events).encode()


async def test_text_may_follow_a_finish_reason():
    response, shown = await decode(CODEC, [streamed(said("one", "STOP"), said(" two"), said(" three", "STOP"))])
    assert (response.content, text_of(shown)) == ("one two three", "one two three")


def test_other_candidates_are_not_mixed_in():
    body = said("one", "STOP")
    body["candidates"].append({"index": 1, "content": {"parts": [{"text": "two"}]}, "finishReason": "SAFETY"})
    response = CODEC.decode_body(body)
    assert (response.content, response.finish_reason) == ("one", "stop")


async def test_a_json_array_is_a_stream_in_one_piece():
    array = json.dumps([said("one"), said(" two", 1)], indent=1).encode()
    response, _ = await decode(CODEC, [array[:9], array[9:]])
    assert (response.content, response.finish_reason, response.metadata["finish_reason_raw"]) == ("one two", "stop", 1)
    with pytest.raises(IncompleteStreamError):
        await decode(CODEC, [array[:-5]])
    with pytest.raises(ServerError, match="Overloaded"):
        await decode(CODEC, [b'[{"error": {"code": 503, "message": "Overloaded"}}]'])


def test_why_an_answer_is_missing_is_kept():
    unexpected = said("", "UNEXPECTED_TOOL_CALL")
    unexpected["candidates"][0]["finishMessage"] = "Model tried to call an undeclared function"
    response = CODEC.decode_body(unexpected)
    assert (response.finish_reason, response.metadata["finish_reason_raw"]) == (None, "UNEXPECTED_TOOL_CALL")
    assert "undeclared" in response.metadata["stop_details"]


QUOTA = {"code": 429, "message": "Quota.", "status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "48.5s"}]}


@pytest.mark.parametrize(
    ("error", "cls"),
    [
        ({"code": 400, "message": "API key not valid. Please pass a valid API key."}, AuthenticationError),
        ({"code": 400, "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}, 0),
        (QUOTA, RateLimitError),
    ],
)
def test_errors(error, cls):
    found = status_error(error["code"], {}, json.dumps({"error": error}).encode())
    assert type(found) is (cls or ContextLengthError)
    assert found.retry_after == (48.5 if error is QUOTA else None)


def test_a_header_says_more_than_the_details():
    assert status_error(429, {"retry-after": "2"}, json.dumps({"error": QUOTA}).encode()).retry_after == 2


@pytest.mark.parametrize("model", ["models/../x?y", "tunedModels/../../x#y"])
async def test_no_models_name_changes_the_path(loopback, connect, model):
    loopback.answers = [Answer(streamed(said("Hi", "STOP")))]
    provider = connect("gemini", model=model)
    await provider.chat([USER])
    (request,) = loopback.requests
    path, _, query = request.path.partition("?")
    assert query == "alt=sse"
    assert re.fullmatch(r"/v1beta/(models|tunedModels)/[^/]+:streamGenerateContent", path)


async def test_the_request_over_http(loopback, connect):
    loopback.answers = [Answer(streamed(said("Hi", "STOP")))]
    provider = connect("gemini", max_tokens=7, thinking=True)
    assert (await provider.chat([USER], [ADD])).content == "Hi"
    (request,) = loopback.requests
    assert request.path == "/v1beta/models/m1:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == "test-key"
    assert "authorization" not in request.headers
    assert request.json["generationConfig"] == {"maxOutputTokens": 7, "thinkingConfig": {"includeThoughts": True}}
    provider.streaming = False
    loopback.answers = [Answer(json.dumps(said("Ho", "STOP")).encode(), headers={"content-type": "application/json"})]
    assert (await provider.chat([USER])).content == "Ho"
    assert loopback.requests[-1].path == "/v1beta/models/m1:generateContent"


async def test_what_its_own_tools_gave_it_to_read_is_billed_as_input(loopback, connect):
    """Google counts it apart from the prompt, and its total is the sum of all four."""
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


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"type": "string", "title": "T", "default": "x", "examples": ["x"], "$schema": "s"}, {"type": "string"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "D"},
            {"nullable": True, "description": "D"},
        ),
        ({"enum": ["a", "b", None]}, {"type": "string", "enum": ["a", "b"], "nullable": True}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": [1, 2], "description": "N."}, {"type": "integer", "description": "N. (one of: 1, 2)"}),
        ({"const": True}, {"type": "boolean", "description": "(one of: true)"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": "(format: uri)"}),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9}, {"minimum": 1, "maximum": 8}),
        ({"type": "number", "exclusiveMinimum": 0, "multipleOf": 2}, {"type": "number", "minimum": 0}),
        ({"type": "array", "uniqueItems": True, "minItems": 1}, {"minItems": 1, "items": {"type": "string"}}),
        ({"prefixItems": [{"type": "string"}] * 2}, {"type": "array", "items": {"type": "string"}}),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"type": "string"}},
            {"type": "object", "description": "(an object with any keys, each value: integer)"},
        ),
        (
            {"type": "object", "properties": {"$ref": {"type": "string"}}, "required": ["$ref", "gone"]},
            {"type": "object", "properties": {"$ref": {"type": "string"}}, "required": ["$ref"]},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}], "description": "D"},
            {
                "anyOf": [
                    {"type": "string", "description": "D"},
                    {"type": "array", "items": {"type": "integer"}, "description": "D"},
                ]
            },
        ),
        (
            {"allOf": [{"$ref": "#/$defs/A"}], "description": "D", "$defs": {"A": {"type": "string", "title": "A"}}},
            {"type": "string", "description": "D"},
        ),
    ],
)
def test_schemas_in_geminis_dialect(given, taken):
    before = json.dumps(given)
    found = gemini_schema(given)
    assert found == ({} if "anyOf" in taken else {"type": found["type"]}) | taken
    assert json.dumps(given) == before


def test_a_type_that_holds_itself_ends():
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}}
    found = gemini_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    inner = {"type": "object", "description": "Again Node.", "nullable": True}
    assert found == {"type": "object", "properties": {"next": inner}}
    loop = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}}
    assert gemini_schema(loop)["type"] == "object"


@pytest.mark.parametrize("schema", [{}, {"description": "D"}, True])
def test_any_value_is_each_type(schema):
    found = gemini_schema({"type": "object", "properties": {"x": schema}})["properties"]["x"]["anyOf"]
    assert [item["type"] for item in found] == ["string", "number", "boolean", "array", "object"]
