"""Hostile texts take time in proportion to their length: Markdown, and answers in very many pieces.

`tests/fuzz/test_time.py` tries other patterns on the decoders and cleaners of text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nbagent.core.render.markdown import markdown_to_html, stable_ends
from nbagent.providers.formats.anthropic import MessagesDecoder
from nbagent.providers.formats.codec import Decoder
from nbagent.providers.formats.openai_chat import ChatDecoder
from nbagent.providers.formats.openai_responses import ResponsesDecoder
from tests.support.doubling import grows_with_square

#: An event with a piece, by format and field.
PIECES: dict[str, tuple[type[Decoder], Callable[[str], Any]]] = {
    "chat arguments": (ChatDecoder, lambda piece: _chat(tool_calls=[{"index": 0, "function": {"arguments": piece}}])),
    "chat text": (ChatDecoder, lambda piece: _chat(content=piece)),
    "chat details": (ChatDecoder, lambda piece: _chat(reasoning_details=[{"type": "t", "index": 0, "text": piece}])),
    "messages arguments": (MessagesDecoder, lambda piece: _delta("input_json_delta", partial_json=piece)),
    "messages text": (MessagesDecoder, lambda piece: _delta("text_delta", text=piece)),
    "responses arguments": (
        ResponsesDecoder,
        lambda piece: {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece},
    ),
}


def _chat(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta}]}


def _delta(kind: str, **field: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **field}}


def test_markdown_that_takes_too_long_is_shown_as_plain_text() -> None:
    hostile = "1.\n)\n> " * 4_000
    assert markdown_to_html(hostile).startswith('<pre class="nbagent-plain">')
    assert stable_ends(hostile) == []


@pytest.mark.parametrize("name", PIECES)
def test_joining_pieces_takes_linear_time(name: str) -> None:
    decoder_class, event = PIECES[name]

    def decode(text: str) -> None:
        decoder = decoder_class("openai")
        decoder.feed({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "name": "f"}})
        text = '{"an argument":"' + text
        for start in range(0, len(text), 20):
            decoder.feed(event(text[start : start + 20]))

    assert not grows_with_square(decode, "0123456789" * 10_000)
