"""Streams that are cut and garbled at random: an answer, or an error of nbagent's own.

An answer also has to go back to every provider, into a file and into the trace, whatever a garbled stream put into it.
"""

import asyncio
import json
import re
from functools import cache

import httpx2
import pytest
from hypothesis import strategies as st
from support.decoding import Pieces, as_message
from support.fuzzing import fuzz, mutations
from support.streams import FORMATS, STREAMS, codec_of

from nbagent.core.history.repair import repair
from nbagent.core.json_text import json_text
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import ProviderError
from nbagent.providers import create_provider
from nbagent.providers.options.resolved import ResolvedOptions
from nbagent.providers.replay.file import response_to_json

pytestmark = pytest.mark.fuzz

#: The provider that reads a format.
PROVIDERS = {"chat": "open_source", "messages": "claude", "responses": "openai", "gemini": "gemini"}


@cache
def bodies(kind: str) -> list[bytes]:
    """The streams of a format."""
    return [path.read_bytes() for name, path in STREAMS.items() if name.startswith(f"{kind}_")]


class Given:
    """A transport that has its answer already."""

    def __init__(self, pieces):
        self.pieces = pieces

    async def open(self, target, body, timing):
        response = Pieces(self.pieces)
        response.aclose, response.request = (lambda: _nothing()), httpx2.Request("POST", "https://api.example")
        return response


async def _nothing():
    pass


def read(kind: str, pieces) -> LLMResponse | ProviderError:
    """The result of reading a body with a provider of this kind."""
    provider_name = PROVIDERS[kind]
    options = {"api": "responses"} if provider_name == "openai" else {}
    provider = create_provider(provider_name, api_key="k", model="gpt-5", max_retries=0, client=None, **options)
    provider._transport = Given(pieces)
    try:
        return asyncio.run(provider.chat([LLMMessage("user", "Hello.")]))
    except ProviderError as exc:
        return exc


def is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@st.composite
def garbled(draw, body):
    """The body in which some values are replaced or removed."""
    lines = body.splitlines(keepends=True)
    data = [n for n, line in enumerate(lines) if is_json(line.removeprefix(b"data:"))]
    for number in draw(st.lists(st.sampled_from(data), min_size=1, max_size=3, unique=True)) if data else ():
        head, value = re.fullmatch(rb"(data:)?(.*)", lines[number], re.DOTALL).groups()
        lines[number] = (head or b"") + json.dumps(draw(mutations(json.loads(value)))).encode() + b"\n"
    return b"".join(lines)


@st.composite
def spliced(draw, body):
    """The body with some bytes replaced."""
    start = draw(st.integers(0, len(body)))
    end = draw(st.integers(start, min(len(body), start + 200)))
    odd = st.sampled_from(
        [b"\x00", b"\xff\xfe", b'"', b"\\ud800", b"[" * 5_000, b"9" * 5_000, b"\r", b"\n\n", b"data:"]
    )
    return body[:start] + draw(st.binary(max_size=50) | odd) + body[end:]


@st.composite
def hostile(draw, kind):
    """A body of the format, changed, in pieces."""
    body = draw(st.sampled_from(bodies(kind)))
    for change in draw(st.lists(st.sampled_from([garbled, garbled, spliced]), min_size=1, max_size=3)):
        body = draw(change(body)) or b"{}"
    places = sorted(draw(st.lists(st.integers(0, len(body)), max_size=12)))
    return [body[start:end] for start, end in zip([0, *places], [*places, len(body)], strict=True)]


@pytest.mark.parametrize("kind", PROVIDERS)
def test_an_answer_or_an_error_of_our_own(kind):
    def check(pieces):
        outcome = read(kind, pieces)
        if isinstance(outcome, ProviderError):
            str(outcome).encode()
            return
        assert isinstance(outcome.content, str)
        assert isinstance(outcome.finish_reason, str | None)
        assert outcome.usage.total_tokens >= 0
        assert all(isinstance(call.name, str) for call in outcome.function_calls or [])
        assert all(isinstance(call.arguments, dict) for call in outcome.function_calls or [])
        json_text(response_to_json(outcome)).encode()
        history = repair([LLMMessage("user", "Hello."), as_message(outcome), LLMMessage("user", "And?")])
        for codec in map(codec_of, FORMATS):
            json.loads(codec.encode_request(history, ResolvedOptions(), "m1"))

    read(kind, bodies(kind)[:1])  # what is loaded first must not be loaded while hypothesis looks
    fuzz(check, hostile(kind))
