"""The blocks of a message: text, thinking, calls, results and images, in the order in which they came.

What a vendor wants back unread (`LLMResponse.raw_response`) is read here for what the neutral model leaves out: the
order of the blocks, signatures, thinking that is redacted or was left out. A list under `blocks` is of the Messages
API, under `items` of the Responses API, under `parts` of Gemini; an answer without any of them has its thinking first,
then its text, then its calls.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nbagent.core.content.images import content_as_text
from nbagent.core.messages import Content, FunctionCall, LLMMessage, LLMResponse
from nbagent.trace.rows import Row, as_json

Item = Mapping[str, Any]

#: Where vendors put what goes back unread in a block's stead, or proves that it is theirs.
_SIGNATURES = ("signature", "encrypted_content", "thoughtSignature", "data")
#: What `provider_data` leaves out, since other columns have it.
_SAID = frozenset(
    {"text", "thinking", "input", "arguments", "summary", "content", "functionCall", "inlineData", "result", "refusal"}
)
_KINDS = {
    "text": "text", "output_text": "text", "refusal": "refusal", "thinking": "thinking", "reasoning": "thinking",
    "redacted_thinking": "redacted", "tool_use": "tool_call", "function_call": "tool_call",
    "image_generation_call": "image",
}  # fmt: skip
#: Gemini's parts have no type: they are known by what they hold.
_PARTS = {
    "functionCall": "tool_call", "inlineData": "image", "executableCode": "tool_call",
    "codeExecutionResult": "tool_result", "text": "text",
}  # fmt: skip


def blocks_of(message: LLMMessage, response: LLMResponse | None = None, thought: str = "") -> list[Row]:
    """The rows of `blocks` for one message; `response` is what it was made of, `thought` the thinking as it streamed.

    >>> [block["type"] for block in blocks_of(LLMMessage("assistant", "Hello"), thought="Greet.")]
    ['thinking', 'text']
    """
    if message.role == "tool":
        result = _block("tool_result", content_as_text(message.content), name=message.name)
        return [result] if isinstance(message.content, str) else [result, *_pictures(message.content)]
    facts = (response.metadata if response else None) or {}
    blocks = _vendors_blocks(response.raw_response, message) if response and response.raw_response else []
    if not _is_whole(blocks, message):  # no list of blocks, or of another shape
        blocks = [block for block in blocks if block["type"] in ("thinking", "redacted")]
        blocks += _neutral_blocks(message.content, str(facts.get("refusal") or ""))
        blocks += [_call(call) for call in message.tool_calls or ()]
    thinking = facts.get("thinking") or thought
    if thinking and not any(block["type"] == "thinking" and block["text"] for block in blocks):
        blocks.insert(0, _block("thinking", str(thinking), _signed(response)))
    return blocks


def _vendors_blocks(native: Any, message: LLMMessage) -> list[Row]:
    """The blocks in the vendor's own order; thinking alone where the calls are not those of the message."""
    items = list(_items(native))
    agrees = sum(map(_is_call, items)) == len(message.tool_calls or ())
    return [block for block in _native_blocks(items, message) if agrees or block["type"] in ("thinking", "redacted")]


def _is_whole(blocks: Sequence[Row], message: LLMMessage) -> bool:
    """Whether the blocks say what the message says."""
    if not blocks:
        return False
    said = "".join(block["text"] for block in blocks if block["type"] in ("text", "refusal"))
    calls = any(block["type"] == "tool_call" for block in blocks)
    return said == message.text and calls >= bool(message.tool_calls)


def thinking_of(blocks: Sequence[Row]) -> list[Row]:
    """The rows of `thinking` for a message's blocks. `kind`: visible, omitted (by the vendor), or redacted."""
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


def _signed(response: LLMResponse | None) -> Item | None:
    """The first signed piece of OpenRouter's reasoning_details."""
    native = response.raw_response if response else None
    details = native.get("reasoning_details") or () if isinstance(native, dict) else ()
    return next((item for item in details if any(item.get(key) for key in _SIGNATURES)), None)


def _items(native: Any) -> Iterator[Item]:
    """What a vendor sent, block by block, where it is kept so."""
    return _flat(native.get("blocks") or native.get("items") or native.get("parts") if isinstance(native, dict) else ())


def _is_call(item: Item) -> bool:
    """Whether an item calls one of our tools, rather than one that the vendor runs itself."""
    return item.get("type") in ("tool_use", "function_call") or "functionCall" in item


def _native_blocks(items: Sequence[Item], message: LLMMessage) -> Iterator[Row]:
    """The blocks in the vendor's own order; the calls and images in them are those of the message."""
    calls, images = iter(message.tool_calls or ()), iter(_pictures(message.content))
    for item in items:
        kind = _kind(item)
        if _is_call(item) and (call := next(calls, None)):
            yield _call(call, item)
        elif kind == "image":
            yield from filter(None, [next(images, None)])
        elif kind in ("tool_call", "tool_result"):  # of a tool of the vendor's own
            yield _block(kind, as_json(item), item, name=item.get("name"))
        else:
            yield _block(kind, _text(item), item)


def _flat(items: Any) -> Iterator[Item]:
    """The items; in place of a message of the Responses API its parts."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("type") == "message":
            yield from _flat(item.get("content"))
        elif isinstance(item, dict):
            yield item


def _kind(item: Item) -> str:
    kind = item.get("type")
    if kind is None:
        return "thinking" if item.get("thought") else next((_PARTS[key] for key in _PARTS if key in item), "text")
    return _KINDS.get(kind) or ("tool_result" if "result" in kind else "tool_call")


def _text(item: Item) -> str:
    """What a block of text or thinking says."""
    if item.get("type") == "reasoning":
        parts = item.get("summary") or item.get("content") or ()
        return "\n\n".join(part.get("text") or "" for part in parts)
    return str(item.get("text") or item.get("thinking") or item.get("refusal") or "")


def _neutral_blocks(content: Content, refusal: str) -> list[Row]:
    """Text and images in order, what refuses apart."""
    blocks = []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part.get("type") == "image":
            blocks += _pictures([part])
        elif text := part.get("text"):
            said = text.removesuffix(refusal)
            blocks += [_block("text", said)] if said else []
            blocks += [_block("refusal", refusal)] if said != text else []
    return blocks


def _pictures(content: Content) -> list[Row]:
    images = [] if isinstance(content, str) else [part for part in content if part.get("type") == "image"]
    return [_picture(image) for image in images]


def _picture(part: Item) -> Row:
    """An image by its kind and its hash, or by its address."""
    data = part.get("data")
    try:
        digest = hashlib.sha256(base64.b64decode(data)).hexdigest() if isinstance(data, str) else None
    except binascii.Error:
        digest = None
    return _block("image", None, {"url": part["url"]} if "url" in part else {}) | {
        "media_type": part.get("media_type"),
        "sha256": digest,
    }


def _call(call: FunctionCall, item: Item | None = None) -> Row:
    text = as_json(call.arguments) if call.raw is None else call.raw
    return _block("tool_call", text, item, name=call.name)


def _block(kind: str, text: str | None, item: Item | None = None, name: str | None = None) -> Row:
    block = {"type": kind, "name": name, "text": text, "chars": None if text is None else len(text), "signature": False}
    if item:
        kept = {key: value for key, value in item.items() if key not in _SAID}
        block["signature"] = any(kept.get(key) for key in _SIGNATURES)
        block["provider_data"] = as_json(kept) if kept.keys() - {"type"} else None
    return block
