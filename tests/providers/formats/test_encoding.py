"""What request bodies look like, and that only new messages are encoded."""

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


def test_messages_conversation():
    got = body(messages("minimax"), TURN, [ADD], temperature=0.5)
    mark = {"cache_control": {"type": "ephemeral"}}
    assert got == {
        "model": "m1",
        "stream": True,
        "max_tokens": 32000,
        "temperature": 0.5,
        "system": [{"type": "text", "text": "Be brief."} | mark],
        "tools": [{"name": "add", "description": "Add.", "input_schema": ADD["parameters"]} | mark],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"} | mark]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "add", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "2"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "no a", "is_error": True} | mark,
                ],
            },
        ],
    }


BLOCKS = [
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
    {"type": "text", "text": "Ja – 東京"},
    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}, "caller": {"type": "direct"}},
]


def test_blocks_go_back_to_their_vendor_as_they_came():
    message = assistant("Ja – 東京", CALLS[:1], {"vendor": "claude", "blocks": BLOCKS})
    assert body(messages(), [USER, message])["messages"][1]["content"] == BLOCKS
    rebuilt = [
        {"type": "text", "text": "Ja – 東京"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
    ]
    assert body(messages("minimax"), [USER, message])["messages"][1]["content"] == rebuilt
    assert body(chat(), [USER, message])["messages"][1]["content"] == "Ja – 東京"


@pytest.mark.parametrize("change", [{"content": "edited"}, {"tool_calls": [FunctionCall("add", {"a": 9}, "c1")]}])
def test_edited_messages_are_not_replaced_by_their_old_blocks(change):
    message = assistant("Ja – 東京", CALLS[:1], {"vendor": "claude", "blocks": BLOCKS})
    raw = messages().encode_request([USER, message], ResolvedOptions(), "m1")
    assert b"c2ln" in raw
    edited = messages().encode_request([USER, message.replace(**change)], ResolvedOptions(), "m1")
    assert b"c2ln" not in edited


def test_unsigned_thinking_goes_back_to_minimax_only():
    blocks = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}]
    for vendor, kinds in {"minimax": ["thinking", "text"], "claude": ["text"]}.items():
        message = assistant("Yes.", None, {"vendor": vendor, "blocks": blocks})
        got = body(messages(vendor), [USER, message])["messages"][1]["content"]
        assert [block["type"] for block in got] == kinds


@pytest.mark.parametrize(
    ("vendor", "field"),
    [
        ("deepseek", {"reasoning_content": "Hm."}),
        ("zhipu", {"reasoning_content": "Hm."}),
        ("openrouter", {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}),
        ("open_source", {"reasoning": "Hm."}),
        ("qwen", {}),
        ("openai", {}),
    ],
)
def test_reasoning_goes_back_where_it_is_wanted(vendor, field):
    received = {"reasoning_content": "Hm."} | field if vendor != "open_source" else field
    message = assistant("Yes.", None, {"vendor": vendor, **received})
    got = body(chat(vendor), [USER, message])["messages"][1]
    assert got == {"role": "assistant", "content": "Yes."} | field
    other = body(chat(vendor), [USER, message.replace(provider_extras={"vendor": "other", **received})])["messages"][1]
    assert other == {"role": "assistant", "content": "Yes."} | (
        {"reasoning_content": ""} if vendor == "deepseek" else {}
    )


def test_facts_of_the_vendors():
    assert "stream_options" not in body(chat("zhipu"), [USER])
    assert body(chat("zhipu"), [USER], [ADD])["tool_stream"] is True
    assert body(chat("qwen"), [USER], [ADD])["parallel_tool_calls"] is True
    assert "parallel_tool_calls" not in body(chat("qwen"), [USER])
    assert body(chat("openai"), [USER], extra={"max_tokens": 5})["max_completion_tokens"] == 5
    assert "stream_options" not in body(chat(), [USER], stream=False)


@pytest.mark.parametrize("codec", [chat(), messages()], ids=["chat", "messages"])
def test_messages_are_encoded_once(codec):
    message = LLMMessage("user", "hi")
    first = codec.encode_message(message)
    assert codec.encode_message(message) is first
    assert codec.encode_message(message.replace(content="ho")) != first


def test_codecs_keep_their_forms_apart():
    message = assistant("Yes.", None, {"vendor": "deepseek", "reasoning_content": "Hm."})
    forms = {chat("deepseek").encode_message(message), chat("qwen").encode_message(message)}
    assert len(forms | {messages().encode_message(message)}) == 3


@pytest.mark.parametrize("codec", [chat(), messages()], ids=["chat", "messages"])
def test_lone_surrogates_do_not_break_a_request(codec):
    assert "a\ufffdb" in codec.encode_request([LLMMessage("user", "a\ud800b")], ResolvedOptions(), "m1").decode()


def test_native_blocks_with_ids_that_claude_would_refuse():
    blocks = [{"type": "tool_use", "id": "add:0", "name": "add", "input": {"a": 1}}]
    native = assistant("", [FunctionCall("add", {"a": 1}, "add:0")], {"vendor": "claude", "blocks": blocks})
    sent = body(messages(), [USER, native, result("add:0", "2")])["messages"]
    assert sent[1]["content"][0]["id"] == sent[2]["content"][0]["tool_use_id"] != "add:0"


def test_an_answer_that_says_nothing_to_another_vendor_is_left_out():
    thought = assistant(
        extras={"vendor": "claude", "blocks": [{"type": "thinking", "thinking": "…", "signature": "s"}]}
    )
    sent = body(chat("deepseek"), [USER, thought, USER])["messages"]
    assert [message["role"] for message in sent] == ["user", "user"]
