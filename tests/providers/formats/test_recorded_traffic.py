"""Recorded answers of many vendors, decoded and compared with what their official SDKs make of them.

Each is decoded whole and in pieces of random sizes, and read once more over HTTP by the provider of its vendor.
"""

import json
from random import Random

import pytest
from support import recordings
from support.decoding import Pieces, decode
from support.histories import as_message
from support.recordings import CODECS, judge, make_provider, records, vendor_of
from support.requests import streamed

from nbagent.core.events import Text, Thinking
from nbagent.core.messages import LLMMessage
from nbagent.errors import ProviderError
from nbagent.providers.http.errors import status_error
from nbagent.providers.http.response import read_events

pytestmark = recordings.needed


def pieces(body: bytes, seed: str):
    """The body in pieces of random sizes up to 64 bytes, or in one piece if the seed is empty."""
    random = Random(seed)
    at = 0
    while at < len(body):
        end = at + (random.randint(1, 64) if seed else len(body))
        yield body[at:end]
        at = end


async def answer(codec, record, seed=""):
    """What a codec makes of a record: the answer, or the error."""
    response = record["response"]
    body = response["body"].encode("utf-8", "surrogatepass")
    try:
        if response["status"] >= 400:
            raise status_error(response["status"], response["headers"], body)
        got, _ = await decode(codec, pieces(body, seed))
    except ProviderError as exc:
        return exc
    return got


@pytest.mark.parametrize("cut", ["", "cut"], ids=["whole", "cut"])
@pytest.mark.parametrize("api", CODECS)
async def test_decodes_as_the_official_sdks_do(api, cut):
    wrong = []
    for record, expected in records(api):
        got = await answer(CODECS[api], record, cut and cut + record["id"])
        found = judge(record, expected, got)
        wrong += [f"{record['id']}: {line}" for line in found]
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def replay():
    with recordings.replay_server() as server:
        yield server


def differences(record, expected, items, failure) -> list[str]:
    """As `judge`; and the pieces that were shown make up the answer."""
    if failure or expected["error"]:
        return judge(record, expected, failure or items[-1])
    *shown, got = items
    found = judge(record, expected, got)
    text = "".join(item.content for item in shown if isinstance(item, Text))
    thinking = "".join(item.content for item in shown if isinstance(item, Thinking))
    if (text, thinking) != (got.content, got.metadata.get("thinking", "")) and "</think" not in text:
        found.append(f"shown: {text!r} and {thinking!r}")
    return found


@pytest.mark.parametrize("api", CODECS)
async def test_read_over_http_by_the_provider_of_each_vendor(api, replay):
    providers, wrong = {}, []
    for record, expected in records(api):
        kind = (vendor_of(record), record["stream"])
        provider = providers.setdefault(kind, make_provider(record, replay.url, record["stream"]))
        replay.default_id, replay.chunk = record["id"], f"seed:{len(replay.log)}"
        items, failure = [], None
        try:
            items = [item async for item in streamed(provider, [LLMMessage("user", "Hello.")])]
        except ProviderError as exc:
            failure = exc
        found = differences(record, expected, items, failure)
        wrong += [f"{record['id']}: {line}" for line in found]
    for provider in providers.values():
        await provider.aclose()
    assert not wrong, "\n".join(wrong)


#: API -> where a whole answer's parts are.
PARTS = {
    "anthropic.messages": lambda body: body["content"],
    "openai.responses": lambda body: body["output"],
    "gemini.generateContent": lambda body: body["candidates"][0]["content"].get("parts", []),
}


def goes_back(part) -> bool:
    """Gemini takes back only thoughts with a signature, and no vendor takes an empty text."""
    shown = part.get("thought") and not part.get("thoughtSignature")
    return not shown and not (part.get("type") == "text" and not part["text"].strip())


def is_loose(part) -> bool:
    """Reasoning that can't go back because it is not encrypted, with all that depends on it."""
    return part.get("type") == "reasoning" and not (part.get("encrypted_content") or part.get("content"))


@pytest.mark.parametrize("api", PARTS)
async def test_a_whole_answer_goes_back_part_by_part_as_it_came(api):
    codec, compared = CODECS[api], 0
    for record, expected in records(api):
        body = record["response"]["body"]
        if record["stream"] or expected["error"] or body.startswith("["):
            continue
        received = PARTS[api](json.loads(body))
        if any(map(is_loose, received)) or (received[-1:] and received[-1].get("type") == "reasoning"):
            continue
        got = codec.decode_body(json.loads(body))
        sent = json.loads(b"[" + codec.encode_message(as_message(got)) + b"]")
        assert sent == list(filter(goes_back, received)), record["id"]
        compared += 1
    assert compared >= {"anthropic.messages": 140, "openai.responses": 35, "gemini.generateContent": 95}[api]


async def test_what_gemini_signed_or_called_in_a_stream_goes_back_as_it_came():
    codec, signed = CODECS["gemini.generateContent"], 0
    for record, expected in records("gemini.generateContent"):
        body = record["response"]["body"].encode()
        if not record["stream"] or expected["error"] or b"partialArgs" in body:
            continue
        received = []
        async for event in read_events(Pieces([body])):
            content = event["candidates"][0].get("content", {})
            received += [part for part in content.get("parts", []) if part.keys() - {"text", "thought"}]
        got, _ = await decode(codec, [body])
        sent = json.loads(b"[" + codec.encode_message(as_message(got)) + b"]")
        assert [part for part in sent if part.keys() - {"text"}] == received, record["id"]
        signed += sum("thoughtSignature" in part for part in received)
    assert signed > 20
