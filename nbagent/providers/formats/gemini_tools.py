"""The calls, results and citations of Google's own tools in Gemini's answers.

https://ai.google.dev/gemini-api/docs/google-search, …/url-context and …/code-execution (read in November 2026)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from nbagent.core.citations import Citation
from nbagent.core.provider_calls import ProviderCall

#: Our names of the tools, by the type of a `toolCall`.
_NAMES = {"GOOGLE_SEARCH_WEB": "web_search", "URL_CONTEXT": "web_fetch", "FILE_SEARCH": "file_search"}


def call_in(part: Mapping[str, Any], number: int) -> ProviderCall | None:
    """The call in a part, or None if the part has no call. `number` is the id for a call that has none."""
    if call := part.get("toolCall"):
        kind = str(call.get("toolType") or "")
        return ProviderCall(_NAMES.get(kind, kind.lower()), dict(call.get("args") or {}), call.get("id") or str(number))
    if code := part.get("executableCode"):
        return ProviderCall("code_execution", {"code": code.get("code") or ""}, code.get("id") or str(number))
    return None


def result_in(part: Mapping[str, Any], number: int) -> ProviderCall | None:
    """The result in a part, or None if the part has no result. A result without an id belongs to the call with the id
    `number`.
    """
    if result := part.get("toolResponse"):
        kind = str(result.get("toolType") or "")
        response = {key: value for key, value in (result.get("response") or {}).items() if key != "search_suggestions"}
        text = json.dumps(response, ensure_ascii=False) if response else ""
        return ProviderCall(_NAMES.get(kind, kind.lower()), {}, result.get("id") or str(number), text)
    if result := part.get("codeExecutionResult"):
        failed = result.get("outcome") not in (None, "OUTCOME_OK")
        return ProviderCall("code_execution", {}, result.get("id") or str(number), result.get("output") or "", failed)
    return None


def calls_at_end(candidate: Mapping[str, Any]) -> Iterator[ProviderCall]:
    """The searches and page fetches that Gemini reports only at the end of an answer."""
    grounding = candidate.get("groundingMetadata") or {}
    if queries := [query for query in grounding.get("webSearchQueries") or () if query]:
        found = [_source(chunk) for chunk in grounding.get("groundingChunks") or ()]
        lines = "\n".join(" ".join(filter(None, source)) for source in found)
        yield ProviderCall("web_search", {"queries": queries}, "searched", lines)
    pages = (candidate.get("urlContextMetadata") or {}).get("urlMetadata") or ()
    for index, page in enumerate(pages):
        status = str(page.get("urlRetrievalStatus") or "")
        failed = bool(status) and not status.endswith("SUCCESS")
        yield ProviderCall("web_fetch", {"url": page.get("retrievedUrl")}, f"fetched_{index}", status, failed)


def citations_of(candidate: Mapping[str, Any], text: str) -> list[Citation]:
    """The answer's citations. Their positions, which Gemini counts in bytes, are converted to characters.

    >>> support = {"segment": {"startIndex": 4, "endIndex": 6, "text": "5!"}, "groundingChunkIndices": [0]}
    >>> chunk = {"web": {"uri": "https://a.org", "title": "A"}}
    >>> grounding = {"groundingChunks": [chunk], "groundingSupports": [support]}
    >>> citations_of({"groundingMetadata": grounding}, "é: 5!")
    [{'start': 3, 'end': 5, 'url': 'https://a.org', 'title': 'A', 'cited_text': None}]
    """
    grounding = candidate.get("groundingMetadata") or {}
    chunks = grounding.get("groundingChunks") or []
    citations: list[Citation] = []
    for support in grounding.get("groundingSupports") or ():
        place = _span(support.get("segment") or {}, text)
        for index in support.get("groundingChunkIndices") or () if place else ():
            if place and index < len(chunks):
                title, url = _source(chunks[index])
                citations.append(Citation(start=place[0], end=place[1], url=url, title=title, cited_text=None))
    return citations


def _source(chunk: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Title and address of a source."""
    found = next((value for value in chunk.values() if isinstance(value, Mapping)), {})
    return found.get("title"), found.get("uri")


def _span(segment: Mapping[str, Any], text: str) -> tuple[int, int] | None:
    """A segment's position in characters. If its bytes don't fit, the text is searched for: parts may be joined."""
    data, quoted = text.encode(), segment.get("text") or ""
    start, end = int(segment.get("startIndex") or 0), int(segment.get("endIndex") or 0)
    if quoted and data[start:end] != quoted.encode():
        at = text.find(quoted)
        return (at, at + len(quoted)) if at >= 0 else None
    before, upto = data[:start].decode(errors="ignore"), data[:end].decode(errors="ignore")
    return (len(before), len(upto)) if end else None
