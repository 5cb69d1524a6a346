"""The calls, results and citations of the provider's own tools in the Responses format.

https://developers.openai.com/api/docs/guides/tools (read in November 2026)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nbagent.core.citations import Citation
from nbagent.core.content.images import image_note
from nbagent.core.messages import parse_arguments
from nbagent.core.provider_calls import ProviderCall

#: Our names of the tools, by the type of the item with a call and its result.
NAMES = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_execution",
    "image_generation_call": "image_generation",
    "tool_search_call": "tool_search",
    "mcp_call": "remote_mcp",
}
_SOURCES = ("url_citation", "file_citation", "container_file_citation")


def call_of(item: Mapping[str, Any]) -> ProviderCall | None:
    """The call in an item, with its result; None if the item is not such a call."""
    kind = item.get("type")
    if kind not in NAMES or item.get("execution") == "client":
        return None
    name, arguments, result = NAMES[str(kind)], _arguments(item), _result(item)
    if kind == "mcp_call":
        name = item.get("name") or name
    if (item.get("action") or {}).get("type") in ("open_page", "find_in_page"):
        name = "web_fetch"  # not a search, which is billed
    failed = item.get("status") in ("failed", "incomplete") or bool(item.get("error"))
    return ProviderCall(name, arguments, item.get("id") or "", result, failed)


def images_of(item: Mapping[str, Any]) -> list[Any]:
    """The images that a call generated: Base64 data, `data:` URLs or other addresses.

    >>> images_of({"type": "code_interpreter_call", "outputs": [{"type": "image", "url": "data:image/png;base64,aWN"}]})
    ['data:image/png;base64,aWN']
    """
    if item.get("type") == "image_generation_call":
        return [item.get("result")]
    outputs = item.get("outputs") or () if item.get("type") == "code_interpreter_call" else ()
    return [output["url"] for output in outputs if output.get("type") == "image" and output.get("url")]


def citations_of(parts: Iterable[Mapping[str, Any]]) -> list[Citation]:
    """The citations in the answer's text parts."""
    citations: list[Citation] = []
    start = 0
    for part in parts:
        text = part.get("text") or part.get("refusal") or ""
        notes = [note for note in part.get("annotations") or () if note.get("type") in _SOURCES]
        citations += [cited(note, start, len(text)) for note in notes]
        start += len(text)
    return citations


def cited(note: Mapping[str, Any], start: int, length: int) -> Citation:
    """The citation in an annotation. `start` and `length` locate the annotated text in the answer."""
    at = note.get("index") or 0
    first, last = (min(note.get(key) or at, length) for key in ("start_index", "end_index"))
    title = note.get("title") or note.get("filename")
    return Citation(
        start=start + min(first, last),
        end=start + last,
        url=note.get("url"),
        title=title or None,
        cited_text=note.get("content") or None,
    )


def _arguments(item: Mapping[str, Any]) -> dict[str, Any]:
    if action := item.get("action"):
        arguments = {key: value for key, value in action.items() if key not in ("type", "sources") and value}
        if arguments.get("queries") == [arguments.get("query")]:  # only the main one
            del arguments["queries"]
        return arguments
    if "arguments" in item:
        return parse_arguments(item["arguments"])[0]
    arguments = {key: item[key] for key in ("code", "queries") if item.get(key)}
    return arguments | ({"prompt": item["revised_prompt"]} if item.get("revised_prompt") else {})


def _result(item: Mapping[str, Any]) -> str:
    """The readable part of a result."""
    sources = (item.get("action") or {}).get("sources") or ()
    lines = [source.get("url") or source.get("name") or "" for source in sources]
    lines += [found.get("filename") or "" for found in item.get("results") or ()]
    lines += [
        (output.get("logs") or "").rstrip("\n") or _address(output.get("url")) for output in item.get("outputs") or ()
    ]
    lines += [str(item[key]) for key in ("output", "error") if item.get(key)]
    return "\n".join(filter(None, lines))


def _address(url: Any) -> str:
    """An image's address, or a note that replaces its data."""
    data = url.partition(",")[2] if url and url.startswith("data:") else ""
    return image_note({"type": "image", "data": data}) if data else url or ""
