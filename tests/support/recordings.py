"""Recorded traffic of many vendors: the recordings, and what is expected of them.

The recordings are not part of this repository: NBAGENT_WIRE names their folder, which holds the records, what the
vendors' official SDKs make of them, and a server that replays them.
"""

import hashlib
import importlib.util
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from nbagent.core.messages import LLMResponse
from nbagent.errors import IncompleteStreamError, ProviderError
from nbagent.providers import create_provider
from nbagent.providers.catalog import CATALOG
from nbagent.providers.formats.anthropic import MessagesCodec
from nbagent.providers.formats.gemini import GeminiCodec
from nbagent.providers.formats.openai_chat import ChatCodec
from nbagent.providers.formats.openai_responses import ResponsesCodec

FOLDER = Path(os.environ.get("NBAGENT_WIRE") or Path(__file__).parents[3] / "shared" / "wire")
PRESENT = (FOLDER / "dev.jsonl").exists()
needed = pytest.mark.skipif(not PRESENT, reason=f"no recorded traffic in {FOLDER}: set NBAGENT_WIRE to its folder")

CODECS = {
    "openai.chat": ChatCodec(CATALOG["open_source"]),
    "openai.responses": ResponsesCodec(CATALOG["openai"]),
    "anthropic.messages": MessagesCodec(CATALOG["claude"]),
    "gemini.generateContent": GeminiCodec(CATALOG["gemini"]),
    "ollama.chat": ChatCodec(CATALOG["ollama"]),
}
#: Fewer records than these mean that the folder is not what it should be.
LEAST = dict(zip(CODECS, (200, 80, 200, 150, 5), strict=True))
#: The recording's words for why an answer ended, and ours.
CLASSES = {"tool": "tool_calls", "filter": "content_filter", "error": None}
#: Our names for the recordings' vendors; all others are treated as any server of their format.
_ROWS = {"alibaba": "qwen", "deepseek": "deepseek", "ollama": "ollama", "openrouter": "openrouter", "zai": "zhipu"}
#: Thinking in tags, of which the first may have been lost.
_THINK = re.compile(r"\s*<think>\n?(.*?)(?:</think>\s*|$)|((?:(?!<think>).)*?)</think>\n\s*", re.DOTALL)


@cache
def load(name):
    with open(FOLDER / name, encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


@cache
def expectations():
    return {item["id"]: item for item in load("dev_expected.jsonl")}


def records(api):
    found = [(record, expectations()[record["id"]]) for record in load("dev.jsonl") if record["api"] == api]
    assert len(found) > LEAST[api]
    return found


class Said(NamedTuple):
    """An answer as the vendor's official SDK reads it, counted as OpenTelemetry does; None for what was not reported.

    Input includes cache reads and writes, output includes thinking. Arguments that were cut off are a text.
    """

    input: int | None
    output: int | None
    cache_read: int
    cache_write: int
    reasoning: int
    text: str
    thinking: str
    calls: list[tuple[str, object]]


def said(record) -> Said:
    item = expectations()[record["id"]]
    usage = item["usage"] or {}
    counts = [usage.get("input_total"), usage.get("output_total")]
    counts += [usage.get(name) or 0 for name in ("cached", "cache_write", "reasoning")]
    calls = [
        (call["name"], call.get("raw_arguments") if call["arguments"] is None else call["arguments"])
        for call in item["tool_calls"]
    ]
    return Said(*counts, item["text"] or item["refusal"] or "", item["thinking"] or "", calls)


@cache
def replay_library():
    spec = importlib.util.spec_from_file_location("replay_server", FOLDER / "serve.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def replay_server():
    """A server that answers with the record whose id is its `default_id`."""
    server = replay_library().Replay(load("dev.jsonl"))
    server.httpd.RequestHandlerClass.disable_nagle_algorithm = True
    return server


def vendor_of(record) -> str:
    """The vendor under which `create_provider` reaches what was recorded."""
    api, name = record["api"], record["provider"]
    if api in ("openai.chat", "ollama.chat"):
        return _ROWS.get(name, "openai" if name in ("openai", "azure") else "open_source")
    return {"openai.responses": "openai", "anthropic.messages": "claude", "gemini.generateContent": "gemini"}[api]


def make_provider(record, url, streaming):
    """A provider for what was recorded, at the replay server."""
    vendor = vendor_of(record)
    url += {"claude": "", "gemini": "/v1beta"}.get(vendor, "/v1")
    options = {"model": "m1"}
    if vendor == "openai":
        options = {"openai.responses": {"model": "gpt-5", "api": "responses"}}.get(
            record["api"], {"api": "chat"} | options
        )
    fixed = {"api_key": "no-real-key", "streaming": streaming, "max_retries": 0}
    return create_provider(vendor, base_url=url, **fixed, **options)


def judge(record, expected, got: LLMResponse | ProviderError) -> list[str]:
    if isinstance(got, IncompleteStreamError):
        return [] if _cut_off(record, expected) else [f"raised {got!r}"]
    if isinstance(got, ProviderError):
        error = expected["error"]
        if not error:
            return [f"raised {got!r}"]
        right = got.message.startswith(error["message"][:80]) and (got.status or 200) == error["status"]
        return [] if right else [f"error: expected {error}, got {got.status} {got.message!r}"]
    if expected["error"] or _cut_off(record, expected):
        return [f"no error, but {expected['error'] or 'an incomplete stream'} expected"]
    pairs = _said(expected, got) | _counted(expected, got) | _kept(record, expected, got.raw_response)
    return [f"{name}: expected {want!r}, got {have!r}" for name, (want, have) in pairs.items() if want != have]


def _cut_off(record, expected) -> bool:
    """A stream without its terminal marker. `[DONE]` is one, even where the finish reason is missing."""
    return record["stream"] and not expected["complete"] and "[DONE]" not in record["response"]["body"]


def _said(expected, got) -> dict:
    text, thinking = expected["text"], expected["thinking"] or ""
    if tag := _THINK.match(text):  # the SDKs leave tagged thinking in the text
        text, thinking = text[tag.end() :], tag[1] if tag[2] is None else tag[2].strip()
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
            mine[0] = mine[0] and theirs[0]
        if mine[3] == "" and got.finish_reason == "length":  # cut before its arguments: marked here, {} for the SDKs
            mine[2:] = {}, None
    kind = expected["finish_class"]
    return {
        "text": (text or expected["refusal"], got.content),
        "thinking": (thinking, got.metadata.get("thinking", "")),
        "calls": (calls, ours),
        "finish": (expected["finish_reason"], got.metadata["finish_reason_raw"]),
        "class": (CLASSES.get(kind, kind), got.finish_reason),
        "refusal": (expected["refusal"], got.metadata.get("refusal", "")),
    }


def _counted(expected, got) -> dict:
    usage = got.usage
    counts = {
        "input_total": usage.input_tokens,
        "output_total": usage.output_tokens,
        "cached": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    return {name: ((expected["usage"] or {}).get(name) or 0, count) for name, count in counts.items()}


def _kept(record, expected, native) -> dict:
    """What the vendor wants back unread, and what its own tools returned."""
    blocks = native.get("blocks") or native.get("items") or native.get("parts") or []
    signed = expected["signatures_sha256_16"] or []
    if record["api"] == "openai.responses" and record["stream"]:
        # the SDK takes the last event's encrypted reasoning; what the vendor wants back came when the item was done
        done = re.findall(r'^data: ?(\{.*"response\.output_item\.done".*)', record["response"]["body"], re.MULTILINE)
        sealed = [json.loads(line)["item"].get("encrypted_content") for line in done]
        signed = [_short(text) for text in sealed if text] if len(sealed) >= len(blocks) else signed
    redacted = sum(block.get("type") == "redacted_thinking" for block in blocks)
    return {
        "signatures": (signed, [_short(text) for text in opaque(native)]),
        "redacted thinking": (expected["redacted_thinking"], redacted),
        "the vendor's own tools": (expected["server_tool_calls"], [name for block in blocks for name in _own(block)]),
    }


def opaque(native) -> list[str]:
    kinds = ("thinking", "redacted_thinking", "reasoning")
    sealed = [block for block in native.get("blocks") or native.get("items") or [] if block["type"] in kinds]
    sealed += native.get("reasoning_details") or []
    values = [item.get("signature") or item.get("data") or item.get("encrypted_content") for item in sealed]
    values += [part.get("thoughtSignature") for part in native.get("parts", [])]
    values += [content["google"]["thought_signature"] for content in native.get("extra_content", {}).values()]
    return [value for value in values if value]


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _own(block) -> list[str]:
    kind = block.get("type", "")
    if kind in ("server_tool_use", "mcp_tool_use"):
        return [block["name"]]
    if kind.endswith("_call") and kind != "function_call":
        return [kind]
    return [key for key in ("executableCode", "toolCall") if key in block]
