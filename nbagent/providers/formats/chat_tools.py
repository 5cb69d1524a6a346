"""The results and citations of the providers' own tools in chat completions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nbagent.core.citations import Citation
from nbagent.core.provider_calls import ProviderCall
from nbagent.providers.formats.responses_tools import cited


def citations_of(
    annotations: Iterable[Mapping[str, Any]], found: Sequence[Mapping[str, Any]], text: str
) -> list[Citation]:
    """The text's citations: annotations, and marks such as `[ref_1]` for the pages that Zhipu's search found.

    >>> citations_of([], [{"title": "A", "link": "https://a.org", "refer": "ref_1"}], "It is 5.[ref_1]")
    [{'start': 8, 'end': 15, 'url': 'https://a.org', 'title': 'A', 'cited_text': None}]
    """
    notes = [note["url_citation"] for note in annotations if "url_citation" in note]
    citations = [cited(note, 0, len(text)) for note in notes]
    for page in found:
        mark = page.get("refer")
        places = re.finditer(rf"\[{re.escape(mark)}\]", text) if mark else ()
        for place in places:
            url, title = page.get("link") or None, page.get("title") or None
            citations.append(Citation(start=place.start(), end=place.end(), url=url, title=title, cited_text=None))
    return citations


def search_of(found: Iterable[Mapping[str, Any]]) -> ProviderCall:
    """The web search that found these pages. The provider does not report its query."""
    lines = [" ".join(filter(None, (page.get("title"), page.get("link")))) for page in found]
    return ProviderCall("web_search", {}, "searched", "\n".join(lines))
