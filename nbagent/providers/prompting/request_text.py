"""Reading a request without a model: its words, numbers, enumerations, quotations and spans. English, by rules."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

#: A string argument may have up to this many words, or run to the end of the request.
LONGEST_SPAN = 4

STOP_WORDS = frozenset(
    str.split(
        "a about all an and any are as at be by can could did do does for from get give had has have how i if in into "
        "is it its list me my need of on one or our please show some tell text than that the their them then there "
        "these they this those to us value want was we were what when where which who why will with would you your"
    )
)
#: Everyday words for the same thing, each mapped to one of them.
_SAME = {
    word: group[0]
    for group in (
        str.split("mean average typical"),
        str.split("sum total add altogether"),
        str.split("count many"),
        str.split("find search look"),
        str.split("plot draw chart graph"),
        str.split("maximum max largest highest biggest most"),
        str.split("minimum min smallest lowest least"),
        str.split("deviation deviate"),
        str.split("stock share"),
        str.split("mail email"),
        str.split("sell sale sold"),
    )
    for word in group
}
_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?!\w|[.-]\d)")
_QUOTED = re.compile(r"\"([^\"]+)\"|(?<!\w)'([^']+?)'(?!\w)|[“„]([^”“]+)[”“]|‘([^’]+)’|`([^`]+)`|«\s*([^»]+?)\s*»")


def stem(word: str) -> str:
    """A word without its plural or its -ed, -ing ending, and everyday synonyms as one."""
    word = word.lower()
    if word in _SAME:
        return _SAME[word]
    for ending, rest in (
        ("ies", "y"),
        ("sses", "ss"),
        ("xes", "x"),
        ("ches", "ch"),
        ("ing", ""),
        ("ed", ""),
        ("es", "e"),
        ("s", ""),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: len(word) - len(ending)] + rest
            break
    word = word.rstrip("e") if len(word) > 4 else word
    return _SAME.get(word, word)


#: Words that tie the parts of a request together: no argument begins or ends with one.
LINKS = frozenset(str.split("and at by for from in into of on or per to with"))
#: Parameters with such a word in their name take what is quoted, before others do.
FREE_TEXT = frozenset(
    map(
        stem,
        str.split(
            "body comment content description label message note pattern phrase prompt query question sentence subject "
            "text title word"
        ),
    )
)
#: "a timer called tea": such a word gives a name to something.
NAMING = frozenset(map(stem, str.split("called named titled labelled labeled")))


def words(text: str) -> list[str]:
    """The stemmed words of a text, in order; `snake_case` and `camelCase` fall apart, function words are left out."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text)
    found = re.findall(r"[^\W\d_]+", text)
    return [stem(word) for word in found if word.lower() not in STOP_WORDS]


def near(values: Sequence[Any], request: str) -> list[Any]:
    """The values of an enum that the request names; else those that share most words with it, all where they tie."""
    exact = [v for v in values if re.search(rf"(?<!\w){re.escape(str(v))}(?!\w)", request, re.IGNORECASE)]
    if exact:
        return exact
    asked = set(words(request))
    shared = [len(asked & set(words(str(value)))) for value in values]
    most = max(shared, default=0)
    return [value for value, count in zip(values, shared, strict=True) if most and count == most]


def numbers(text: str) -> list[int | float]:
    """The numbers of a text as written; `1,000` is one."""
    return [json.loads(number) for number in _NUMBER.findall(re.sub(r"(?<=\d),(?=\d{3}(?:\D|$))", "", text))]


def enumerations(text: str) -> list[list[int | float]]:
    """The lists of numbers in a text: numbers with nothing between them but commas, spaces, brackets, "and"."""
    runs: list[list[int | float]] = []
    end = -1
    for match in _NUMBER.finditer(text):
        between = text[end : match.start()] if end >= 0 else "x"
        if re.fullmatch(r"(?:[\s,;&\[\]()]|\band\b|\bor\b)*", between):
            runs[-1].append(json.loads(match[0]))
        else:
            runs.append([json.loads(match[0])])
        end = match.end()
    return runs


def quoted(request: str) -> list[str]:
    """The quotations of the request."""
    return [next(filter(None, groups)) for groups in _QUOTED.findall(request)]


def unquoted(request: str) -> str:
    """The request without its quotations: what is quoted is a value, not a description of the task."""
    return _QUOTED.sub(" , ", request)


def spans(text: str) -> list[str]:
    """What a string argument can be: a few words in a row, or all from some word to the end of its clause."""
    found: list[str] = []
    for clause in re.split(r"[,?!;:()\[\]\"]+|\.(?:\s|$)", text):
        tokens = [token.strip("'") for token in clause.split()]
        count = len(tokens)
        ends = [(i, j) for i in range(count) for j in range(i + 1, count + 1) if j - i <= LONGEST_SPAN or j == count]
        found += [" ".join(tokens[i:j]) for i, j in ends if not LINKS & {tokens[i].lower(), tokens[j - 1].lower()}]
    return list(dict.fromkeys(filter(None, found)))
