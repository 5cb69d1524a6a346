"""The calls, results and citations of the provider's own tools in the Messages format.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools (read in November 2026)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nbagent.core.citations import Citation
from nbagent.core.provider_calls import ProviderCall

CALLS = ("server_tool_use", "mcp_tool_use")
#: Our names of the tools, by the provider's names of their parts.
_NAMES = {
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
    "tool_search_tool_bm25": "tool_search",
    "tool_search_tool_regex": "tool_search",
    "tool_search_tool": "tool_search",
}


def call_of(block: Mapping[str, Any], arguments: Mapping[str, Any]) -> ProviderCall:
    """The call to one of the provider's own tools in a content block."""
    name = block.get("name") or ""
    return ProviderCall(_NAMES.get(name, name), dict(arguments), block.get("id") or "")


def is_result(block: Mapping[str, Any]) -> bool:
    """Whether a block is the result of a call to one of the provider's own tools."""
    return "tool_use_id" in block and str(block.get("type")).endswith("_tool_result")


def result_of(block: Mapping[str, Any]) -> ProviderCall:
    """The result in a block, with the tool's name and the call's id."""
    name, content = str(block["type"]).removesuffix("_tool_result"), block.get("content")
    failed = isinstance(content, Mapping) and str(content.get("type")).endswith("_error")
    is_error = bool(block.get("is_error")) or failed
    return ProviderCall(_NAMES.get(name, name), {}, block["tool_use_id"], _text_of(content), is_error)


def citations_of(blocks: Iterable[Mapping[str, Any]]) -> list[Citation]:
    """The citations of text blocks. Each block with sources counts as one cited span.

    >>> found = {"url": "https://a.org", "title": "A", "cited_text": "It is 5."}
    >>> citations_of([{"type": "text", "text": "Well: "}, {"type": "text", "text": "five", "citations": [found]}])
    [{'start': 6, 'end': 10, 'url': 'https://a.org', 'title': 'A', 'cited_text': 'It is 5.'}]
    """
    citations: list[Citation] = []
    start = 0
    for block in blocks:
        if block.get("type") != "text":
            continue
        end = start + len(block.get("text") or "")
        for found in block.get("citations") or ():
            title = found.get("title") or found.get("document_title")
            url = found.get("url") or found.get("source")
            citations.append(
                Citation(start=start, end=end, url=url, title=title, cited_text=found.get("cited_text") or None)
            )
        start = end
    return citations


def _text_of(content: Any) -> str:
    """The readable part of a result, without encrypted content."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(filter(None, map(_text_of, content)))
    if not isinstance(content, Mapping):
        return ""
    if "error_code" in content:
        return ": ".join(filter(None, (content["error_code"], content.get("error_message"))))
    parts = [content.get(key) for key in ("title", "url", "text", "data", "stdout", "stderr", "file_id", "tool_name")]
    parts += [_text_of(content.get(key)) for key in ("source", "content", "tool_references")]
    return "\n".join(part.rstrip("\n") for part in parts if isinstance(part, str) and part)
