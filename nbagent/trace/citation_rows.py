"""The rows of `citations`: which part of an answer comes from which source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nbagent.core.citations import Citation
from nbagent.core.messages import LLMMessage
from nbagent.trace.table import Row


def citation_rows(message: LLMMessage, citations: Iterable[Citation]) -> Iterator[Row]:
    """One row for each citation of an answer, with the cited part of its text.

    >>> found = {"start": 0, "end": 4, "url": "https://a.org", "title": "A", "cited_text": None}
    >>> [row["text"] for row in citation_rows(LLMMessage("assistant", "Five."), [found])]
    ['Five']
    """
    for index, each in enumerate(citations):
        yield {**each, "text": message.text[each["start"] : each["end"]], "index": index}
