"""News from the user's feeds: the newest, those about a topic, or those with some keywords."""

from typing import Any, Self

from pydantic import BaseModel, Field, model_validator

from nbagent.skills.builtin.rss.news import fetch_rss_news, filter_rss_news, search_rss_by_keywords


class Input(BaseModel):
    """Which articles: without query and keywords the newest."""

    query: str = Field(default="", description="A topic or question: the articles that fit best", max_length=500)
    keywords: list[str] = Field(default=[], description="Articles that contain one of these words", max_length=20)
    max_articles: int = Field(default=50, description="How many of the newest articles to look at", ge=1, le=1000)
    top_k: int = Field(default=10, description="How many articles to return", ge=1, le=100)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.query and self.keywords:
            raise ValueError("expected either query or keywords, or none of them")
        return self


class Output(BaseModel):
    """The articles, each with title, link, summary, published and source."""

    total_articles: int = Field(description="How many were looked at")
    articles: list[dict[str, Any]]


def run(request: Input) -> Output:
    """Get news from the user's RSS feeds: the newest, those about a topic (query), or those with keywords."""
    if request.keywords:
        answer = search_rss_by_keywords(request.keywords, request.max_articles)
    elif request.query:
        answer = filter_rss_news(request.query, request.max_articles, request.top_k)
    else:
        answer = fetch_rss_news(request.max_articles)
    if not answer["success"]:
        raise RuntimeError(answer["error"])
    articles = next(answer[key] for key in ("matched_articles", "filtered_articles", "articles") if key in answer)
    total = answer["summary"]["total_articles"] if "summary" in answer else answer["total_articles"]
    return Output(total_articles=total, articles=articles[: request.top_k])
