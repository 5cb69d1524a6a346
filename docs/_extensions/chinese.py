"""Chinese pages: their language, and a search that works without spaces between words."""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

_HAN = "\u4e00-\u9fff"


class Search(SearchEnglish):
    """English words, and each pair of adjacent Chinese characters."""

    lang = "en-zh"
    js_splitter_code = r"""
var splitQuery = (query) =>
  (query.match(/[\u4e00-\u9fff]+|(?:(?![\u4e00-\u9fff])[\p{Letter}\p{Number}_])+/gu) || []).flatMap((run) =>
    /^[\u4e00-\u9fff]{2}/.test(run) ? Array.from({length: run.length - 1}, (_, i) => run.slice(i, i + 2)) : [run]);
"""

    def split(self, input: str) -> list[str]:  # noqa: A002 (Sphinx's name)
        """Return the words of a text."""
        runs = re.findall(rf"[{_HAN}]+|[^\W{_HAN}]+", input)
        return [word for run in runs for word in _words(run)]


def _words(run: str) -> list[str]:
    is_chinese = re.match(f"[{_HAN}]", run) and len(run) > 1
    return [run[at : at + 2] for at in range(len(run) - 1)] if is_chinese else [run]


def _say_language(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Set the language, by which browsers choose fonts and screen readers choose voices."""
    if page.startswith("zh/"):
        context["language"] = "zh-CN"


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry point."""
    app.add_search_language(Search)
    app.connect("html-page-context", _say_language)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
