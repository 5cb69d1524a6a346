"""What vendors and gateways do that no documentation mentions: bodies in place of streams, and odd errors."""

import json

import pytest
from support.decoding import decode
from support.streams import codec_of

from nbagent.core.messages import FunctionCall
from nbagent.errors import AuthenticationError, IncompleteStreamError, ProviderError, ServerError
from nbagent.providers.http.errors import status_error

CHAT, GEMINI = codec_of("chat"), codec_of("gemini")


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
