"""News from the user's feeds: the newest, those about a topic, or those with some keywords."""

from typing import Annotated, Any

from pydantic import Field

from nbagent.skills.builtin.rss.news import fetch_rss_news, filter_rss_news, search_rss_by_keywords


def run(
    query: Annotated[str, Field(description="A topic or question: the articles that fit best")] = "",
    keywords: Annotated[list[str], Field(description="Articles that contain one of these words")] = [],  # noqa: B006  never changed; None would give the model another schema
    max_articles: Annotated[int, Field(description="How many of the newest articles to look at", ge=1)] = 50,
    top_k: Annotated[int, Field(description="How many articles to return", ge=1)] = 10,
) -> dict[str, Any]:
    """Get news from the user's RSS feeds: the newest, those about a topic (query), or those with keywords."""
    if query and keywords:
        raise ValueError("expected either query or keywords, or none of them")
    if keywords:
        answer = search_rss_by_keywords(keywords, max_articles)
    else:
        answer = filter_rss_news(query, max_articles, top_k) if query else fetch_rss_news(max_articles)
    if not answer["success"]:
        raise RuntimeError(answer["error"])
    articles = next(answer[key] for key in ("matched_articles", "filtered_articles", "articles") if key in answer)
    total = answer["summary"]["total_articles"] if "summary" in answer else answer["total_articles"]
    return {"total_articles": total, "articles": articles[:top_k]}
