"""Recorded answers of many vendors, decoded and compared with what their official SDKs make of them.

The recordings are not part of this repository: NBAGENT_WIRE names their folder.
"""

import hashlib
import json
import os
import re
from pathlib import Path
from random import Random

import pytest
from decoding import Pieces, decode

from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.errors import IncompleteStreamError, ProviderError
from nbagent.providers.catalog import CATALOG
from nbagent.providers.http_errors import status_error
from nbagent.providers.transport import read_events
from nbagent.providers.wire.anthropic_messages import MessagesCodec
from nbagent.providers.wire.gemini import GeminiCodec
from nbagent.providers.wire.openai_chat import ChatCodec
from nbagent.providers.wire.openai_responses import ResponsesCodec

FOLDER = Path(os.environ.get("NBAGENT_WIRE") or Path(__file__).parents[3] / "shared" / "wire")
CODECS = {
    "openai.chat": ChatCodec(CATALOG["open_source"]),
    "openai.responses": ResponsesCodec(CATALOG["openai"]),
    "anthropic.messages": MessagesCodec(CATALOG["claude"]),
    "gemini.generateContent": GeminiCodec(CATALOG["gemini"]),
}
#: Fewer records than these mean that the folder is not what it should be.
LEAST = {"openai.chat": 200, "openai.responses": 80, "anthropic.messages": 200, "gemini.generateContent": 150}
THINK = re.compile(r"\s*<think>\n?(.*?)(</think>\s*|$)", re.DOTALL)

pytestmark = pytest.mark.skipif(
    not (FOLDER / "dev.jsonl").exists(),
    reason="recordings are not on this machine: set NBAGENT_WIRE to their folder",
)


def pieces(body: bytes, size: int | str):
    """The body in pieces of one size, or of random sizes up to 64 that a seed (a text) decides."""
    random = Random(size) if isinstance(size, str) else None
    at = 0
    while at < len(body):
        end = at + (random.randint(1, 64) if random else size)
        yield body[at:end]
        at = end


async def answer(codec, record, size) -> LLMResponse:
    response = record["response"]
    body = response["body"].encode("utf-8", "surrogatepass")
    if response["status"] >= 400:
        raise status_error(response["status"], response["headers"], body)
    got, _ = await decode(codec, pieces(body, size))
    return got


def signatures(native) -> list[str]:
    """What is kept to be sent back, as the expectations write it."""
    kinds = ("thinking", "redacted_thinking", "reasoning")
    blocks = [block for block in native.get("blocks") or native.get("items") or [] if block["type"] in kinds]
    opaque = [block.get("signature") or block.get("data") or block.get("encrypted_content") for block in blocks]
    opaque += [part.get("thoughtSignature") for part in native.get("parts", [])]
    return [hashlib.sha256(text.encode()).hexdigest()[:16] for text in opaque if text]


def differences(record, expected, got: LLMResponse) -> list[str]:
    """Names and values of what is not as expected."""
    metadata, usage = got.metadata, got.usage
    tag = THINK.match(expected["text"])
    text, thinking = expected["text"], expected["thinking"] or ""
    if tag:  # the SDKs leave tagged thinking in the text
        text, thinking = text[tag.end() :], tag[1]
    calls = [
        [call["id"], call["name"], call["arguments"], call.get("raw_arguments") if call["arguments"] is None else None]
        for call in expected["tool_calls"]
    ]
    ours = [
        [call.id, call.name, None if call.raw is not None else call.arguments, call.raw]
        for call in got.function_calls or []
    ]
    for mine, theirs in zip(ours, calls, strict=False):
        if not theirs[0]:  # ids that a vendor left out are made here
            mine[0] = theirs[0]
        if mine[3] == "" and got.finish_reason == "length":  # cut before its arguments: marked here, {} for the SDKs
            mine[2:] = {}, None
    counts = expected["usage"] or {}
    pairs = {
        "text": (text or expected["refusal"], got.content),
        "calls": (calls, ours),
        "thinking": (thinking, metadata.get("thinking", "")),
        "finish": (expected["finish_reason"], metadata["finish_reason_raw"]),
        "input": (counts.get("input_total") or 0, usage.input_tokens),
        "output": (counts.get("output_total") or 0, usage.output_tokens),
        "cached": (counts.get("cached") or 0, usage.cache_read_tokens),
        "cache_write": (counts.get("cache_write") or 0, usage.cache_write_tokens),
        "reasoning": (counts.get("reasoning") or 0, usage.reasoning_tokens),
    }
    # the SDK takes the last event's encrypted reasoning; what the vendor wants back came when the item was done
    if record["api"] != "openai.chat" and not (record["api"] == "openai.responses" and record["stream"]):
        pairs["signatures"] = (expected["signatures_sha256_16"] or [], signatures(got.raw_response))
    return [f"{name}: expected {want!r}, got {have!r}" for name, (want, have) in pairs.items() if want != have]


def cut_off(record, expected) -> bool:
    """A stream without its terminal marker. `[DONE]` is one, even where the finish reason is missing."""
    return record["stream"] and not expected["complete"] and "[DONE]" not in record["response"]["body"]


async def check(record, expected, size) -> list[str]:
    try:
        got = await answer(CODECS[record["api"]], record, size)
    except IncompleteStreamError as exc:
        return [] if cut_off(record, expected) else [f"raised {exc!r}"]
    except ProviderError as exc:
        error = expected["error"]
        if not error:
            return [f"raised {exc!r}"]
        return [] if exc.message.startswith(error["message"][:80]) else [f"message: {error}, got {exc.message!r}"]
    if expected["error"] or cut_off(record, expected):
        return [f"no error, but {expected['error'] or 'an incomplete stream'} expected"]
    return differences(record, expected, got)


async def test_what_gemini_signed_or_called_goes_back_as_it_came():
    codec, signed = CODECS["gemini.generateContent"], 0
    for record in load("dev.jsonl"):
        body = record["response"]["body"].encode()
        if record["api"] != "gemini.generateContent" or record["response"]["status"] >= 400 or b"partialArgs" in body:
            continue
        received = []
        async for event in read_events(Pieces([body])):
            content = event["candidates"][0].get("content", {})
            received += [part for part in content.get("parts", []) if part.keys() - {"text", "thought"}]
        got, _ = await decode(codec, [body])
        message = LLMMessage("assistant", got.content, None, got.function_calls, None, got.raw_response)
        sent = json.loads(b"[" + codec.encode_message(message) + b"]")
        assert [part for part in sent if part.keys() - {"text"}] == received, record["id"]
        signed += sum("thoughtSignature" in part for part in received)
    assert signed > 80


def load(name):
    with open(FOLDER / name, encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("size", [1 << 20, 7, "a", "b", "c", "d", "e"])
@pytest.mark.parametrize("api", CODECS)
async def test_decodes_as_the_official_sdks_do(api, size):
    expected = {item["id"]: item for item in load("dev_expected.jsonl")}
    records = [record for record in load("dev.jsonl") if record["api"] == api]
    found = {record["id"]: await check(record, expected[record["id"]], size) for record in records}
    wrong = {name: lines for name, lines in found.items() if lines}
    assert len(records) > LEAST[api]
    print(f"{api}: {len(records) - len(wrong)} of {len(records)}")
    assert not wrong, "\n".join(f"{name}: {line}" for name, lines in wrong.items() for line in lines)
