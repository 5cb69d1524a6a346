"""A changed cell as a diff."""

import html
import re

import pytest
from support.hostile import PAYLOADS

from nbagent.notebook.display.code_diff import code_diff


def new_code(page):
    """The code that the buttons insert: the text of all lines that are not removed."""
    block = page.partition("<pre")[2].partition(">")[2].partition("</pre>")[0]
    kept = re.sub(r"<del>.*?</del>", "", block, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]*>", "", kept))


@pytest.mark.parametrize(
    ("before", "after"),
    [("a = 1\nb = [a][1]", "a = 1\nb = [a][0]\nb"), ("x", "y"), ("", "x = 1"), ("a\n\n\nb", "a\n\nb\n\nc")],
)
def test_the_lines_that_are_not_removed_are_the_new_code(before, after):
    bundle = code_diff(before, after, "cell-1")
    assert new_code(bundle["text/html"]) == after + "\n"
    assert 'data-nbagent-cell="cell-1"' in bundle["text/html"]
    kept = [line[2:] for line in bundle["text/plain"].split("\n") if not line.startswith("-")]
    assert "\n".join(kept) == after


def test_code_is_text():
    for text in (payload.text for payload in PAYLOADS):
        page = code_diff(text, f"x = 1\n{text}", text)["text/html"].replace("<style>", "")
        assert not re.search(r"<(?!/?(?:del|details|div|ins|pre|span|style|summary)\b)", page), text
