"""News from the user's feeds: the newest, or articles about a topic or with keywords."""

from typing import Annotated, Any

from pydantic import Field

from nbagent.skills.builtin.rss.news import fetch_rss_news, filter_rss_news, search_rss_by_keywords


def run(
    query: Annotated[str, Field(description="A topic or question, to find the articles that fit best")] = "",
    keywords: Annotated[list[str], Field(description="Words; an article contains at least one of them")] = [],  # noqa: B006  never changed; None would give the model another schema
    max_articles: Annotated[int, Field(description="How many of the newest articles to search", ge=1)] = 50,
    top_k: Annotated[int, Field(description="How many articles to return", ge=1)] = 10,
) -> dict[str, Any]:
    """Get news from the user's RSS feeds: the newest, or articles about a topic (query) or with keywords."""
    if query and keywords:
        raise ValueError("expected query or keywords, not both")
    if keywords:
        found = search_rss_by_keywords(keywords, max_articles)
    else:
        found = filter_rss_news(query, max_articles, top_k) if query else fetch_rss_news(max_articles)
    if not found["success"]:
        raise RuntimeError(found["error"])
    articles = next(found[key] for key in ("matched_articles", "filtered_articles", "articles") if key in found)
    total = found["summary"]["total_articles"] if "summary" in found else found["total_articles"]
    return {"total_articles": total, "articles": articles[:top_k]}
