"""Recorded answers of many vendors, read over HTTP in pieces and compared with what their official SDKs read."""

import json

import pytest
from support import recordings
from support.histories import as_message
from support.recordings import CODECS, judge, make_provider, records, vendor_of
from support.requests import streamed

from nbagent.core.events import Text, Thinking
from nbagent.core.messages import LLMMessage
from nbagent.errors import ProviderError

pytestmark = recordings.needed


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
