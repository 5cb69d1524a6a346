"""Shows an answer's citations: numbered marks in the text, and the list of sources below the text.

Titles and addresses come from the web, so they are escaped, and only http and https addresses become links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from nbagent.core.citations import safe_url
from nbagent.core.render import markdown as render
from nbagent.text import shortened

#: Characters of a title and of a quotation.
TITLE_CHARS, CITED_CHARS = 120, 240

#: `(url, title)` -> number.
Numbers = dict[tuple[Any, Any], int]


def mark_positions(text: str, citations: Iterable[Mapping[str, Any]], numbers: Numbers) -> dict[int, list[str]]:
    """Return the marks by their position in the text. A mark follows the cited text, but is never inside a code block.

    >>> cited = {"start": 0, "end": 5, "url": "https://a.org", "title": "A"}
    >>> mark_positions("Five. ", [cited], {("https://a.org", "A"): 1})
    {5: ['[[1]](<https://a.org>)']}
    """
    found: dict[int, set[tuple[int, str]]] = {}
    for each in citations:
        place = len(text[: each["end"]].rstrip())
        if text.count("```", 0, place) % 2 == 0:
            number = numbers[each.get("url"), each.get("title")]
            found.setdefault(place, set()).add((number, _mark(number, each.get("url"))))
    return {place: [mark for _, mark in sorted(found[place])] for place in sorted(found)}


def plain_mark(mark: str) -> str:
    """Convert a mark to plain text.

    >>> plain_mark("[[1]](<https://a.org>)"), plain_mark("[2]")
    ('[1]', '[2]')
    """
    linked, found, _ = mark.partition("](<")
    return linked[1:] if found else mark


def with_marks(text: str, marks: Mapping[int, Sequence[str]]) -> str:
    """Insert the marks into the text.

    >>> with_marks("Five. ", {4: ["[1]"]})
    'Five[1]. '
    """
    pieces, at = [], 0
    for place, here in marks.items():
        pieces += [text[at:place], *here]
        at = place
    return "".join([*pieces, text[at:]])


def sources_html(citations: Iterable[Mapping[str, Any]], numbers: Numbers) -> str:
    """Return the numbered list of sources as safe HTML. Each source has its host and a quotation."""
    lines = []
    for number, url, title, cited in _listed(citations, numbers):
        address = safe_url(url)
        name = render.escape(title)
        if address:
            name = f'<a href="{render.escape(address)}" target="_blank" rel="noopener noreferrer nofollow">{name}</a>'
        detail = " · ".join(filter(None, (urlsplit(address or "").hostname, f"“{cited}”" if cited else "")))
        lines.append(f'[{number}] {name} <span class="nbagent-quiet">{render.escape(detail)}</span>')
    return f'<div class="nbagent-sources {render.NO_TEX}">{"<br>".join(lines)}</div>' if lines else ""


def sources_text(citations: Iterable[Mapping[str, Any]], numbers: Numbers) -> str:
    """Return the list of sources as plain text, with one line for each source."""
    lines = [
        f"[{number}] {title}{f' {url}' if safe_url(url) and url != title else ''}"
        for number, url, title, _ in _listed(citations, numbers)
    ]
    return render.printable("\n".join(lines))


def _listed(citations: Iterable[Mapping[str, Any]], numbers: Numbers) -> list[tuple[int, Any, str, str]]:
    """Number, address, title and first quotation of each source, by number."""
    found: dict[int, tuple[int, Any, str, str]] = {}
    for each in citations:
        url, title = each.get("url"), each.get("title")
        name = " ".join(str(title or safe_url(url) or "untitled source").split())
        cited = " ".join(str(each.get("cited_text") or "").split())
        row = (numbers[url, title], url, shortened(name, TITLE_CHARS), shortened(cited, CITED_CHARS))
        found.setdefault(row[0], row)
    return [found[number] for number in sorted(found)]


def _mark(number: int, url: Any) -> str:
    """A mark as a Markdown link, whose address can't end it."""
    address = safe_url(url)
    return f"[[{number}]](<{quote(address, safe='%/:?#@!&()*+,;=~-._')}>)" if address else f"[{number}]"
