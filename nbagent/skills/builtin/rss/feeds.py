"""Reads the user's list of feeds, a text file, and fetches the feeds: ten at a time, with limits on time and size.

All addresses come from the list: no model chooses one, and no feed can redirect to another host on the user's network.
"""

from __future__ import annotations

import asyncio
import calendar
import html
import os
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import feedparser
import httpx2
import nh3
from feedparser.encodings import convert_to_utf8

from nbagent.errors import ConfigurationError
from nbagent.providers.http.address import without_password
from nbagent.text import shortened

#: The environment variable that names another file.
VARIABLE = "NBAGENT_RSS_SOURCES"
AT_ONCE = 10
#: Seconds for one attempt, and for all sources together: less than a tool's default limit of 15 s.
TIMEOUT_S, TOTAL_S = 10.0, 14.0
RETRIES, RETRY_DELAY_S = 2, 0.25
#: Bytes of a feed after decompression, and characters of a title and a summary.
MAX_BYTES, MAX_TITLE, MAX_SUMMARY = 4 * 2**20, 300, 600
#: The request extension with the host from the list. Redirects keep it.
_LISTED = "nbagent_listed"
_TEMPORARY = (408, 429, 500, 502, 503, 504)
DEFAULT = """\
# The feeds that nbagent reads. Each line has an address and then a name.
# Delete and add lines as you like. Lines that begin with # are ignored.

https://feeds.bbci.co.uk/news/world/rss.xml BBC World
https://www.theguardian.com/world/rss The Guardian
https://feeds.npr.org/1001/rss.xml NPR
https://rss.dw.com/rdf/rss-en-all Deutsche Welle
https://www.chinanews.com.cn/rss/scroll-news.xml 中国新闻网
https://hnrss.org/frontpage Hacker News
https://feeds.arstechnica.com/arstechnica/index Ars Technica
https://rss.arxiv.org/rss/cs.AI arXiv cs.AI
https://www.nature.com/nature.rss Nature
https://www.nasa.gov/feed/ NASA
https://blog.jupyter.org/feed Jupyter Blog
"""

Article = dict[str, Any]


class Source(NamedTuple):
    """A feed."""

    url: str
    name: str


class Fetched(NamedTuple):
    """A source's articles, or its error."""

    source: Source
    articles: list[Article]
    error: str = ""


class FeedError(Exception):
    """A source can't be read, and trying again would not help."""


def sources_file() -> Path:
    """Return the path of the list of feeds, and create the file on first use. Raises OSError if that fails.

    >>> sources_file()                                                      # doctest: +SKIP
    PosixPath('/home/ada/.config/nbagent/rss_sources.txt')
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    import platformdirs

    path = Path(platformdirs.user_config_dir("nbagent", appauthor=False)) / "rss_sources.txt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(DEFAULT, encoding="utf-8")
    return path


def read_sources() -> list[Source]:
    """The feeds in the list, in its order. Raises `ConfigurationError` if the list is unreadable, invalid or empty."""
    try:
        path = sources_file()
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fix = f"Correct it, or set {VARIABLE} to another file."
        raise ConfigurationError(f"The list of feeds can't be read: {error}. {fix}") from None
    sources: dict[str, Source] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        url, *name = line.split()
        if not re.match(r"https?://[^/]", url, re.IGNORECASE):
            expected = f"expected an http or https address and a name, got {without_password(line)[:80]!r}"
            raise ConfigurationError(f"{path}, line {number}: {expected}.")
        sources.setdefault(url, Source(url, " ".join(name) or without_password(url)))
    if not sources:
        raise ConfigurationError(f"{path} has no feeds. Add some to the file.")
    return list(sources.values())


async def fetch(sources: Iterable[Source]) -> list[Fetched]:
    """The articles or the error of each source, in the order of `sources`. After `TOTAL_S` seconds, the remaining
    sources are abandoned.
    """
    free, end = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop().time() + TOTAL_S
    headers = {"User-Agent": "nbagent (feed reader)"}
    options: dict[str, Any] = {"headers": headers, "timeout": TIMEOUT_S, "follow_redirects": True}
    async with httpx2.AsyncClient(event_hooks={"request": [_check_redirection]}, **options) as client:
        return await asyncio.gather(*(_fetch_one(client, source, free, end) for source in sources))


async def _fetch_one(client: httpx2.AsyncClient, source: Source, free: asyncio.Semaphore, end: float) -> Fetched:
    error = f"no answer within {TOTAL_S:g} s"
    with suppress(TimeoutError):
        async with asyncio.timeout_at(end), free:
            for attempt in range(RETRIES + 1):
                await asyncio.sleep(RETRY_DELAY_S * 2**attempt if attempt else 0)
                try:
                    async with asyncio.timeout(TIMEOUT_S):
                        return Fetched(source, await _articles(client, source))
                except (TimeoutError, httpx2.TimeoutException):
                    error = f"no answer within {TIMEOUT_S:g} s"
                except httpx2.TransportError as failed:
                    error = str(failed) or type(failed).__name__
                except (FeedError, httpx2.HTTPError, httpx2.InvalidURL) as failed:
                    return Fetched(source, [], str(failed))
    return Fetched(source, [], error)


async def _articles(client: httpx2.AsyncClient, source: Source) -> list[Article]:
    async with client.stream("GET", source.url, extensions={_LISTED: httpx2.URL(source.url).host}) as response:
        if response.status_code in _TEMPORARY:
            raise httpx2.TransportError(f"HTTP {response.status_code}")
        if response.status_code != 200:
            raise FeedError(f"HTTP {response.status_code}")
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MAX_BYTES:
                raise FeedError(f"it is larger than {MAX_BYTES / 2**20:g} MB")
    headers = {"content-location": str(response.url), "content-type": response.headers.get("content-type", "")}
    return await asyncio.to_thread(read_feed, bytes(body), source.name, headers)


async def _check_redirection(request: httpx2.Request) -> None:
    """Refuse a redirect to another host in this machine's network."""
    host = request.url.host
    if host == request.extensions[_LISTED]:
        return
    with suppress(OSError, UnicodeError):  # a name that only a proxy can resolve; if none can, the request fails
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        if not all(ip_address(str(address[0]).partition("%")[0]).is_global for *_, address in found):
            raise FeedError(f"it redirects to {host}, which is this machine or another on its network")


def read_feed(body: bytes, name: str, headers: dict[str, str]) -> list[Article]:
    """The articles of an RSS or Atom feed. Broken XML is read as far as possible. Declarations become
    processing instructions, which are ignored, so no feed can define entities that expand to far more text. Raises
    `FeedError` if the body is not a feed.
    """
    options = {"sanitize_html": False, "resolve_relative_uris": False}  # HTML becomes plain text below
    try:
        text = re.sub(rb"<!(?=[A-Za-z])", b"<?", convert_to_utf8(headers, body, {}))
        text = re.sub(rb"<!(?!--|\[CDATA\[)", b"&lt;!", text)
        headers = {**headers, "content-type": "application/xml; charset=utf-8"}
        parsed = feedparser.parse(BytesIO(text), response_headers=headers, **options)
    except Exception as error:  # noqa: BLE001  feedparser's errors share no class, and a broken feed must not end the others
        raise FeedError(f"it can't be read: {shortened(str(error), 200)}") from None
    if not parsed.entries and not parsed.get("version"):
        raise FeedError("it is not a feed")
    return [_article(entry, name) for entry in parsed.entries]


def _article(entry: Any, source: str) -> Article:
    content = entry.get("summary") or next((part.get("value") for part in entry.get("content", ())), "")
    link, published = entry.get("link") or "", None
    with suppress(ValueError, OverflowError, TypeError):  # no date, or an impossible one
        moment = entry.get("published_parsed") or entry.get("updated_parsed")
        published = datetime.fromtimestamp(calendar.timegm(moment), UTC).isoformat()
    return {
        "title": plain_text(entry.get("title") or "", MAX_TITLE),
        "link": link if re.match(r"https?://", link, re.IGNORECASE) else "",
        "summary": plain_text(content, MAX_SUMMARY),
        "published": published,
        "source": source,
    }


def plain_text(text: str, limit: int) -> str:
    """The text of HTML, on one line.

    >>> plain_text("<p>Tom &amp; <b>Jerry</b></p><script>x</script>", 100)
    'Tom & Jerry'
    """
    spaced = re.sub(r"<(?=/?(?:p|br|div|li|h\d)\b)", " <", text[: 50 * limit])
    return shortened(" ".join(html.unescape(nh3.clean(spaced, tags=set())).split()), limit)
