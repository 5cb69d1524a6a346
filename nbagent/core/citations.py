"""`Citation`: the source that a provider's own tool found for a part of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict
from urllib.parse import urlsplit


class Citation(TypedDict):
    """The source of characters `start` to `end` in an answer's text. Values that the provider omits are None."""

    start: int
    end: int
    url: str | None
    title: str | None
    cited_text: str | None


def safe_url(url: Any) -> str | None:
    r"""Return the URL if it is http or https and has no control characters, spaces or backslashes, or else None.

    Browsers read a backslash as a slash, so they request `https://one.example\@other.example/` from `one.example`.

    >>> [safe_url(url) for url in ("https://example.org/a", "javascript:alert(1)", r"https://one.example\@other.example/")]
    ['https://example.org/a', None, None]
    """
    if not isinstance(url, str) or not url.isprintable() or " " in url or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:  # an unclosed bracket
        return None
    return url if parts.scheme.lower() in ("http", "https") and parts.netloc else None


def numbered(
    citations: Iterable[Mapping[str, Any]], known: Mapping[tuple[Any, Any], int] | None = None
) -> dict[tuple[Any, Any], int]:
    """Number the citations' sources, each as `(url, title)`, in citation order. `known` sources come first.

    >>> numbered([{"end": 9, "url": "https://b.org", "title": "B"}, {"end": 5, "url": "https://a.org", "title": "A"}])
    {('https://a.org', 'A'): 1, ('https://b.org', 'B'): 2}
    """
    numbers = dict(known or {})
    for each in sorted(citations, key=lambda citation: citation["end"]):
        numbers.setdefault((each.get("url"), each.get("title")), len(numbers) + 1)
    return numbers
