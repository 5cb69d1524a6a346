"""Which articles fit a question or keywords: rare words count more than common ones, and those of a title three times.

Words of Chinese and Japanese are not separated by spaces: there, each pair of characters counts as a word.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

TITLE_WEIGHT = 3
_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+")
_IS_CJK = re.compile(f"[{_CJK}]")

Article = dict[str, Any]


def terms_of(text: str) -> set[str]:
    """The words of a text, in lower case.

    >>> sorted(terms_of("AI 人工智能"))
    ['ai', '人工', '工智', '智能']
    """
    terms: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        pairs = {word[at : at + 2] for at in range(len(word) - 1)} if _IS_CJK.match(word) else set()
        terms |= pairs or {word}
    return terms


def most_relevant(articles: list[Article], query: str, top_k: int) -> list[Article]:
    """The articles that share words with a query, best first, then in their order; `score` says how well they fit."""
    wanted = terms_of(query)
    found = [(terms_of(article["title"]) & wanted, terms_of(article["summary"]) & wanted) for article in articles]
    counts = Counter(term for title, summary in found for term in title | summary)
    weight = {term: math.log(1 + len(articles) / count) for term, count in counts.items()}

    def total(terms: set[str]) -> float:
        return sum(weight[term] for term in sorted(terms))  # in one order, so that equal scores are equal

    scores = [round(TITLE_WEIGHT * total(title) + total(summary), 3) for title, summary in found]
    order = sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: -scores[at])
    return [{**articles[at], "score": scores[at]} for at in order[:top_k]]


def matching(articles: Iterable[Article], keywords: list[str]) -> list[Article]:
    """The articles that hold a keyword, those with most keywords first; `matched_keywords` says which.

    A keyword is a whole word or phrase: `AI` is not in `said`. In Chinese and Japanese it may be part of a longer run.
    """
    patterns = {keyword: _pattern(keyword) for keyword in keywords}
    found = []
    for article in articles:
        text = f"{article['title']}\n{article['summary']}"
        if matched := [keyword for keyword, pattern in patterns.items() if pattern.search(text)]:
            found.append({**article, "matched_keywords": matched})
    return sorted(found, key=lambda article: -len(article["matched_keywords"]))


def _pattern(keyword: str) -> re.Pattern[str]:
    text = keyword.strip()
    before = r"(?<!\w)" if not _IS_CJK.match(text[:1]) and text[:1].isalnum() else ""
    after = r"(?!\w)" if not _IS_CJK.match(text[-1:]) and text[-1:].isalnum() else ""
    # next to Chinese text, a Latin word has ended all the same
    before, after = (each.replace(r"\w", rf"[^\W{_CJK}]") for each in (before, after))
    return re.compile(before + r"\s+".join(map(re.escape, text.split())) + after, re.IGNORECASE)
