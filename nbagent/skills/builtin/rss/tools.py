"""News for agents: `fetch_rss_news`, `filter_rss_news`, `search_rss_by_keywords`, and their tool definitions.

>>> from nbagent import RSS_TOOLS_DEFINITIONS
>>> for definition in RSS_TOOLS_DEFINITIONS:                                # doctest: +SKIP
...     agent.register_tool(**definition)

The feeds are those of a file that you edit; `nbagent.skills.builtin.rss.sources.sources_file()` says where it is.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from nbagent.checks import check_number, check_type, invalid
from nbagent.core.background import run_sync
from nbagent.errors import missing_extra
from nbagent.skills.builtin.rss.relevance import matching, most_relevant
from nbagent.skills.builtin.rss.sources import read_sources

if TYPE_CHECKING:
    from nbagent.skills.builtin.rss.feeds import Article, Fetched

MAX_QUERY, MAX_KEYWORDS, MAX_KEYWORD = 500, 20, 100


def fetch_rss_news(max_articles: int | None = None, sources_limit: int | None = None) -> dict[str, Any]:
    """Fetch the latest articles of the feeds in the user's list, newest first.

    Returns `{"success", "summary": {"total_sources", "successful_sources", "failed_sources", "total_articles",
    "fetch_time"}, "articles": [{"title", "link", "summary", "published", "source"}]}`. `total_articles` counts them
    before `max_articles` cuts. If no source answered, `success` is False, and `error` says why.

    >>> fetch_rss_news(max_articles=20)["summary"]                          # doctest: +SKIP
    """
    _check_count("max_articles", max_articles, optional=True)
    _check_count("sources_limit", sources_limit, optional=True)
    found = _fetched(sources_limit)
    articles = _newest_first(found)
    failed = [each for each in found if each.error]
    summary = {
        "total_sources": len(found),
        "successful_sources": len(found) - len(failed),
        "failed_sources": len(failed),
        "total_articles": len(articles),
        # local time without an offset, as people read it
        "fetch_time": datetime.now().astimezone().replace(tzinfo=None).isoformat(timespec="milliseconds"),
    }
    answer = {"success": len(failed) < len(found), "summary": summary, "articles": articles[:max_articles]}
    return answer | _error(found)


def filter_rss_news(query: str, max_articles: int = 50, top_k: int = 10) -> dict[str, Any]:
    """Choose among the newest articles the `top_k` that fit a question or topic best.

    Returns `{"success", "query", "total_articles", "filtered_count", "filtered_articles"}`; `total_articles` is how
    many were compared, and each article has a `score`.
    """
    check_type("query", query, str)
    if not query.strip() or len(query) > MAX_QUERY:
        raise invalid("query", query, f"a text of 1 to {MAX_QUERY} characters")
    _check_count("max_articles", max_articles)
    _check_count("top_k", top_k)
    found = _fetched()
    articles = _newest_first(found)[:max_articles]
    chosen = most_relevant(articles, query, top_k)
    answer = {
        "success": not _error(found),
        "query": query,
        "total_articles": len(articles),
        "filtered_count": len(chosen),
        "filtered_articles": chosen,
    }
    return answer | _error(found)


def search_rss_by_keywords(keywords: list[str], max_articles: int = 50) -> dict[str, Any]:
    """Find among the newest articles those that contain one of the keywords, in any case.

    Returns `{"success", "keywords", "total_articles", "matched_count", "matched_articles"}`; `total_articles` is how
    many were searched, and each article has its `matched_keywords`.
    """
    check_type("keywords", keywords, list, fix="Pass a list of words, such as ['AI'].")
    sizes = [len(keyword.strip()) if isinstance(keyword, str) else 0 for keyword in keywords]
    if not 1 <= len(keywords) <= MAX_KEYWORDS or min(sizes) < 1 or max(sizes) > MAX_KEYWORD:
        raise invalid("keywords", keywords, f"1 to {MAX_KEYWORDS} texts of 1 to {MAX_KEYWORD} characters")
    _check_count("max_articles", max_articles)
    found = _fetched()
    articles = _newest_first(found)[:max_articles]
    matched = matching(articles, keywords)
    answer = {
        "success": not _error(found),
        "keywords": keywords,
        "total_articles": len(articles),
        "matched_count": len(matched),
        "matched_articles": matched,
    }
    return answer | _error(found)


def check_rss_sources() -> list[dict[str, Any]]:
    """Fetch each feed once, to see which work: rows for a DataFrame, `{"source", "url", "articles", "error"}`."""
    from nbagent.providers.http.address import without_password

    return [
        {
            "source": each.source.name,
            "url": without_password(each.source.url),
            "articles": len(each.articles),
            "error": each.error,
        }
        for each in _fetched()
    ]


def _check_count(name: str, value: int | None, *, optional: bool = False) -> None:
    check_number(name, value, whole=True, minimum=1, optional=optional)


def _fetched(limit: int | None = None) -> list[Fetched]:
    try:
        from nbagent.skills.builtin.rss.feeds import fetch
    except ImportError:
        raise missing_extra("A feed", "rss") from None
    return run_sync(fetch(read_sources()[:limit]))


def _newest_first(found: list[Fetched]) -> list[Article]:
    """All articles, each once; those without a time are last."""
    every = {article["link"] or article["title"]: article for each in found for article in each.articles}
    return sorted(every.values(), key=lambda article: article["published"] or "", reverse=True)


def _error(found: list[Fetched]) -> dict[str, str]:
    """The reasons if no source answered."""
    if any(not each.error for each in found):
        return {}
    reasons = "; ".join(f"{each.source.name}: {each.error}" for each in found[:5])
    return {"error": f"none of {len(found)} sources answered. {reasons}"}


def _parameters(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


_MAX_ARTICLES = {"type": "integer", "description": "How many of the newest articles to look at", "default": 50}

#: The three functions, as `agent.register_tool` takes them.
RSS_TOOLS_DEFINITIONS: list[dict[str, Any]] = [
    {
        "name": "fetch_rss_news",
        "description": "Fetch the latest news from the user's RSS feeds, newest first.",
        "parameters": _parameters(
            [],
            max_articles={"type": "integer", "description": "How many articles to return; all without it"},
            sources_limit={"type": "integer", "description": "Read only so many of the feeds"},
        ),
        "function": fetch_rss_news,
    },
    {
        "name": "filter_rss_news",
        "description": "Find the news that fit a question or topic best.",
        "parameters": _parameters(
            ["query"],
            query={"type": "string", "description": "The topic or question"},
            max_articles=_MAX_ARTICLES,
            top_k={"type": "integer", "description": "How many articles to return", "default": 10},
        ),
        "function": filter_rss_news,
    },
    {
        "name": "search_rss_by_keywords",
        "description": "Find the news that contain at least one of some keywords.",
        "parameters": _parameters(
            ["keywords"],
            keywords={"type": "array", "items": {"type": "string"}, "description": "The keywords"},
            max_articles=_MAX_ARTICLES,
        ),
        "function": search_rss_by_keywords,
    },
]
