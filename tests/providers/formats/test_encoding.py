"""What request bodies look like."""

import json

import pytest

from nbagent.core.messages import FunctionCall, LLMMessage
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.options.resolved import ResolvedOptions

ADD = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
USER = LLMMessage("user", "hi")


def chat(vendor="open_source"):
    return ChatCodec(CATALOG[vendor])


def messages(vendor="claude"):
    return MessagesCodec(CATALOG[vendor])


def body(codec, conversation, functions=None, model="m1", **options):
    return json.loads(codec.encode_request(conversation, ResolvedOptions(functions, **options), model))


def assistant(text="", calls=None, extras=None):
    return LLMMessage("assistant", text, tool_calls=calls, provider_extras=extras)


def result(call_id, content, is_error=False):
    return LLMMessage("tool", content, tool_call_id=call_id, name="add", is_error=is_error)


CALLS = [FunctionCall("add", {"a": 1}, "c1"), FunctionCall("add", {}, "c2")]
TURN = [LLMMessage("system", "Be brief."), USER, assistant("", CALLS), result("c1", "2"), result("c2", "no a", True)]


def test_chat_conversation():
    got = body(chat(), TURN, [ADD], temperature=0.5, extra={"max_tokens": 9})
    call = {"type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    assert got == {
        "model": "m1",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "max_tokens": 9,
        "tools": [{"type": "function", "function": ADD}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    call | {"id": "c1"},
                    {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
            {"role": "tool", "tool_call_id": "c2", "content": "no a"},
        ],
    }


def test_neighbouring_messages_of_the_user_are_sent_as_one():
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
    message = assistant("Ja – 東京", CALLS[:1], {"vendor": "claude", "blocks": BLOCKS})
    raw = messages().encode_request([USER, message], ResolvedOptions(), "m1")
    assert b"c2ln" in raw
    edited = messages().encode_request([USER, message.replace(**change)], ResolvedOptions(), "m1")
    assert b"c2ln" not in edited


def test_facts_of_the_vendors():
    assert "stream_options" not in body(chat("zhipu"), [USER])
    assert body(chat("zhipu"), [USER], [ADD])["tool_stream"] is True
    assert body(chat("qwen"), [USER], [ADD])["parallel_tool_calls"] is True
    assert "parallel_tool_calls" not in body(chat("qwen"), [USER])
    assert body(chat("openai"), [USER], extra={"max_tokens": 5})["max_completion_tokens"] == 5
    assert "stream_options" not in body(chat(), [USER], stream=False)


def test_lone_surrogates_do_not_break_a_request():
    for codec in (chat(), messages()):
        assert "a\ufffdb" in codec.encode_request([LLMMessage("user", "a\ud800b")], ResolvedOptions(), "m1").decode()
