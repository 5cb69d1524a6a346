"""An approval question shows every argument visibly and contains no raw HTML."""

import asyncio
import re

import html5lib
import pytest
from hypothesis import strategies as st
from support.fuzzing import fuzz
from support.shown import check_page, check_visible, texts, values

from nbagent.core.messages import FunctionCall
from nbagent.notebook.display.approval import ApprovalForm

pytestmark = pytest.mark.fuzz


def words_in(value):
    """The runs of ASCII letters and digits in all texts of a value, in their order."""
    if isinstance(value, str):
        yield from re.findall(r"[A-Za-z0-9]+", value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from words_in(key)
            yield from words_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words_in(inner)


def check_all_is_shown(arguments, shown: str) -> None:
    at = 0
    for word in words_in(arguments):
        at = shown.find(word, at)
        assert at >= 0, word
        at += len(word)


def text_of(page: str) -> str:
    """The text that a browser shows of HTML."""
    body = html5lib.parse(page, namespaceHTMLElements=False).find("body")
    return "".join(text for text in body.find("div").itertext())


async def check_form(call: FunctionCall) -> None:
    form = ApprovalForm(call)
    title, text_box, problem, buttons = form.box.children
    approve = next(each for each in buttons.children if each.description == "Approve")
    more = [each for each in buttons.children if each.description.endswith("more lines")]
    check_page(title.value, style=True)
    check_visible(text_box.description)
    assert approve.disabled == bool(more)
    for button in more:
        button.click()
        check_page(title.value, style=True)
    assert not approve.disabled
    named = list(call.arguments.values()) if list(call.arguments) == ["code"] else call.arguments  # code needs no name
    check_all_is_shown(named, text_of(title.value))
    text_box.value = "{" + text_box.value
    approve.click()
    check_page(problem.value, style=True)
    form.close()


#: Long enough for "Show … more lines".
long_texts = st.builds(lambda text, times: text * times, texts, st.sampled_from([1, 1, 1, 50]))


def test_a_form_shows_all_of_the_call():
    def check(given):
        name, arguments = given
        asyncio.run(check_form(FunctionCall(name, arguments)))

    known = [(r"$\definecolor{black}{rgb}{1,1,1}$", {}), ("f", {"code": "x = 1\n" + "\n" * 80 + "import os"})]
    fuzz(check, st.tuples(texts, st.dictionaries(texts, long_texts | values, max_size=2)), known, count=20)
