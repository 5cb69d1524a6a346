"""Fetches feeds, ten at a time, within bounds of time and size, and reads their articles.

A feed that did not change since the last time is not sent again (ETag, Last-Modified).
"""

from __future__ import annotations

import asyncio
import html
import logging
import re
import time
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, NamedTuple

import feedparser
import httpx2
import nh3

from nbagent.providers.http.address import without_password
from nbagent.skills.builtin.rss.addresses import PRIVATE, PublicOnly, RefusedAddressError
from nbagent.skills.builtin.rss.sources import Source
from nbagent.text import shortened

logger = logging.getLogger("nbagent")

AT_ONCE = 10
#: Seconds for one attempt; for all sources together, which stays below the 15 s that a tool has by default.
TIMEOUT_S, TOTAL_S = 10.0, 14.0
RETRIES, RETRY_DELAY_S = 2, 0.25
MAX_REDIRECTS = 5
#: Bytes of a feed when it is unpacked, its articles that are read, and characters of a title and a summary.
MAX_BYTES, MAX_ARTICLES, MAX_TITLE, MAX_SUMMARY = 4 * 2**20, 500, 300, 600
#: Tags, and bytes of one and of what comes before the first: feedparser takes 0.1 ms for a tag, and longer by the
#: square for the number of its attributes and for blank lines at the beginning.
MAX_TAGS, MAX_TAG = 50_000, 5_000
_HEADERS = {
    "User-Agent": "nbagent (feed reader)",
    "Accept": "application/rss+xml, application/atom+xml, application/xml;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip",
}
_TEMPORARY = (408, 429, 500, 502, 503, 504)

Article = dict[str, Any]


class FeedError(Exception):
    """Why there are no articles from a source."""


class TemporaryFeedError(FeedError):
    """Another attempt may do better."""


class Fetched(NamedTuple):
    """What came of one source: its articles, or the reason why there are none."""

    source: Source
    articles: list[Article]
    error: str = ""


class _Kept(NamedTuple):
    """The articles of the last time, and what the server calls that state."""

    headers: dict[str, str]
    articles: list[Article]


#: By source, for as long as the process lives.
_kept: dict[Source, _Kept] = {}


async def fetch(sources: Iterable[Source]) -> list[Fetched]:
    """The articles of all sources, in their order. What takes longer than `TOTAL_S` is given up."""
    free = asyncio.Semaphore(AT_ONCE)
    async with httpx2.AsyncClient(transport=PublicOnly(), headers=_HEADERS, timeout=TIMEOUT_S) as client:
        tasks = {asyncio.create_task(_fetch_one(client, source, free)): source for source in sources}
        done, late = await asyncio.wait(tasks, timeout=TOTAL_S) if tasks else (set(), set())
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    too_late = f"no answer within {TOTAL_S:g} s"
    found = [task.result() if task in done else Fetched(source, [], too_late) for task, source in tasks.items()]
    for each in found:
        if each.error:
            logger.info("feed %s: %s", each.source.name, each.error)
    return found


async def _fetch_one(client: httpx2.AsyncClient, source: Source, free: asyncio.Semaphore) -> Fetched:
    error = ""
    async with free:
        for attempt in range(RETRIES + 1):
            if attempt:
                await asyncio.sleep(RETRY_DELAY_S * 2 ** (attempt - 1))
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    return Fetched(source, await _articles(client, source))
            except (TimeoutError, httpx2.TimeoutException):
                error = f"no answer within {TIMEOUT_S:g} s"
            except (TemporaryFeedError, httpx2.TransportError) as failed:
                error = str(failed) or type(failed).__name__
            except (FeedError, RefusedAddressError, httpx2.HTTPError, httpx2.InvalidURL) as failed:
                return Fetched(source, [], str(failed) or type(failed).__name__)
    return Fetched(source, [], error)


async def _articles(client: httpx2.AsyncClient, source: Source) -> list[Article]:
    known = _kept.get(source)
    request = client.build_request(
        "GET", source.url, headers=known.headers if known else None, extensions={PRIVATE: source.private}
    )
    # not by the client, which would read the whole body of a redirection
    for _ in range(MAX_REDIRECTS + 1):
        response = await client.send(request, stream=True)
        try:
            if response.next_request is None:
                return await _read(response, source, known)
            request = response.next_request
        finally:
            await response.aclose()
    raise FeedError(f"more than {MAX_REDIRECTS} redirections")


async def _read(response: httpx2.Response, source: Source, known: _Kept | None) -> list[Article]:
    status = response.status_code
    if status == 304 and known is not None:
        return known.articles
    if status in _TEMPORARY:
        raise TemporaryFeedError(f"HTTP {status}")
    if status != 200:
        raise FeedError(f"HTTP {status}")
    body = await _body(response)
    address = without_password(str(response.url))
    content_type = response.headers.get("content-type", "")
    articles = await asyncio.to_thread(read_feed, body, source.name, address, content_type)
    names = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
    states = {asked: response.headers[given] for given, asked in names.items() if given in response.headers}
    if states:
        _kept[source] = _Kept(states, articles)
    return articles


async def _body(response: httpx2.Response) -> bytes:
    """The body, unpacked here so that a small one can't become a large one before its size is known."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("identity", "gzip", "x-gzip", ""):
        raise FeedError(f"it is compressed as {packed[:40]!r}, which was not asked for")
    unpacker = zlib.decompressobj(31) if "gzip" in packed else None
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += unpacker.decompress(chunk, MAX_BYTES + 1 - len(body)) if unpacker else chunk
            if len(body) > MAX_BYTES:
                raise FeedError(f"it is larger than {MAX_BYTES / 2**20:g} MB")
    except zlib.error:
        raise FeedError("its gzip data is broken") from None
    if unpacker and not unpacker.eof:
        raise TemporaryFeedError("its gzip data is cut off")
    return bytes(body)


# -- reading ----------------------------------------------------------------------------------------------------------


def read_feed(body: bytes, name: str, address: str, content_type: str = "") -> list[Article]:
    """The articles of an RSS or Atom feed. Broken XML is read as far as it goes.

    Raises `FeedError` for what is not a feed, for XML entities, which can grow without bound, and for too many tags.
    """
    plain = body.replace(b"\0", b"")  # as UTF-16 has them
    if b"<!entity" in plain.lower():
        raise FeedError("it declares XML entities, which feeds don't need")
    _check_tags(plain)
    headers = {"content-location": address, "content-type": content_type}
    try:  # what is HTML becomes plain text below, so feedparser need not clean it
        parsed = feedparser.parse(
            BytesIO(body), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
        )
    except Exception as error:  # noqa: BLE001  it raises whatever its parts raise on garbage
        raise FeedError(f"it can't be read: {shortened(str(error), 200)}") from None
    if not parsed.entries and not parsed.get("version"):
        raise FeedError("it is not a feed")
    return [_article(entry, name) for entry in parsed.entries[:MAX_ARTICLES]]


def _check_tags(body: bytes) -> None:
    """Refuse what would take feedparser too long. Sections of CDATA are text."""
    begin = re.search(rb"<\w", body)
    if begin and begin.start() > MAX_TAG:
        raise FeedError(f"it begins with more than {MAX_TAG:,} bytes that are not part of a tag")
    first, *others = body.split(b"<![CDATA[")
    tags = b"".join([first, *(each.partition(b"]]>")[2] for each in others)]).split(b"<")[1:]
    if len(tags) > MAX_TAGS:
        raise FeedError(f"it has more than {MAX_TAGS:,} tags")
    if any(len(tag) > MAX_TAG and tag.find(b">", 0, MAX_TAG) < 0 for tag in tags):
        raise FeedError(f"it has a tag of more than {MAX_TAG:,} bytes")


def _article(entry: Any, source: str) -> Article:
    content = entry.get("summary") or next((part.get("value") for part in entry.get("content", ())), "")
    link = entry.get("link") or ""
    return {
        "title": plain_text(entry.get("title") or "", MAX_TITLE),
        "link": link if re.match(r"https?://", link, re.IGNORECASE) else "",
        "summary": plain_text(content, MAX_SUMMARY),
        "published": _moment(entry.get("published_parsed") or entry.get("updated_parsed")),
        "source": source,
    }


def plain_text(text: str, limit: int) -> str:
    """The text of HTML, in one line.

    >>> plain_text("<p>Tom &amp; <b>Jerry</b></p><script>x</script>", 100)
    'Tom & Jerry'
    """
    spaced = re.sub(r"<(?=/?(?:p|br|div|li|h\d)\b)", " <", text[: 50 * limit])
    return shortened(" ".join(html.unescape(nh3.clean(spaced, tags=set())).split()), limit)


def _moment(parsed: time.struct_time | None) -> str | None:
    """A time of feedparser's, which is UTC, in ISO 8601."""
    try:
        return datetime(*parsed[:6], tzinfo=UTC).isoformat() if parsed else None
    except ValueError:  # such as a 60th second
        return None
