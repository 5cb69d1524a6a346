"""Hostile texts cost time in proportion to their length, in whatever decodes, cleans or renders them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nbagent.core.render.markdown import markdown_line_to_text, markdown_to_html, stable_ends
from nbagent.providers.formats.anthropic import MessagesDecoder
from nbagent.providers.formats.codec import Decoder
from nbagent.providers.formats.openai_chat import ChatDecoder
from nbagent.providers.formats.openai_responses import ResponsesDecoder
from nbagent.providers.http.answer_mask import AnswerMask
from nbagent.providers.http.redaction import mask_secret
from nbagent.providers.prompting.narrowing import narrow
from nbagent.text import without_keys
from tests.support.doubling import grows_with_square

ESCAPES = ["\\", "%", "%25", "&#0", "&", "0", "\\u00", "\\\\-", "sk-", "sk-\\", "-&#", "\\u0073%2573"]
BLOCKS = ["1.\n)\n> ", "1.\n)\n> * ", "> 1.\n", ">", "- ", "    a\n", "a\n", "#\n", "a\n=\n", "```\n", "a|b\n-|-\n"]
MARKDOWN = [
    *BLOCKS, "[a]: b\n", "[", "![", "](", "[a](", "[[a]", "(", "<", "<a ", "<!--", "&amp;", "**a ", "*_", "~~a", "`a`*",
    "\\", "https://a.b ", "http://a.b/(((", "$", "$a\\$", "$$a\n", "\\(x\\)", "\\[\n", "\\begin{a}\n", "\x1b[",
]  # fmt: skip
#: An event with a piece, by format and field.
PIECES: dict[str, tuple[type[Decoder], Callable[[str], Any]]] = {
    "chat arguments": (ChatDecoder, lambda piece: {"tool_calls": [_chat_call(piece)]}),
    "chat text": (ChatDecoder, lambda piece: {"content": piece}),
    "chat thinking": (ChatDecoder, lambda piece: {"reasoning": piece}),
    "chat details": (ChatDecoder, lambda piece: {"reasoning_details": [{"type": "t", "index": 0, "text": piece}]}),
    "chat spaces": (ChatDecoder, lambda piece: {"content": " " * len(piece)}),
    "messages arguments": (MessagesDecoder, lambda piece: _block_delta("input_json_delta", partial_json=piece)),
    "messages citations": (MessagesDecoder, lambda piece: _block_delta("citations_delta", citation={"cited": piece})),
    "messages text": (MessagesDecoder, lambda piece: _block_delta("text_delta", text=piece)),
    "responses arguments": (
        ResponsesDecoder,
        lambda piece: {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece},
    ),
}
PLAIN = '<pre class="nbagent-plain">'


def _chat_call(piece: str, **function: str) -> dict[str, Any]:
    return {"index": 0, "function": {"arguments": piece, **function}}


def _block_delta(kind: str, **field: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **field}}


def test_secrets_are_removed_in_time() -> None:
    secret = "a\\\\\\\\b-c----"
    for look in (lambda text: mask_secret(text, secret), AnswerMask({secret: "KEY"}).text):
        assert not [slow for pattern in ESCAPES if (slow := grows_with_square(look, pattern))]


def test_what_has_the_form_of_a_key_is_masked_in_time() -> None:
    for form in ("eyJaaaaaaaa-", "eyJaaaaaaaa.", "sk-", "://a:", "Bearer ", "-----BEGIN PRIVATE KEY-----"):
        assert not grows_with_square(without_keys, form * 10)


def test_markdown_is_rendered_in_time() -> None:
    assert not [slow for pattern in MARKDOWN if (slow := grows_with_square(markdown_to_html, pattern))]
    assert not [slow for pattern in BLOCKS if (slow := grows_with_square(stable_ends, pattern))]


def test_markdown_that_is_too_much_work_is_shown_as_plain_text() -> None:
    for hostile in ("1.\n)\n> " * 4_000, "$x$" * 64_000, r"\(x\)" * 30_000, "a\n\n" * 30_000):
        assert markdown_to_html(hostile).startswith(PLAIN)
        assert stable_ends(hostile) == []
    line = "[" * 20_000
    assert markdown_line_to_text(line) == line
    usual = "A line with $x$ and `code`.\n\n- one\n- two\n  - three\n\n> a quote\n> of two lines\n\n" * 2_000
    assert not markdown_to_html(usual).startswith(PLAIN)


def test_requests_are_narrowed_in_time() -> None:
    text, words = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    tool = {"name": "find", "parameters": {"properties": {"a": text, "b": words}, "required": ["a", "b"]}}
    for pattern in ("« ", "«", "‘", "„", "'a ", "word ", "1 ", "a and "):
        assert not grows_with_square(lambda request: narrow(request, tool), pattern)


@pytest.mark.parametrize("name", PIECES)
def test_pieces_are_joined_in_time(name: str) -> None:
    decoder_class, event = PIECES[name]

    def decode(text: str) -> None:
        decoder = decoder_class("openai")
        decoder.feed({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "name": "f"}})
        text = '{"an argument":"' + text
        for start in range(0, len(text), 20):
            piece = event(text[start : start + 20])
            decoder.feed({"choices": [{"delta": piece}]} if decoder_class is ChatDecoder else piece)

    assert not grows_with_square(decode, "0123456789" * 10_000)
