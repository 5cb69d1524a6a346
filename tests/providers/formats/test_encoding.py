"""The bodies of requests."""

import json

import pytest

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.gemini_schema import gemini_schema
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.tool_schema import tool_schema
from nbagent.providers.options.resolved import ResolvedOptions

ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
USER = LLMMessage("user", "hi")


def chat(provider="open_source"):
    return ChatCodec(CATALOG[provider])


def messages(provider="claude"):
    return MessagesCodec(CATALOG[provider])


def body(codec, conversation, functions=None, model="m1", **options):
    return json.loads(codec.encode_request(conversation, ResolvedOptions(functions, **options), model))


def assistant(text="", calls=None, extras=None):
    return LLMMessage("assistant", text, tool_calls=calls, provider_extras=extras)


def result(call_id, content, is_error=False):
    return LLMMessage("tool", content, tool_call_id=call_id, name="add", is_error=is_error)


CALLS = [FunctionCall("add", {"a": 1}, "c1"), FunctionCall("add", {}, "c2")]
TURN = [LLMMessage("system", "Be brief."), USER, assistant("", CALLS), result("c1", "2"), result("c2", "no a", True)]


def test_adjacent_user_messages_are_sent_as_one():
    shown = LLMMessage("user", [{"type": "image", "media_type": "image/png", "data": "aWNvbg=="}])
    said = [[message["role"], message["content"]] for message in body(chat(), [USER, USER, *TURN[2:4]])["messages"]]
    assert [said[0], len(said)] == [["user", "hi\n\nhi"], 3]
    (one,) = body(chat(), [USER, shown])["messages"]
    assert [part["type"] for part in one["content"]] == ["text", "image_url"]


def test_messages_conversation():
    got = body(messages("minimax"), TURN, [ADD])
    mark = {"cache_control": {"type": "ephemeral"}}
    assert got["max_tokens"] == 32000
    assert got["tools"] == [{"name": "add", "description": "Add.", "input_schema": ADD["parameters"]} | mark]
    assert got["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "2"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "no a", "is_error": True} | mark,
    ]


BLOCKS = [
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
    {"type": "text", "text": "Ja – 東京"},
    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}, "caller": {"type": "direct"}},
]


@pytest.mark.parametrize("change", [{"content": "edited"}, {"tool_calls": [FunctionCall("add", {"a": 9}, "c1")]}])
def test_edited_messages_are_not_replaced_by_their_old_blocks(change):
    message = assistant("Ja – 東京", CALLS[:1], {"provider": "claude", "blocks": BLOCKS})
    raw = messages().encode_request([USER, message], ResolvedOptions(), "m1")
    assert b"c2ln" in raw
    edited = messages().encode_request([USER, message.replace(**change)], ResolvedOptions(), "m1")
    assert b"c2ln" not in edited


TEXT, COUNT = {"type": "string"}, {"type": "integer"}
TREE = {"type": "object", "properties": {"left": {"$ref": "#/definitions/Tree"}}}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"items": [TEXT, COUNT]}, {"prefixItems": [TEXT, COUNT], "items": {"anyOf": [TEXT, COUNT]}}),
        ({"type": ["array", "null"], "items": True}, {"type": ["array", "null"], "items": {}}),
        ({"minimum": 0, "exclusiveMinimum": True}, {"exclusiveMinimum": 0}),
        ({"oneOf": [TEXT, COUNT], "discriminator": {"propertyName": "kind"}}, {"anyOf": [TEXT, COUNT]}),
        ({"properties": {"a": {"required": True}}}, {"properties": {"a": {}}, "required": ["a"]}),
        ({"$ref": "#/definitions/Text", "description": "D."}, TEXT | {"description": "D."}),
        ({"$ref": "#/definitions/Tree", "description": "D."},
         {"anyOf": [{"$ref": "#/definitions/Tree"}], "description": "D."}),
        ({"default": [1], "enum": [[1], {"$ref": 1}], "type": "any"}, {"default": [1], "enum": [[1], {"$ref": 1}]}),
    ],
)  # fmt: skip
def test_schemas_in_the_dialect_for_claude_and_openai(given, taken):
    schema = {"type": "object", "properties": {"x": given}, "definitions": {"Text": TEXT, "Tree": TREE}}
    assert tool_schema(schema)["properties"]["x"] == taken


def test_alternatives_at_the_top_level_are_merged():
    kinds = [{"properties": {"kind": {"const": n}, n: TEXT}, "required": ["kind", n]} for n in ("a", "b")]
    schema = tool_schema({"allOf": [{"properties": {"c": COUNT}, "required": ["c"]}], "oneOf": kinds})
    kind = {"enum": ["a", "b"]}
    assert schema["properties"] == {"c": COUNT, "kind": kind, "a": TEXT, "b": TEXT}
    assert (schema["required"], schema["description"]) == (["c", "kind"], "Needs a, or b.")
    assert schema.keys() == {"type", "properties", "required", "description"}


@pytest.mark.parametrize("pair", [lambda one: {"properties": {"a": one, "b": one}}, lambda one: {"allOf": [one, one]}])
def test_schemas_that_each_refer_to_the_next_twice_are_not_inlined(pair):
    levels = {f"T{level}": pair({"$ref": f"#/$defs/T{level + 1}"}) for level in range(40)}
    schema = tool_schema({**pair({"$ref": "#/$defs/T0"}), "$defs": levels | {"T40": TEXT}})
    assert len(json.dumps(schema)) < 200_000
    assert len(json.dumps(gemini_schema(schema))) < 400_000


def test_provider_facts():
    assert body(chat("zhipu"), [USER], [ADD])["tool_stream"] is True
    assert body(chat("qwen"), [USER], [ADD])["parallel_tool_calls"] is True
    assert "parallel_tool_calls" not in body(chat("qwen"), [USER])


def test_lone_surrogates_do_not_break_a_request():
    for codec in (chat(), messages()):
        assert "a\ufffdb" in codec.encode_request([LLMMessage("user", "a\ud800b")], ResolvedOptions(), "m1").decode()
