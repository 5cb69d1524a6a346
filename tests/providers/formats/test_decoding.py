"""Every sample in `streams`, whole and cut at every byte, decodes to what its vendor meant."""

import json

import pytest
from support.decoding import SAMPLES, decode, text_of, thinking_of

from nbagent.core.events import ToolCallDelta
from nbagent.core.messages import FunctionCall, Usage
from nbagent.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    IncompleteStreamError,
    InvalidResponseError,
    ProviderError,
    RateLimitError,
    ServerError,
)
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec
from nbagent.providers.formats.think_tags import ThinkTags

CODECS = {
    "chat": ChatCodec(CATALOG["open_source"]),
    "messages": MessagesCodec(CATALOG["claude"]),
    "responses": ResponsesCodec(CATALOG["openai"]),
    "gemini": GeminiCodec(CATALOG["gemini"]),
}
CHAT, MESSAGES, RESPONSES, GEMINI = CODECS.values()
PLAIN = Usage(20, 8)
CLAUDE = Usage(115, 42, 100, 5)
GOOGLE = Usage(20, 8, 16, 0, 3)


def call(name, arguments, call_id, raw=None):
    return FunctionCall(name, arguments, call_id, raw)


#: sample -> text, thinking, calls, finish reason, usage
ANSWERS = {
    "chat_openai": ("Grüße aus 東京 🗼.", "", [], "stop", Usage(20, 8, 16, 0, 3)),
    "chat_openai_parallel": (
        "",
        "",
        [call("add", {"a": 1}, "a1"), call("add", {"a": 2}, "a2"), call("now", {}, "a3")],
        "tool_calls",
        PLAIN,
    ),
    "chat_qwen": ("", "Let me look.", [call("find", {"q": "x"}, "q1")], "tool_calls", Usage(20, 8, 4, 2)),
    "chat_zhipu": ("Yes.", "Hm.", [], "stop", Usage(20, 8, 1)),
    "chat_deepseek": ("Done.", "Think.", [], "length", Usage(20, 8, 5)),
    "chat_openrouter": ("Answer.", "First second.", [], "stop", PLAIN),
    "chat_ollama": ("", "Two.", [call("add", {"a": 1}, "call_0"), call("add", {"a": 2}, "call_1")], "stop", PLAIN),
    "chat_vllm_think_tags": ("It is: `<think>` is a tag.", "Is it so?", [], "stop", Usage()),
    "chat_mistral": (
        "Here.",
        "Mull.",
        [call("add", {"a": 1}, "m1"), call("add", {"a": 2}, "m2")],
        "tool_calls",
        PLAIN,
    ),
    "chat_gateway_oddities": (
        "",
        "",
        [call("find", {"q": "x"}, "k1"), call("add", {"a": 1}, "k2"), call("now", {}, "made")],
        "tool_calls",
        PLAIN,
    ),
    "chat_cut_call": ("I will.", "", [call("find", {}, "x1", '{"q": "unfin')], "length", PLAIN),
    "chat_refusal": ("I can't help.", "", [], "stop", PLAIN),
    "chat_message_beside_delta": ("One two.", "", [], "stop", PLAIN),
    "chat_shared_index": ("", "", [call("add", {"a": 1}, "s1"), call("add", {"a": 2}, "s2")], "tool_calls", PLAIN),
    "chat_repeated_name": ("", "", [call("find", {"q": "x"}, "0")], None, PLAIN),
    "chat_growing_usage": ("All is well.", "", [], "stop", PLAIN),
    "chat_groq": ("Fast.", "Hm.", [], "stop", PLAIN),
    "chat_sealed_reasoning": ("", "Weigh it.", [call("add", {"a": 1}, "o1")], "stop", PLAIN),
    "chat_one_chunk": ("Both.", "", [call("now", {}, "e1")], "stop", PLAIN),
    "chat_spent_on_thinking": ("", "On and on", [], "length", Usage(20, 8, 0, 0, 8)),
    "chat_azure": ("Fine.", "", [], "stop", PLAIN),
    "messages_empty": ("", "", [], "stop", CLAUDE),
    "messages_thinking_hidden": ("", "", [call("now", {}, "t1")], "tool_calls", Usage(117, 42, 100, 5)),
    "messages_new_blocks": ("Gone.", "", [], "stop", CLAUDE),
    "messages_gateway": ("Passed on.", "Hm.", [], "stop", CLAUDE),
    "messages_claude": ("Grüße 🗼.", "", [], "stop", CLAUDE),
    "messages_claude_thinking_tools": (
        "Looking.",
        "I need two.",
        [call("find", {"q": "x", "n": 2}, "t1"), call("now", {}, "t2")],
        "tool_calls",
        Usage(117, 42, 100, 5, 9),
    ),
    "messages_minimax": ("Ja.", "Unsigned.", [], "stop", CLAUDE),
    "messages_server_tool": ("Found.", "", [], "pause", CLAUDE),
    "messages_cut_call": ("", "", [call("find", {}, "t1", '{"q": "unfin')], "length", CLAUDE),
    "responses_openai": ("Grüße aus 東京 🗼.", "**Mulling**\n\nDone.", [], "stop", Usage(20, 8, 16, 0, 3)),
    "responses_parallel": ("", "", [call("find", {"q": "x"}, "f1"), call("now", {}, "f2")], "stop", PLAIN),
    "responses_reasoning_text": (
        "Looking.",
        "Two calls.",
        [call("add", {"a": 1}, "f1"), call("add", {"a": 2}, "f2")],
        "stop",
        PLAIN,
    ),
    "responses_refusal": ("I can't help.", "", [], "stop", PLAIN),
    "responses_cut_call": ("I will.", "", [call("find", {}, "x1", '{"q": "unfin')], "length", PLAIN),
    "responses_pieces_only": ("Yes.", "Hm.", [], "content_filter", PLAIN),
    "responses_changing_ids": ("", "", [call("find", {"q": "x"}, "f1")], "stop", PLAIN),
    "gemini_odd_parts": ("Sure", "", [call("now", {}, "made")], "stop", GOOGLE),
    "gemini_numbers": ("By number.", "", [], "stop", GOOGLE),
    "gemini_text": ("Grüße aus 東京 🗼.", "Hm.", [], "stop", GOOGLE),
    "gemini_parallel_calls": (
        "",
        "",
        [call("add", {"a": 1}, "made"), call("add", {"a": 2}, "g2"), call("now", {}, "made")],
        "stop",
        GOOGLE,
    ),
    "gemini_partial_args": ("", "", [call("find", {"q": "Berlin", "by": [None, {"n": 2}]}, "made")], "stop", GOOGLE),
    "gemini_cut_call": ("", "", [call("find", {}, "made", '{"q": "unfin"}')], "length", GOOGLE),
    "gemini_no_parts": ("", "", [], "length", Usage(20, 8, 0, 0, 8)),
    "gemini_safety": ("I ", "", [], "content_filter", GOOGLE),
    "gemini_prompt_blocked": ("", "", [], "content_filter", Usage(20)),
    "gemini_code_execution": ("Two.", "", [], "stop", GOOGLE),
}
#: sample -> error, part of its text
FAILURES = {
    "chat_error_in_stream": (ServerError, "Provider returned error"),
    "chat_tool_use_failed": (BadRequestError, "no such field"),
    "chat_error_beside_choices": (ServerError, "Upstream went away"),
    "chat_no_end": (IncompleteStreamError, "finish reason"),
    "messages_error_in_stream": (ServerError, "Overloaded"),
    "messages_no_end": (IncompleteStreamError, "message_stop"),
    "responses_failed": (ServerError, "bad day"),
    "responses_error_in_stream": (RateLimitError, "Slow down"),
    "responses_error_flat": (ServerError, "Lost it"),
    "responses_no_end": (IncompleteStreamError, "response.completed"),
    "gemini_error_in_stream": (ServerError, "overloaded"),
    "gemini_no_end": (IncompleteStreamError, "finishReason"),
    "gemini_malformed_call": (ServerError, "MALFORMED_FUNCTION_CALL"),
}


def codec_of(sample):
    return CODECS[sample.partition("_")[0]]


def check(sample, response):
    text, thinking, calls, finish, usage = ANSWERS[sample]
    assert response.content == text
    assert response.metadata.get("thinking", "") == thinking
    found = response.function_calls or []
    made = [FunctionCall(c.name, c.arguments, "made", c.raw) if "call_" in c.id else c for c in found]
    assert found == calls or made == calls
    assert response.finish_reason == finish
    assert response.usage == usage


def test_every_sample_is_listed():
    assert {path.stem for path in SAMPLES.glob("*.sse")} == {*ANSWERS, *FAILURES}


@pytest.mark.parametrize("sample", ANSWERS)
async def test_answer_cut_at_every_byte(sample):
    body, codec = (SAMPLES / f"{sample}.sse").read_bytes(), codec_of(sample)
    for at in range(len(body) + 1):
        response, shown = await decode(codec, [body[:at], body[at:]])
        check(sample, response)
        assert text_of(shown) == response.content
        assert thinking_of(shown) == response.metadata.get("thinking", "")


@pytest.mark.parametrize("sample", ANSWERS)
@pytest.mark.parametrize("kind", [bytes, memoryview])  # a browser's fetch gives memoryviews
async def test_answer_byte_by_byte(sample, kind):
    body = (SAMPLES / f"{sample}.sse").read_bytes()
    response, _ = await decode(codec_of(sample), [kind(body[at : at + 1]) for at in range(len(body))])
    check(sample, response)


@pytest.mark.parametrize("sample", FAILURES)
async def test_failure_cut_at_every_byte(sample):
    error, text = FAILURES[sample]
    body = (SAMPLES / f"{sample}.sse").read_bytes()
    for at in range(len(body) + 1):
        with pytest.raises(error, match=text) as caught:
            await decode(codec_of(sample), [body[:at], body[at:]])
        assert caught.value.retryable


@pytest.mark.parametrize("sample", ANSWERS)
async def test_no_cut_stream_counts_as_an_answer(sample):
    """Any prefix gives a whole answer or an error that may be retried, never a part that is taken for the whole."""
    body, codec = (SAMPLES / f"{sample}.sse").read_bytes(), codec_of(sample)
    calls = ANSWERS[sample][2]
    for end in range(len(body)):
        response, retryable = None, True
        try:
            response, _ = await decode(codec, [body[:end]])
        except ProviderError as error:
            retryable = error.retryable
        assert retryable
        if response:  # only usage may be missing
            assert response.content == ANSWERS[sample][0]
            assert [c.arguments for c in response.function_calls or []] == [c.arguments for c in calls]


async def test_argument_pieces_name_their_call():
    body = (SAMPLES / "chat_openai_parallel.sse").read_bytes()
    _, shown = await decode(CHAT, [body])
    pieces = [event for event in shown if isinstance(event, ToolCallDelta)]
    joined = {}
    for piece in pieces:
        joined.setdefault((piece.metadata["index"], piece.tool_name), []).append(piece.content)
    assert {key: "".join(parts) for key, parts in joined.items()} == {
        (0, "add"): '{"a":1}',
        (1, "add"): '{"a":2}',
        (2, "now"): "",
    }


async def test_metadata_keeps_the_vendors_own_words():
    response, _ = await decode(MESSAGES, [(SAMPLES / "messages_claude.sse").read_bytes()])
    assert response.metadata["finish_reason_raw"] == "end_turn"
    assert response.metadata["model"] == "claude-x"
    assert response.metadata["response_id"] == "msg_1"
    assert response.metadata["usage_raw"]["cache_read_input_tokens"] == 100


def chat_body(**message):
    return {"id": "c1", "model": "m1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {}}


async def test_whole_body_with_keep_alive_space_before_it():
    body = json.dumps(chat_body(content="<think>Hm.</think>Yes.")).encode()
    response, _ = await decode(CHAT, [b"\n  \n", b"   " + body[:5], body[5:]])
    assert (response.content, response.metadata["thinking"]) == ("Yes.", "Hm.")


def test_space_after_thinking_belongs_to_neither():
    for pieces in (["<think>Hm.</think>", "\n\n", "Yes. "], ["<think>Hm.</think>\n", "\nYes", ". "]):
        tags = ThinkTags()
        assert "".join(text for piece in pieces for text in tags.feed(piece)[:1]) == "Yes. "


def test_lost_opening_tag():
    response = CHAT.decode_body(chat_body(content="Let me see.\n</think>\n\nYes."))
    assert (response.content, response.metadata["thinking"]) == ("Yes.", "Let me see.")


def test_text_about_closing_tags_stays():
    text = "Write <b>bold</b> and `</think>` so."
    assert CHAT.decode_body(chat_body(content=text)).content == text


def test_null_finish_reason_of_a_whole_body_is_not_made_up():
    response = CHAT.decode_body({"choices": [{"message": {"content": "Hi"}, "finish_reason": None}]})
    assert (response.content, response.finish_reason) == ("Hi", None)


def test_call_cut_before_its_arguments_is_not_a_call_without_arguments():
    calls = [{"id": "1", "function": {"name": "delete_all", "arguments": ""}}]
    body = {"choices": [{"message": {"content": "", "tool_calls": calls}, "finish_reason": "length"}]}
    assert CHAT.decode_body(body).function_calls == [FunctionCall("delete_all", {}, "1", "")]


@pytest.mark.parametrize(
    ("body", "error", "retryable"),
    [
        ({"error": {"message": "boom", "code": 502}}, ServerError, True),
        ({"error": "boom"}, ServerError, True),
        ({"object": "error", "message": "boom", "code": 500}, ServerError, True),
        ({"choices": None, "base_resp": {"status_code": 1000, "status_msg": "boom"}}, ServerError, True),
        ({"choices": [{"error": {"message": "boom"}, "delta": {}}]}, ServerError, True),
        ({"error": {"message": "boom", "type": "authentication_error"}}, AuthenticationError, False),
        ({"error": {"message": "boom: maximum context length is 10"}}, ContextLengthError, False),
    ],
)
def test_error_objects_in_a_200_answer(body, error, retryable):
    with pytest.raises(error, match="boom") as caught:
        CHAT.decode_body(body)
    assert caught.value.retryable is retryable


@pytest.mark.parametrize("word", ["error", "network_error", "insufficient_system_resource"])
def test_answers_that_the_vendor_broke_off_are_errors(word):
    with pytest.raises(ServerError, match=word):
        CHAT.decode_body({"choices": [{"message": {"content": "Half"}, "finish_reason": word}]})


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_body_without_an_answer_is_an_error(codec):
    with pytest.raises((IncompleteStreamError, InvalidResponseError)):
        codec.decode_body({"id": "1"})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"<!DOCTYPE html><html><title>Sign in</title></html>", InvalidResponseError),
        (b"", IncompleteStreamError),
        (b'{"choices": [{"mess', IncompleteStreamError),
        (b'data: {"choices": [{"del\n\n', IncompleteStreamError),
        (b"[1, 2]", InvalidResponseError),
    ],
)
async def test_a_body_without_an_answer_at_all(body, error):
    with pytest.raises(error):
        await decode(CHAT, [body])
