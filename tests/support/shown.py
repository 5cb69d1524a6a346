"""Random texts that some parser or terminal may take for more than texts, and what of them may be shown."""

from __future__ import annotations

import re
import unicodedata

import html5lib
from hypothesis import strategies as st

from support.fuzzing import ODD_VALUES
from support.hostile import MATH, PAYLOADS

#: What some parser or terminal reads as more than a character.
PARTS = [
    *str.split("* ** _ ` ~~~ ~~ # | |- [ ] ]( ![ < > <!-- & &#x202e; &lt; &#0 \\ $ $$ $x$ \\( \\) \\[ \\def ' \" ''"),
    *str.split("\\begin{a} \\end{a} \\href{ % %25 %2573 &#x0 \\u00 \\u0073 \\\\- sk- 0 7 @ = : { <think> </think> ‘ ("),
    *("```\n", "> ", "- ", "1. ", "1.\n)\n> ", "a|b\n-|-\n", "\n", "\n\n", "[a]: b\n", "<a href=", "    ", "\t", "é"),
    *("\x1b[", "\x1b]", "\x9b", "\x9c", "\x07", "\r", "\x00", "\u202e", "\u200d", "\u200b", "\ud800", "//"),
    *("Bearer ", "data: ", "event: ", '{"a":', "```json\n", "```python\n", "« ", "word ", "1,000", "9" * 20),
]  # fmt: skip
PIECES = [*PARTS, *MATH, *(payload.text for payload in PAYLOADS)]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=12).map("".join)
values = st.recursive(
    texts | st.sampled_from(ODD_VALUES),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)

#: What a page may hold.
ELEMENTS = set(
    str.split(
        "html head body p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s a table thead tbody tr"
    )
    + str.split("th td span div details summary small style")
)
ATTRIBUTES = {
    "class": r"(nbagent|tex2jax_ignore|mathjax_ignore|n$)",
    "href": r"(https?://|mailto:)",
    "title": "",
    "target": "_blank$",
    "rel": "noopener noreferrer nofollow$",
    "role": "alert$",
    "start": r"\d+$",
    "open": "$",
    "data-nbagent-since": r"[\d.]+$",
}
COMMANDS = re.compile(r"\\(href|url|style|class|cssId|require|unicode|def|gdef|let|newcommand|definecolor)(?![a-zA-Z])")
#: Characters that hide, reorder or overwrite others.
HIDING = re.compile("[\u061c\u200b\u200e\u200f\u2060\ufeff\xad\u202a-\u202e\u2066-\u2069]")


def check_page(page: str, style: bool = False) -> None:
    """What a browser reads: nothing but our elements and attributes, and no TeX that does more than show a formula."""
    check_element(html5lib.parse(page, namespaceHTMLElements=False), style)


def check_element(element, style: bool, typeset: bool = True) -> None:
    """An element and all in it. `typeset`: whether a host would look for formulas here."""
    assert isinstance(element.tag, str), "a comment"
    assert element.tag in ELEMENTS, element.tag
    if element.tag == "style":
        assert style, "a style sheet"
        return
    for name, value in element.attrib.items():
        assert re.match(ATTRIBUTES[name], value, re.IGNORECASE), (name, value)
    typeset = typeset and element.tag not in ("pre", "code") and "mathjax_ignore" not in element.get("class", "")
    for text in (element.text, *(inner.tail for inner in element)):
        assert not (typeset and COMMANDS.search(text or "")), text
        check_visible(text or "")
    for inner in element:
        check_element(inner, style, typeset)


def check_visible(text: str) -> None:
    """No character hides, reorders or overwrites others."""
    text.encode()
    assert not HIDING.search(text), ascii(text)
    for char in text:
        if char not in "\n\t\r":
            assert unicodedata.category(char) not in ("Cc", "Zl", "Zp", "Cs"), hex(ord(char))
