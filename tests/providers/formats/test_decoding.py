"""Every recorded stream, whole and in pieces, decodes to its expected JSON. To add one, see `support/streams.py`."""

import json

import pytest
from support.called import called
from support.decoding import decode
from support.loopback import Answer, claude_said, gemini_said, said, sse
from support.streams import FORMATS, STREAMS, codec_of, expected, outcome, path_of

from nbagent import Agent
from nbagent.errors import (
    AuthenticationError,
    ContextLengthError,
    IncompleteStreamError,
    InvalidResponseError,
    ServerError,
)
from nbagent.providers.tool_names import fitting_argument, fitting_name, renamed

CHAT = codec_of("chat")
#: One stream for each way to write answers, which is cut at every byte. The others are cut between events.
FULL = [
    "chat_mistral",
    "chat_vllm_think_tags",
    "messages_claude_thinking_tools",
    "responses_reasoning_text",
    "gemini_parallel_calls",
]
#: The streams with an answer, or without JSON yet.
ANSWERS = [name for name in STREAMS if not path_of(name).exists() or "error" not in expected(name)]


def places(name):
    """The places where a stream is cut."""
    body = STREAMS[name].read_bytes()
    ends = (at for at in range(len(body)) if body[at : at + 1] == b"\n" or body[at - 1 : at] == b"\n")
    return range(len(body)) if name in FULL else [0, *ends]


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_decodes_to_its_expected_json(name):
    """In one piece, and byte by byte."""
    body = STREAMS[name].read_bytes()
    assert await outcome(codec_of(name), [body]) == expected(name)
    assert await outcome(codec_of(name), [body[at : at + 1] for at in range(len(body))]) == expected(name)


@pytest.mark.parametrize("name", FULL)
async def test_a_stream_may_be_cut_anywhere(name):
    """A browser's fetch gives memoryviews."""
    body = memoryview(STREAMS[name].read_bytes())
    for at in places(name):
        assert await outcome(codec_of(name), [body[:at], body[at:]]) == expected(name), at


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_broken_stream_never_counts_as_an_answer(name):
    """Any part gives the whole answer or a retryable error, never part of an answer."""
    body, whole = STREAMS[name].read_bytes(), expected(name)
    for end in places(name):
        got = await outcome(codec_of(name), [body[:end]])
        if "error" not in got:  # only usage may be missing
            assert got | {"usage": {}} == whole | {"usage": {}}, body[:end]


def chat_body(**message):
    return {"id": "c1", "model": "m1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": {}}


async def test_whole_body_with_keep_alive_space_before_it():
    body = json.dumps(chat_body(content="<think>Hm.</think>Yes.")).encode()
    response, _ = await decode(CHAT, [b"\n  \n", b"   " + body[:5], body[5:]])
    assert (response.content, response.metadata["thinking"]) == ("Yes.", "Hm.")


@pytest.mark.parametrize("name", ["天气", fitting_name("天气")])
def test_arguments_keep_their_names_inside_one_named_like_a_schema_keyword(name):
    """Models also call a tool by its original name, with which its description starts."""
    inner = {"type": "object", "properties": {"城市": {"type": "string"}}}
    tool = {"name": "天气", "parameters": {"type": "object", "properties": {"enum": inner}}}
    arguments = json.dumps({"enum": {fitting_argument("城市"): "巴黎"}})
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    response = CHAT.decode_body(chat_body(tool_calls=[call]), renamed([tool]))
    assert [(call.name, call.arguments) for call in response.function_calls] == [("天气", {"enum": {"城市": "巴黎"}})]


def test_lost_opening_tag():
    response = CHAT.decode_body(chat_body(content="Let me see.\n</think>\n\nYes."))
    assert (response.content, response.metadata["thinking"]) == ("Yes.", "Let me see.")


@pytest.mark.parametrize(
    "text",
    [
        "Write <b>bold</b> and `</think>` so.",
        "The model ends the reasoning with </think>\nand then it answers.",
        "It ends the reasoning with `</think>`\nThen it answers, as in:\n\n```\nHm.\n</think>\nYes.\n```",
        "<think> is the tag that begins the reasoning.",
    ],
)
async def test_text_about_tags_stays(loopback, connect, text):
    assert CHAT.decode_body(chat_body(content=text)).content == text
    loopback.answers = [Answer(sse(*[said(char, None) for char in text], said("")))]
    events = [event async for event in Agent(connect()).chat_stream("hi")]
    assert events[-1].content == "".join(event.content for event in events if event.type == "text") == text


def test_tags_are_text_if_thinking_has_its_own_field():
    text = "<think>Hm.</think>Yes."
    response = CHAT.decode_body(chat_body(reasoning_content="They want an example.", content=text))
    assert (response.content, response.metadata["thinking"]) == (text, "They want an example.")


def gemini_empty(word):
    return sse({"candidates": [{"content": {"role": "model"}, "finishReason": word}]}, done=False)


@pytest.mark.parametrize(
    ("provider", "empty", "word", "good"),
    [
        *(
            ("gemini", gemini_empty(word), word, gemini_said("Good."))
            for word in ("UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER")
        ),
        ("open_source", sse(said("", "abort")), "abort", sse(said("Good."))),
        ("claude", claude_said(""), "end_turn", claude_said("Good.")),
    ],
)
async def test_an_empty_answer_is_requested_again_once_and_then_has_a_status(
    loopback, connect, provider, empty, word, good
):
    agent = Agent(connect(provider))
    loopback.answers = [Answer(empty), Answer(good)]
    result = await agent.chat("hi")
    assert (result.status, result.content, len(loopback.requests)) == ("ok", "Good.", 2)
    assert loopback.requests[0].body == loopback.requests[1].body
    loopback.answers = [Answer(empty)]
    result = await agent.chat("and now?")
    assert (result.status, len(loopback.requests)) == ("empty", 4)
    assert str(result) == result.status_reason == f"The model answered nothing ({word})."
    assert agent.trace.runs["status"].tolist() == ["ok", "empty"]
    retries = agent.trace.events.query("type == 'retry'")["content"]
    assert retries.tolist() == [f"{result.status_reason} Asking once more."] * 2


async def test_an_empty_answer_after_a_tool_result_is_requested_again_once(loopback, connect):
    calls = sse(called("{}", "now"), said("", "tool_calls"))
    loopback.answers = [Answer(calls), Answer(sse(said(" \n"))), Answer(sse(said("Noon.")))]

    def now() -> str:
        """The time."""
        return "12:00"

    agent = Agent(connect(), tools=[now])
    result = await agent.chat("hi")
    assert (result.status, result.content, result.iterations) == ("ok", "Noon.", 3)
    assert [message.role for message in agent.conversation_history] == ["user", "assistant", "tool", "assistant"]
    calls, (retry,) = agent.trace.calls, agent.trace.events.query("type == 'retry'").to_dict("records")
    assert calls[["attempt", "retries"]].values.tolist() == [[1, 0]] * 3
    assert calls["ttft_s"].notna().all()
    assert retry["call_id"] == calls["call_id"][1]
    assert json.loads(retry["data"]) == {"attempt": 1, "wait_s": 0.0, "discard_chars": 0}


@pytest.mark.parametrize(
    ("body", "error", "retryable"),
    [
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


def test_answers_broken_off_by_the_provider_are_errors():
    for word in ("error", "network_error", "insufficient_system_resource"):
        with pytest.raises(ServerError, match=word):
            CHAT.decode_body({"choices": [{"message": {"content": "Half"}, "finish_reason": word}]})


async def test_an_error_as_json_instead_of_a_stream():
    with pytest.raises(ServerError, match="Too busy"):
        await decode(CHAT, [b'\n {"error": {"message": "Too busy", "type": "server_error"}}'])


def test_an_answer_sent_as_an_object_becomes_its_json():
    """Workers AI responds to a request for JSON in this way."""
    answer = {"city": "Köln", "inhabitants": 1_084_831, "type": "city"}
    assert json.loads(CHAT.decode_body(chat_body(content=answer)).content) == answer


@pytest.mark.parametrize("kind", FORMATS)
def test_a_body_without_an_answer_is_an_error(kind):
    with pytest.raises((IncompleteStreamError, InvalidResponseError)):
        codec_of(kind).decode_body({"id": "1"})


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", IncompleteStreamError),
        (b'{"choices": [{"mess', IncompleteStreamError),
        (b'data: {"choices": [{"del\n\n', IncompleteStreamError),
        (b"[1, 2]", InvalidResponseError),
    ],
)
async def test_a_body_without_an_answer_at_all(body, error):
    with pytest.raises(error):
        await decode(CHAT, [body])
