"""News for agents: `fetch_rss_news`, `filter_rss_news`, `search_rss_by_keywords`, and their tool definitions.

>>> from nbagent import RSS_TOOLS_DEFINITIONS
>>> for definition in RSS_TOOLS_DEFINITIONS:                                # doctest: +SKIP
...     agent.register_tool(**definition)

The feeds are listed in a file that you edit. `nbagent.skills.builtin.rss.feeds.sources_file()` returns its path.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from nbagent.checks import check_type
from nbagent.core.background import run_sync
from nbagent.errors import missing_extra
from nbagent.functions.schema.function_schema import schema_of

if TYPE_CHECKING:
    from nbagent.skills.builtin.rss.feeds import Article

Count = Annotated[int, Field(ge=1)]

#: How much more a word counts in a title than in a summary.
_TITLE_WEIGHT = 3
#: The letters of Chinese and Japanese, whose words are not separated by spaces.
_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+")


def fetch_rss_news(max_articles: Count | None = None, sources_limit: Count | None = None) -> dict[str, Any]:
    """Fetch the latest news from the user's RSS feeds, newest first.

    Args:
        max_articles: How many articles to return; all by default
        sources_limit: How many of the feeds to read; all by default

    Returns:
        A dict of `success`, `summary` and `articles`. The summary has `total_sources`, `successful_sources`,
        `failed_sources`, `total_articles` (before the limit `max_articles`) and `fetch_time`. An article has `title`,
        `link`, `summary`, `published` and `source`. If no source responds, `success` is False and `error` says why.

    >>> fetch_rss_news(max_articles=20)["summary"]                          # doctest: +SKIP
    """
    articles, failed, total, outcome = _newest(sources_limit)
    summary = {
        "total_sources": total,
        "successful_sources": total - failed,
        "failed_sources": failed,
        "total_articles": len(articles),
        # local time without an offset, as people read it
        "fetch_time": datetime.now().astimezone().replace(tzinfo=None).isoformat(timespec="milliseconds"),
    }
    return {"success": not outcome, "summary": summary, "articles": articles[:max_articles], **outcome}


def filter_rss_news(query: str, max_articles: Count = 50, top_k: Count = 10) -> dict[str, Any]:
    """Find the news that best fits a question or topic.

    Args:
        query: The topic or question
        max_articles: How many of the newest articles to search
        top_k: How many articles to return

    Returns:
        `{"success", "query", "total_articles", "filtered_count", "filtered_articles"}`. `total_articles` is how many
        were searched. Each article has a `score`.
    """
    found, *_, outcome = _newest()
    articles = found[:max_articles]
    chosen = _most_relevant(articles, query)[:top_k]
    counts = {"total_articles": len(articles), "filtered_count": len(chosen)}
    return {"success": not outcome, "query": query, **counts, "filtered_articles": chosen, **outcome}


def search_rss_by_keywords(keywords: list[str], max_articles: Count = 50) -> dict[str, Any]:
    """Find the news that contains at least one of the keywords, ignoring case.

    Args:
        keywords: The keywords
        max_articles: How many of the newest articles to search

    Returns:
        `{"success", "keywords", "total_articles", "matched_count", "matched_articles"}`. `total_articles` is how many
        were searched. Each article has its `matched_keywords`.
    """
    check_type("keywords", keywords, list, fix="Pass a list of words, such as ['AI'].")
    found, *_, outcome = _newest()
    articles = found[:max_articles]
    patterns = {keyword: _pattern(keyword) for keyword in keywords if keyword.strip()}
    matched = []
    for article in articles:
        text = f"{article['title']}\n{article['summary']}"
        if words := [keyword for keyword, pattern in patterns.items() if pattern.search(text)]:
            matched.append({**article, "matched_keywords": words})
    matched.sort(key=lambda article: -len(article["matched_keywords"]))
    counts = {"total_articles": len(articles), "matched_count": len(matched)}
    return {"success": not outcome, "keywords": keywords, **counts, "matched_articles": matched, **outcome}


def _newest(limit: int | None = None) -> tuple[list[Article], int, int, dict[str, str]]:
    """Distinct articles, newest first; the numbers of failed and of all sources; and an `error` if all failed."""
    try:
        from nbagent.skills.builtin.rss.feeds import fetch, read_sources
    except ImportError:
        raise missing_extra("A feed", "rss") from None
    fetched = run_sync(fetch(read_sources()[:limit]))
    distinct = {article["link"] or article["title"]: article for feed in fetched for article in feed.articles}
    articles = sorted(distinct.values(), key=lambda article: article["published"] or "", reverse=True)
    failed = [feed for feed in fetched if feed.error]
    reasons = "; ".join(f"{feed.source.name}: {feed.error}" for feed in failed[:5])
    error = {"error": f"none of {len(fetched)} sources responded. {reasons}"} if len(failed) == len(fetched) else {}
    return articles, len(failed), len(fetched), error


def _most_relevant(articles: list[Article], query: str) -> list[Article]:
    """The articles that share words with a query, best first. Rare words count more than common ones."""
    wanted = _terms(query)
    found = [(_terms(article["title"]) & wanted, _terms(article["summary"]) & wanted) for article in articles]
    counts = Counter(term for title, summary in found for term in title | summary)
    weight = {term: math.log(1 + len(articles) / count) for term, count in counts.items()}

    def total(terms: set[str]) -> float:
        return sum(weight[term] for term in terms)

    scores = [round(_TITLE_WEIGHT * total(title) + total(summary), 3) for title, summary in found]
    scored = [{**article, "score": score} for article, score in zip(articles, scores, strict=True) if score]
    return sorted(scored, key=lambda article: -article["score"])


def _terms(text: str) -> set[str]:
    """The words of a text; for Chinese and Japanese, each pair of characters."""
    terms: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        pairs = {word[at : at + 2] for at in range(len(word) - 1)} if re.match(f"[{_CJK}]", word) else set()
        terms |= pairs or {word}
    return terms


def _pattern(keyword: str) -> re.Pattern[str]:
    """A pattern for a whole word or phrase: `AI` is not in `said`. A Latin word ends where Chinese text begins."""
    words = keyword.split()
    before, after = (r"(?a:\b)" if re.match(r"[a-zA-Z0-9]", end) else "" for end in (words[0], words[-1][-1]))
    return re.compile(before + r"\s+".join(map(re.escape, words)) + after, re.IGNORECASE)


#: The three functions as keyword arguments for `agent.register_tool`.
RSS_TOOLS_DEFINITIONS: list[dict[str, Any]] = [
    {
        "name": function.__name__,
        "description": (function.__doc__ or "").partition("\n")[0],
        "parameters": schema_of(function).parameters,
        "function": function,
    }
    for function in (fetch_rss_news, filter_rss_news, search_rss_by_keywords)
]
