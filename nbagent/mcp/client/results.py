"""Converts a server's results for the model: text, images and structured data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nbagent.core.content.images import Image
from nbagent.core.json_text import json_text
from nbagent.errors import ToolError

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, CallToolResult, ContentBlock, TextResourceContents


def value_of(result: CallToolResult, tool: str) -> Any:
    """The value that a call returned: a string, structured data, or content parts if there are images.

    Structured data is omitted if the text repeats it (the protocol recommends that servers repeat it). If the call
    failed, raises ToolError with the server's text.
    """
    parts = [part_of(block) for block in result.content]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if result.is_error:
        raise ToolError("\n".join(texts) or "The server reported an error without a message.", tool=tool)
    structured = result.structured_content
    if structured is not None and not _repeats(texts, structured):
        if not parts:
            return structured
        parts.append({"type": "text", "text": json_text(structured)})
    if len(texts) < len(result.content):
        return parts
    return "\n".join(part["text"] for part in parts) or None


def part_of(block: ContentBlock) -> dict[str, Any]:
    """Convert a content block to a content part. Audio and other files, which a model can't read, are replaced by a
    description.
    """
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "image":
        image = Image.from_part({"data": block.data})
        return image.to_part() if image else _note("image", block.mime_type, _size(block.data))
    if block.type == "audio":
        return _note("audio", block.mime_type, _size(block.data))
    if block.type == "resource_link":
        return _note(f"resource {block.uri}", block.mime_type, block.description or block.title or block.name)
    part = contents_part(block.resource)
    return {"type": "text", "text": f"[resource {block.resource.uri}]\n{part['text']}"} if "text" in part else part


def contents_part(contents: TextResourceContents | BlobResourceContents) -> dict[str, Any]:
    """Convert a resource's content to a content part."""
    if (text := getattr(contents, "text", None)) is not None:
        return {"type": "text", "text": text}
    blob: str = getattr(contents, "blob", "")
    image = Image.from_part({"data": blob})
    return image.to_part() if image else _note(contents.mime_type or "data", _size(blob))


def _note(*facts: str | None) -> dict[str, Any]:
    return {"type": "text", "text": f"[{', '.join(filter(None, facts))}]"}


def _size(data: str) -> str:
    return f"{3 * len(data) // 4 - data.count('='):,} bytes"


def _repeats(texts: list[str], structured: Any) -> bool:
    """Whether the texts repeat the data. Servers wrap values in an object with one key, and split lists into texts."""
    values = [_loaded(text) for text in texts]
    if structured in values:
        return True
    if not isinstance(structured, dict) or len(structured) != 1:
        return False
    (value,) = structured.values()
    return value in values or value in texts or value in (values, texts)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
