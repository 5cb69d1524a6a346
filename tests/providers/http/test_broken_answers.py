"""What llmock does not offer: one JSON body that breaks, errors inside a good stream, and Gemini's garbled answers.

An agent gets them from a loopback server, and answers as if they had not been, or says what failed.
"""

import asyncio
import json

import pytest
from support.faults import ANSWER, BROKEN, THANKS, WIRES, Talk
from support.loopback import Answer

from nbagent.errors import (
    ContextLengthError,
    IncompleteStreamError,
    ProviderTimeoutError,
    ServerError,
)
from nbagent.providers.http import retry

HALF = BROKEN[:30]
JSON = {"content-type": "application/json", "x-request-id": "req_7"}
SSE = {"content-type": "text/event-stream", "x-request-id": "req_7"}


def body(wire, text) -> bytes:
    """A whole answer in one JSON body."""
    if wire == "openai responses":
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        answer = {"id": "r1", "status": "completed", "output": [message], "usage": {"input_tokens": 1}}
    elif wire == "claude":
        content = [{"type": "text", "text": text}]
        answer = {"id": "m1", "type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn"}
    elif wire == "gemini":
        answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}
    else:
        answer = {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    return json.dumps(answer).encode()


def begun(wire, text) -> list[dict]:
    """The events of a stream that has said a text."""
    if wire == "openai responses":
        part = {"item_id": "m1", "output_index": 0, "content_index": 0}
        item = {"type": "message", "id": "m1", "role": "assistant", "content": []}
        return [
            {"type": "response.created", "response": {"id": "r1", "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_text.delta", "delta": text, **part},
        ]
    if wire == "claude":
        return [
            {"type": "message_start", "message": {"id": "m1", "role": "assistant", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        ]
    if wire == "gemini":
        return [{"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}]}]
    return [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}]


#: How each wire says inside a stream that something went wrong: (a kind of its own, a message) -> event.
ERRORS = {
    "openai chat": lambda kind, text: {"error": {"message": text, "type": kind, "code": kind}},
    "openai responses": lambda kind, text: {"type": "error", "code": kind, "message": text},
    "openai responses failed": lambda kind, text: {
        "type": "response.failed",
        "response": {"id": "r1", "status": "failed", "output": [], "error": {"code": kind, "message": text}},
    },
    "claude": lambda kind, text: {"type": "error", "error": {"type": kind, "message": text}},
    "gemini": lambda kind, text: {"error": {"code": 503, "message": text, "status": kind}},
}


def stream(events, **how) -> Answer:
    return Answer("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode(), headers=SSE, **how)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.001)


each_wire = pytest.mark.parametrize("wire", WIRES)


@pytest.fixture
def talk_to(connect):
    def make(wire, **options):
        name, _, _, fixed = WIRES[wire]
        return Talk(connect(name, **fixed, **options))

    return make


async def is_answered(talk, wire, loopback, failures, kind):
    """The one answer that follows the failures is what is seen and kept; and so it goes on."""
    before = len(loopback.requests)
    whole = Answer(body(wire, ANSWER), headers=JSON)  # taken from whoever asked for a stream, too
    loopback.answers = [*failures, whole]
    result = await talk.ask("Hi")
    assert (result.status, result.content, talk.shown) == ("ok", ANSWER, ANSWER)
    assert talk.retried == [kind] * len(failures)
    assert len(loopback.requests) - before == len(failures) + 1
    assert talk.agent.conversation_history[-1].text == ANSWER
    loopback.answers = [Answer(body(wire, THANKS), headers=JSON)]
    await talk.goes_on()


@each_wire
async def test_a_body_that_breaks_off(loopback, talk_to, wire):
    """The server ends it well, and then the connection is lost."""
    content = body(wire, HALF)
    broken = [Answer(content[:cut], 200, JSON, end) for cut, end in ((0, "close"), (len(content) // 2, "drop"))]
    await is_answered(talk_to(wire, streaming=False), wire, loopback, broken, "IncompleteStreamError")


@pytest.mark.parametrize("wire", ["openai chat", "claude"])
async def test_a_body_that_stops_coming(loopback, talk_to, wire):
    talk = talk_to(wire, streaming=False, timeout=1.0)
    broken = Answer(body(wire, HALF)[:50], headers=JSON, end="stall")
    await is_answered(talk, wire, loopback, [broken], "ProviderTimeoutError")


@pytest.mark.parametrize(
    ("wire", "streaming"), [*((wire, True) for wire in WIRES), ("openai chat", False), ("claude", False)]
)
async def test_answers_that_stay_broken(loopback, talk_to, wire, streaming):
    """The error names the request; whole bodies leave nothing behind."""
    talk = talk_to(wire, streaming=streaming)
    loopback.answers = [
        stream(begun(wire, HALF)) if streaming else Answer(body(wire, HALF)[:-9], headers=JSON),
    ]
    error = await talk.fails(IncompleteStreamError)
    assert error.request_id == "req_7"
    assert len(loopback.requests) == 4
    assert error.partial.content == talk.shown == (HALF if streaming else "")
    loopback.answers = [Answer(body(wire, THANKS), headers=JSON)]
    await talk.goes_on()


@pytest.mark.parametrize("form", ERRORS)
async def test_an_error_inside_the_stream(loopback, talk_to, form):
    """After half an answer, in each vendor's own words."""
    wire = form.removesuffix(" failed")
    kind = {"claude": "overloaded_error", "gemini": "UNAVAILABLE"}.get(wire, "server_error")
    broken = stream([*begun(wire, HALF), ERRORS[form](kind, "Overloaded, sorry.")])
    await is_answered(talk_to(wire), wire, loopback, [broken] * 2, "ServerError")


@pytest.mark.parametrize("form", ["openai chat", "openai responses failed"])
async def test_an_error_inside_the_stream_that_stays(loopback, talk_to, form):
    wire = form.removesuffix(" failed")
    loopback.answers = [stream([*begun(wire, HALF), ERRORS[form]("server_error", "Overloaded, sorry.")])]
    error = await talk_to(wire).fails(ServerError)
    assert (error.message, error.request_id) == ("Overloaded, sorry.", "req_7")
    assert len(loopback.requests) == 4


@pytest.mark.parametrize("form", ERRORS)
async def test_a_hopeless_error_inside_the_stream(loopback, talk_to, form):
    """It is not asked for again."""
    wire = form.removesuffix(" failed")
    loopback.answers = [stream([*begun(wire, HALF), ERRORS[form]("x", "This is over the maximum context length.")])]
    await talk_to(wire).fails(ContextLengthError)
    assert len(loopback.requests) == 1


@pytest.mark.parametrize(("word", "streaming"), [("MALFORMED_FUNCTION_CALL", True), ("MALFORMED_RESPONSE", False)])
async def test_gemini_garbled_its_own_answer(loopback, talk_to, streaming, word):
    """A call that it could not write comes as a finish reason, the call itself left out."""
    candidate = {"content": {"role": "model", "parts": [{"text": HALF}]}, "finishReason": word}
    event = {"candidates": [candidate | {"finishMessage": "print(default_api.erase("}]}
    broken = stream([event]) if streaming else Answer(json.dumps(event).encode(), headers=JSON)
    await is_answered(talk_to("gemini", streaming=streaming), "gemini", loopback, [broken], "ServerError")


@pytest.mark.parametrize("wire", ["openai chat", "claude"])
async def test_a_connection_that_does_not_come_about(talk_to, wire):
    """A server that takes the connection, and never answers its TLS greeting."""

    greeted = []

    async def say_nothing(reader, writer):
        greeted.append(asyncio.current_task())
        await reader.read()  # until the client goes
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        error = await talk_to(wire, base_url=url, timeout=0.2, max_retries=1).fails(ProviderTimeoutError)
        await asyncio.gather(*greeted)
    assert len(greeted) == 2
    assert error.message == "the connection was not made in time"
