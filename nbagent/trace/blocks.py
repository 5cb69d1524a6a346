"""The blocks of a message as rows: text, thinking, calls, results and images, in order of arrival.

nbagent's own messages record neither the order of blocks, nor signatures, nor redacted or omitted thinking. These are
read from the provider's data, `LLMResponse.raw_response`, which has a list under `blocks` (Messages API), `items`
(Responses API) or `parts` (Gemini). Without such a list, thinking comes first, then text, then calls.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from nbagent.core.content.images import content_as_text
from nbagent.core.messages import Content, FunctionCall, LLMMessage, LLMResponse
from nbagent.trace.rows import Row, as_json

Item = Mapping[str, Any]

#: Keys of data that replaces a block's content or proves its origin.
_SIGNATURES = ("signature", "encrypted_content", "thoughtSignature", "data")
#: Keys whose values are in other columns, so `provider_data` omits them.
_IN_OTHER_COLUMNS = frozenset(
    {"text", "thinking", "input", "arguments", "summary", "content", "functionCall", "inlineData", "result", "refusal"}
)
_KINDS = {
    "text": "text", "output_text": "text", "refusal": "refusal", "thinking": "thinking", "reasoning": "thinking",
    "redacted_thinking": "redacted", "tool_use": "tool_call", "function_call": "tool_call",
    "image_generation_call": "image", "compaction": "compaction",
}  # fmt: skip
#: Gemini's parts have no type; their keys distinguish them.
_GEMINI_KINDS = {
    "functionCall": "tool_call", "inlineData": "image", "toolCall": "tool_call", "toolResponse": "tool_result",
    "executableCode": "tool_call",
    "codeExecutionResult": "tool_result", "text": "text",
}  # fmt: skip


def blocks_of(message: LLMMessage, response: LLMResponse | None = None, thought: str = "") -> list[Row]:
    """Return the rows of `blocks` for a message.

    `response` is the provider's response that contained the message, and `thought` is the streamed thinking.

    >>> [block["type"] for block in blocks_of(LLMMessage("assistant", "Hello"), thought="Greet.")]
    ['thinking', 'text']
    """
    if message.role == "tool":
        result = _block("tool_result", content_as_text(message.content), name=message.name)
        return [result, *_image_blocks(message.content)]
    metadata = (response.metadata if response else None) or {}
    blocks = list(_provider_blocks(response.raw_response, message)) if response and response.raw_response else []
    if not _is_complete(blocks, message):  # no list of blocks, or an unknown format
        blocks = [block for block in blocks if block["type"] in ("thinking", "redacted")]
        blocks += _neutral_blocks(message.content, str(metadata.get("refusal") or ""))
        blocks += [_call_block(call) for call in message.tool_calls or ()]
    thinking = metadata.get("thinking") or thought
    if thinking and not any(block["type"] == "thinking" and block["text"] for block in blocks):
        blocks.insert(0, _block("thinking", str(thinking), _signed_detail(response)))
    return blocks


def thinking_of(blocks: Sequence[Row]) -> list[Row]:
    """Return the rows of `thinking` for a message's blocks."""
    kept = [block for block in blocks if block["type"] in ("thinking", "redacted")]
    return [
        {
            "index": index,
            "text": block["text"],
            "chars": block["chars"],
            "kind": "redacted" if block["type"] == "redacted" else "visible" if block["text"] else "omitted",
        }
        for index, block in enumerate(kept)
    ]


def _provider_blocks(native: Any, message: LLMMessage) -> Iterator[Row]:
    """The blocks in the provider's order, or only the thinking if the calls don't match the message's calls."""
    lists = native if isinstance(native, dict) else {}
    items = list(_flat(lists.get("blocks") or lists.get("items") or lists.get("parts")))
    agrees = sum(map(_is_call, items)) == len(message.tool_calls or ())
    calls, images = iter(message.tool_calls or ()), iter(_image_blocks(message.content))
    for item in items:
        kind = _kind(item)
        if not agrees and (_is_call(item) or kind not in ("thinking", "redacted")):
            continue
        if _is_call(item) and (call := next(calls, None)):
            yield _call_block(call, item)
        elif kind == "image":
            yield from filter(None, [next(images, None)])
        elif kind in ("tool_call", "tool_result"):  # a tool that the provider runs
            outputs = item.get("outputs") or () if item.get("type") == "code_interpreter_call" else ()
            printed = [output for output in outputs if output.get("type") != "image"]
            data = {**item, "outputs": printed} if outputs else item  # images get separate blocks
            block = _block(kind, as_json(data), data, name=item.get("name"))
            yield block | {"tool_call_id": item.get("tool_use_id") or item.get("id")}
            yield from islice(images, len(outputs) - len(printed))
        else:
            yield _block(kind, _text(item), item)


def _flat(items: Any) -> Iterator[Item]:
    """The items, with each message of the Responses API replaced by its parts."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("type") == "message":
            yield from _flat(item.get("content"))
        elif isinstance(item, dict):
            yield item


def _is_call(item: Item) -> bool:
    """Whether an item calls one of our tools, not one that the provider runs."""
    return item.get("type") in ("tool_use", "function_call") or "functionCall" in item


def _is_complete(blocks: Sequence[Row], message: LLMMessage) -> bool:
    """Whether the blocks contain the text and the calls of the message."""
    if not blocks:
        return False
    text = "".join(block["text"] for block in blocks if block["type"] in ("text", "refusal"))
    calls = any(block["type"] == "tool_call" for block in blocks)
    return text == message.text and calls >= bool(message.tool_calls)


def _kind(item: Item) -> str:
    kind = item.get("type")
    if kind is None and item.get("thought"):
        return "thinking"
    if kind is None:
        return next((_GEMINI_KINDS[key] for key in _GEMINI_KINDS if key in item), "text")
    return _KINDS.get(kind) or ("tool_result" if "result" in kind else "tool_call")


def _text(item: Item) -> str:
    """The text of a block of text or thinking."""
    if item.get("type") == "reasoning":
        parts = item.get("summary") or item.get("content") or ()
        return "\n\n".join(part.get("text") or "" for part in parts)
    if item.get("type") == "compaction":
        return str(item.get("content") or "")
    return str(item.get("text") or item.get("thinking") or item.get("refusal") or "")


def _neutral_blocks(content: Content, refusal: str) -> list[Row]:
    """Text and images in order. A refusal at the end of a text becomes a separate block."""
    blocks = []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part.get("type") in ("image", "document"):
            blocks.append(_file_block(part))
        elif text := part.get("text"):
            rest = text.removesuffix(refusal)
            blocks += [_block("text", rest)] if rest else []
            blocks += [_block("refusal", refusal)] if rest != text else []
    return blocks


def _image_blocks(content: Content) -> list[Row]:
    return [] if isinstance(content, str) else [_file_block(part) for part in content if part.get("type") == "image"]


def _file_block(part: Item) -> Row:
    """An image or document: its name, media type, and the hash of its bytes or its address."""
    data = part.get("data")
    try:
        digest = hashlib.sha256(base64.b64decode(data)).hexdigest() if isinstance(data, str) else None
    except ValueError:  # not Base64
        digest = None
    about = {"url": part["url"]} if "url" in part else None
    block = _block(part["type"], None, about, name=part.get("name"))
    return block | {"media_type": part.get("media_type"), "sha256": digest}


def _call_block(call: FunctionCall, item: Item | None = None) -> Row:
    text = as_json(call.arguments) if call.raw is None else call.raw
    return _block("tool_call", text, item, name=call.name)


def _signed_detail(response: LLMResponse | None) -> Item | None:
    """The first signed item of OpenRouter's reasoning_details."""
    native = response.raw_response if response else None
    details = native.get("reasoning_details") or () if isinstance(native, dict) else ()
    return next((item for item in details if any(item.get(key) for key in _SIGNATURES)), None)


def _block(kind: str, text: str | None, item: Item | None = None, name: str | None = None) -> Row:
    """A row of `blocks`; `item` is the provider's data for it."""
    block = {"type": kind, "name": name, "text": text, "chars": None if text is None else len(text), "signature": False}
    if item:
        data = {key: value for key, value in item.items() if key not in _IN_OTHER_COLUMNS}
        block["signature"] = any(data.get(key) for key in _SIGNATURES)
        block["provider_data"] = as_json(data) if data.keys() - {"type"} else None
    return block
