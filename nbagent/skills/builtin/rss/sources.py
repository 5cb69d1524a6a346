"""The list of feeds: a text file in the user's folder, which the user edits. It begins as a copy of `DEFAULT`.

A line is a feed's address and its name. Only the list says where to fetch from: no model chooses an address.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from nbagent.errors import ConfigurationError

#: Names another file.
VARIABLE = "NBAGENT_RSS_SOURCES"
MAX_SOURCES = 200
DEFAULT = """\
# The feeds that nbagent reads: one a line, its address and then its name.
# Delete and add lines as you like. Lines that begin with # are left out.
# A feed in your own network needs the word `private` in front of its address; all others can't be there.

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


@dataclass(frozen=True, slots=True)
class Source:
    """A feed. Only one that is `private` may be, or lead to, an address of this machine or its network."""

    url: str
    name: str
    private: bool = False


def sources_file() -> Path:
    """The file with the list. It is made at first use. Raises `ConfigurationError` if it can't be.

    >>> sources_file()                                                      # doctest: +SKIP
    PosixPath('/home/ada/.config/nbagent/rss_sources.txt')
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    import platformdirs

    path = Path(platformdirs.user_config_dir("nbagent", appauthor=False)) / "rss_sources.txt"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(DEFAULT, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"The list of feeds can't be kept in {path}: {error}. Set {VARIABLE} to a file of yours."
        ) from error
    return path


def read_sources() -> list[Source]:
    """The feeds of the list, in its order. Raises `ConfigurationError` that names the file and the line."""
    path = sources_file()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The list of feeds can't be read: {error}. Correct {path}, or delete it to begin anew."
        ) from None
    sources: dict[str, Source] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            source = _source(line, f"{path}, line {number}")
            sources.setdefault(source.url, source)
    if not 1 <= len(sources) <= MAX_SOURCES:
        raise ConfigurationError(f"{path}: expected 1 to {MAX_SOURCES} feeds, got {len(sources)}. Edit the file.")
    return list(sources.values())


def _source(line: str, place: str) -> Source:
    from nbagent.providers.http.address import checked_address, without_password

    words = line.split()
    private = words[0] == "private"
    url, *name = words[private:] or [""]
    try:
        checked_address(url or "nothing")
    except ConfigurationError:
        raise ConfigurationError(
            f"{place}: expected an http or https address and a name, got {without_password(line)[:80]!r}."
        ) from None
    return Source(url, " ".join(name) or without_password(url), private)
