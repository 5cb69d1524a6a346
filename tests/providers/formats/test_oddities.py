"""What vendors and gateways do that no documentation mentions: what goes back, and bodies in place of streams."""

import json

import pytest
from support.decoding import SAMPLES, decode, thinking_of
from support.histories import as_message

from nbagent.core.messages import FunctionCall, Usage
from nbagent.errors import AuthenticationError, IncompleteStreamError, ProviderError, ServerError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.providers.http.errors import status_error

CHAT = ChatCodec(CATALOG["open_source"])
GEMINI = GeminiCodec(CATALOG["gemini"])

#: sample -> codec, what of its answer goes back.
GOING_BACK = {
    "messages_thinking_hidden": (
        MessagesCodec(CATALOG["claude"]),
        [
            {"type": "thinking", "thinking": "", "signature": "aGlkZGVu"},
            {"type": "redacted_thinking", "data": "b3BhcXVl"},
            {"type": "tool_use", "id": "t1", "name": "now", "input": {}, "caller": {"type": "direct"}},
        ],
    ),
    "messages_new_blocks": (
        MessagesCodec(CATALOG["claude"]),
        [
            {"type": "server_tool_use", "id": "s1", "name": "advisor", "input": {}},
            {
                "type": "advisor_tool_result",
                "tool_use_id": "s1",
                "content": {"type": "advisor_result", "text": "Go."},
            },
            {"type": "compaction", "content": "Before: x."},
            {"type": "text", "text": "Gone.", "level": 2},
            {"type": "fallback", "reason": "busy"},
        ],
    ),
    "responses_changing_ids": (
        ResponsesCodec(CATALOG["openai"]),
        [
            {"id": "rs_b", "type": "reasoning", "encrypted_content": "sealed", "summary": []},
            {
                "id": "fc_c",
                "type": "function_call",
                "call_id": "f1",
                "name": "find",
                "arguments": '{"q":"x"}',
                "status": "completed",
            },
        ],
    ),
    "gemini_odd_parts": (
        GEMINI,
        [
            {"text": "Sure", "thoughtSignature": "b25l"},
            {"functionCall": {"name": "now"}, "thoughtSignature": "dHdv"},
            {"text": "", "thoughtSignature": "dGhyZWU="},
        ],
    ),
    "chat_sealed_reasoning": (
        ChatCodec(CATALOG["openrouter"]),
        [
            {
                "role": "assistant",
                "content": "",
                "reasoning_details": [
                    {"type": "reasoning.summary", "summary": "Weigh it.", "format": "f", "index": 0},
                    {
                        "type": "reasoning.encrypted",
                        "data": "c2VhbGVk",
                        "id": "rs_1",
                        "format": "f",
                        "index": 0,
                    },
                ],
                "tool_calls": [{"id": "o1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}],
            }
        ],
    ),
}


@pytest.mark.parametrize("sample", GOING_BACK)
async def test_encrypted_reasoning_goes_back_on_its_own_part(sample):
    codec, parts = GOING_BACK[sample]
    got, _ = await decode(codec, [(SAMPLES / f"{sample}.sse").read_bytes()])
    assert json.loads(b"[" + codec.encode_message(as_message(got)) + b"]") == parts


@pytest.mark.parametrize("size", [1, 100, 10_000])
async def test_ollama_s_own_lines(size):
    body = (SAMPLES / "chat_ollama_native.ndjson").read_bytes()
    got, shown = await decode(CHAT, [body[at : at + size] for at in range(0, len(body), size)])
    assert (got.content, got.finish_reason, got.usage) == ("Adding.", "stop", Usage(20, 8))
    assert got.metadata["thinking"] == thinking_of(shown) == "Both tools."
    assert [(call.name, call.arguments) for call in got.function_calls] == [("add", {"a": 1}), ("add", {"a": 2})]
    assert len({call.id for call in got.function_calls}) == 2


async def test_ollama_s_own_lines_without_the_last_are_no_answer():
    lines = (SAMPLES / "chat_ollama_native.ndjson").read_bytes().splitlines(keepends=True)
    for end in range(1, len(lines)):
        with pytest.raises(IncompleteStreamError):
            await decode(CHAT, [b"".join(lines[:end])])
    with pytest.raises(IncompleteStreamError):
        await decode(CHAT, [b"".join(lines)[:-20]])


@pytest.mark.parametrize("arguments", ["", None, "null", "{}", {}])
def test_missing_arguments_in_every_form(arguments):
    calls = [{"id": "c1", "type": "function", "function": {"name": "now", "arguments": arguments}}]
    body = {"choices": [{"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}]}
    assert CHAT.decode_body(body).function_calls == [FunctionCall("now", {}, "c1")]


@pytest.mark.parametrize(
    ("status", "kind", "body", "error"),
    [
        (401, "text/plain", b'{"error":{"message":"Invalid key","code":"invalid_api_key"}}', AuthenticationError),
        (401, "application/json", b"Invalid key", AuthenticationError),
        (502, "text/html", b"<html><title>Invalid key</title>", ServerError),
    ],
)
def test_errors_whatever_their_content_type(status, kind, body, error):
    raised = status_error(status, {"content-type": kind}, body)
    assert type(raised) is error
    assert "Invalid key" in raised.message


async def test_an_error_as_json_where_a_stream_was_asked_for():
    with pytest.raises(ProviderError, match="Too busy"):
        await decode(CHAT, [b'\n {"error": {"message": "Too busy", "type": "server_error"}}'])


def test_gemini_without_any_candidates():
    with pytest.raises(IncompleteStreamError):
        GEMINI.decode_body({"usageMetadata": {"promptTokenCount": 20}, "modelVersion": "gemini-x"})
    blocked = GEMINI.decode_body({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}})
    assert (blocked.content, blocked.finish_reason) == ("", "content_filter")


@pytest.mark.parametrize("piece", ["message", "delta"])
def test_an_answer_that_is_an_object_is_its_json(piece):
    """Workers AI answers a request for JSON so."""
    answer = {"city": "Köln", "inhabitants": 1_084_831, "type": "city"}
    decoder = CHAT.decoder()
    decoder.feed({"choices": [{piece: {"role": "assistant", "content": answer}, "finish_reason": "stop"}]})
    assert json.loads(decoder.finish().content) == answer
