"""A request as its tokens, and the pieces of it that can be arguments of a tool: numbers, quotations, names, phrases.

The rules are for English. Chinese, Japanese and Korean have no spaces: there, pairs of characters are compared.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

#: Words that say nothing about what is asked for.
STOP_WORDS = frozenset(
    str.split(
        "a about after against all am among an and any are around as associated at be before being between both by "
        "called can could did do does during each every for from get give given had happening has have how i "
        "identified if in into is it its labelled last less let like located many me more much my named near nearest "
        "need next of on one only or our out over per please s should since so some tell than that the their them "
        "then there these they this those through titled to under until up upcoming us used using want was we were "
        "what when where which while who why will with within would you your"
    )
)
#: Words that link a piece to what follows: what stands behind one says nothing about the piece before it.
LINKS = frozenset(str.split("about and at by for from in of on or to with"))
#: The stems of words that fit almost any tool.
COMMON = frozenset(
    str.split(
        "calculat check comput creat data detail determin differ fetch find function generat get giv information know "
        "list look mak number perform provid retriev return search set show specif tell us valu"
    )
)
#: Everyday words for the same thing, each mapped to the first of its group.
_SYNONYMS = {
    word: group.split()[0]
    for group in (
        "mean average typical",
        "sum total add altogether",
        "find search look",
        "plot draw chart graph",
        "maximum max largest highest biggest most",
        "minimum min smallest lowest least",
        "deviation deviate",
        "stock share",
        "mail email",
        "sell sale sold",
    )
    for word in group.split()
}
#: Units of time by their stems: so many of the smallest one of their kind, seconds or months.
UNITS = {
    "second": ("second", 1),
    "minut": ("second", 60),
    "hour": ("second", 3_600),
    "day": ("second", 86_400),
    "week": ("second", 604_800),
    "month": ("month", 1),
    "year": ("month", 12),
    "decad": ("month", 120),
}
#: The most words in a part of a phrase.
MAX_PART = 8
_ENDINGS = ("ingly", "ations", "ation", "ings", "ing", "edly", "ies", "ied", "ely", "ed", "es", "ly", "s", "e")
_NUMBER_WORDS = {
    **{
        word: n
        for n, word in enumerate(str.split("zero one two three four five six seven eight nine ten eleven twelve"))
    },
    "once": 1,
    "twice": 2,
    "dozen": 12,
    "twenty": 20,
    "hundred": 100,
}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_MONTHS = str.split("jan feb mar apr may jun jul aug sep oct nov dec")

_TOKEN = re.compile(
    r"-?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?![\w/-])|(?:[A-Za-z]\.){2,}"
    r"|(?:Dr|Ft|Mrs?|Ms|Mt|St)\.(?=\s[A-Z])|\w+(?:['’./-]\w+)*|[^\w\s]"
)
# All of these take time in proportion to the text: each begins only where a word does, or ends where it could begin.

#: Longer digits are not a number that a tool could take.
_NUMBER = re.compile(r"(?<![\w.])-?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,40})(?:\.\d{1,40})?(?![\d.]*\d)(?!-\d|/\w|:\d)")
#: No quotation holds its own opening mark: from each of many that are never closed, all of the rest would be searched.
_QUOTED = re.compile(
    r"\"([^\"]+)\"|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)|[“„]([^”“„]+)[”“]|‘([^‘’]+)’|`([^`]+)`"
    r"|«\s?([^«»]*[^«»\s])\s?»"
)
_DATE = re.compile(
    r"\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}[-/]\d{1,2}[-/]\d{4}\b"
    r"|\b(?P<month>[A-Z][a-z]{2})[a-z]*\.?\s?(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s?(?P<year>\d{4})\b"
    r"|\b(?P<first_day>\d{1,2})(?:st|nd|rd|th)?(?: of)? (?P<then_month>[A-Z][a-z]{2})[a-z]*[, ]+(?P<then_year>\d{4})\b"
)
#: Addresses, files and formulas.
_CODE = re.compile(
    r"https?://\S+|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.]+|~?(?:/[\w.-]+){2,}"
    r"|(?<![\w/-])(?:[\w-]+/)*[\w-]+\.(?:com|org|net|io|gov|edu|csv|json|txt|xlsx|pdf|py|png|jpg)\b"
    r"|(?:\b[a-z](?:\([a-z]\))?\s?=\s?)?-?\b\d*[a-z](?:(?:\^|\*\*)\d+|(?=\s?[-+]\s?\d))"
    r"(?:\s?[-+*/]\s?\d*[a-z]?(?:(?:\^|\*\*)\d+)?)*"
)
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")


@lru_cache(10_000)
def stem(word: str) -> str:
    """A word without a common ending, for comparison only. Everyday synonyms become the same word.

    >>> stem("calculates") == stem("calculated"), stem("cities") == stem("city"), stem("average")
    (True, True, 'mean')
    """
    word = word.lower()
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    word = word.rstrip("ye") if len(word) > 3 else word
    return _SYNONYMS.get(word, word)


def words(text: str) -> list[str]:
    """The stems of a text's words in order, without stop words; `snake_case` and `camelCase` are split."""
    pairs = ["".join(pair) for run in _CJK.findall(text) for pair in itertools.pairwise(run)]
    found = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", _CJK.sub(" ", text)))
    return pairs + [stem(word) for word in found if word.lower() not in STOP_WORDS]


def has_no_spaces(text: str) -> bool:
    """Whether a text is in a script that does not separate its words."""
    return _CJK.search(text) is not None


def is_readable(text: str) -> bool:
    """Whether at least half of the letters are Latin: of others the embedded model makes nothing.

    >>> is_readable("How many rows has 订单?"), is_readable("北京的天气怎么样？")
    (True, False)
    """
    letters = [char for char in text if char.isalpha()]
    return sum(char < "\u0250" for char in letters) * 2 >= len(letters)


def without_quotations(request: str) -> str:
    """The request without what it quotes, which is a value and does not say what to do."""
    return _QUOTED.sub(" , ", _unwrapped(request))


@dataclass(frozen=True, slots=True)
class Piece:
    """A value that the request holds, from its token `start` to before `end`.

    `kind`: "number", "share" (5 %), "quoted", "date", "code", "name", "phrase", "part" of a phrase, or "clause".
    """

    value: Any
    start: int
    end: int
    kind: str

    def overlaps(self, places: Collection[int]) -> bool:
        """Whether one of these tokens belongs to it."""
        return any(place in places for place in range(self.start, self.end))


class Reading:
    """A request, read."""

    def __init__(self, request: str) -> None:
        self.text = re.sub(
            r"[\[(][^\[\]()]*[\])]", lambda list_: re.sub(r",(?=\S)", ", ", list_[0]), _unwrapped(request)
        )
        self._tokens = list(_TOKEN.finditer(self.text))
        self._starts, self._ends = [t.start() for t in self._tokens], [t.end() for t in self._tokens]
        self.stems = [stem(token[0]) for token in self._tokens]
        self.lower = [token[0].lower() for token in self._tokens]
        self.quoted = [self._piece(m, next(filter(None, m.groups())), "quoted") for m in _QUOTED.finditer(self.text)]
        self.dates = [piece for match in _DATE.finditer(self.text) if (piece := self._date(match))]
        self.codes = [self._piece(match, match[0].rstrip("."), "code") for match in _CODE.finditer(self.text)]
        #: The tokens of quotations, dates and codes, which are not words.
        self.taken = {i for piece in (*self.quoted, *self.dates, *self.codes) for i in range(piece.start, piece.end)}
        self.numbers = self._numbers()

    def __len__(self) -> int:
        return len(self._tokens)

    def word(self, i: int) -> str:
        """A token, or "" outside of the request."""
        return self._tokens[i][0] if 0 <= i < len(self._tokens) else ""

    def between(self, piece: Piece, later: Piece) -> list[str]:
        """The tokens between two pieces."""
        return self.lower[piece.end : later.start]

    def span(self, start: int, end: int, kind: str) -> Piece:
        """The text of these tokens."""
        text = self.text[self._tokens[start].start() : self._tokens[end - 1].end()]
        return Piece(text.removesuffix("'s").removesuffix("’s"), start, end, kind)

    def nearness(self, piece: Piece, vocabulary: Mapping[str, float]) -> float:
        """How much the words around a piece speak of a parameter: the nearer, the more, and those before it most."""
        total = 0.0
        for step in range(1, 7):
            word = self.word(piece.start - step)
            if not word or word in ".;?!" or (step > 1 and word == ",") or word[-1].isdigit():
                break
            total += _weight(vocabulary, self.stems[piece.start - step]) / (1 + step)
        for step in range(1, 4):
            word = self.word(piece.end + step - 1)
            if not word or word in ".;?!,()" or word.lower() in LINKS:
                break
            total += _weight(vocabulary, self.stems[piece.end + step - 1]) / (2 + step)
        return total

    @cached_property
    def number_words(self) -> list[Piece]:
        """Numbers that are written as words, and the one of "the next week"."""
        said = [(i, self.word(i).lower()) for i in range(len(self)) if i not in self.taken]
        found = [Piece(_NUMBER_WORDS[word], i, i + 1, "number") for i, word in said if word in _NUMBER_WORDS]
        spans = [i for i, word in said if word in ("next", "past", "last") and self.unit(i + 1)]
        return [*found, *(Piece(1, i, i + 1, "number") for i in spans)]

    def unit(self, i: int) -> str:
        """The stem of this token if it is a unit of time, else ""."""
        own = self.stems[i] if i < len(self) else ""
        return own if own in UNITS else ""

    @cached_property
    def names(self) -> list[Piece]:
        """Words with a capital letter, and those with digits or underscores in them, as far as they stand together."""
        found, i = [], 0
        while i < len(self):
            end = i
            while self._is_name(end) or (end > i and self.word(end) in ("of", "the", "de") and self._is_name(end + 1)):
                end += 1
            if end > i:
                found.append(self.span(i, end, "name"))
            i = end + 1
        return found

    @cached_property
    def places(self) -> list[Piece]:
        """Names that a comma joins to the next one ("Boston, MA"), unless they are items of a longer list."""
        pairs = [(a, b) for a, b in itertools.pairwise(self.names) if self.between(a, b) == [","]]
        starts = {name.start for name in self.names}
        is_last = [
            self.word(b.end) != "and" and not (self.word(b.end) == "," and b.end + 1 in starts) for _, b in pairs
        ]
        return [self.span(a.start, b.end, "name") for (a, b), last in zip(pairs, is_last, strict=True) if last]

    def phrases(self, own: Collection[str]) -> list[Piece]:
        """Words in a row, without stop words, and without the stems `own` at their ends; and their beginnings and ends.

        A name before a phrase can be a part of it ("Mississippi river").
        """
        named = {i for piece in self.names for i in range(piece.start, piece.end)}
        found: list[Piece] = []
        for keep, group in itertools.groupby(range(len(self)), lambda i: i not in named and self._is_word(i)):
            run = list(group) if keep else []
            while run and self.stems[run[0]] in own:
                run.pop(0)
            while run and self.stems[run[-1]] in own:
                run.pop()
            if not run:
                continue
            start, end = run[0], run[-1] + 1
            found.append(self.span(start, end, "phrase"))
            behind = [name.start for name in self.names if name.end == start]
            last, first = min(end, start + MAX_PART), max(start, end - MAX_PART)
            cuts = [(name, i) for name in behind for i in range(start + 1, last + 1)]
            cuts += [(start, i) for i in range(start + 1, last)] + [(i, end) for i in range(first + 1, end)]
            found += [self.span(*cut, "part") for cut in cuts]
        return found

    def clauses(self, own: Collection[str], taken: Collection[int]) -> list[Piece]:
        """All from behind the stems `own` to the end of the clause, or to a taken token: what a free text can be."""
        found, start = [], 0
        for stop in [*(i for i in range(len(self)) if self.word(i) in ",.;:?!" or i in taken), len(self)]:
            end = stop
            said = [i for i in range(start, end) if self._is_word(i, begins=True) and self.stems[i] not in own]
            first = said[0] if said else end
            while first > start and self.word(first - 1).lower() not in LINKS and self.stems[first - 1] not in own:
                first -= 1
            while end > first and self.word(end - 1).lower() in LINKS:
                end -= 1
            if end - first > 1:
                found.append(self.span(first, end, "clause"))
            start = stop + 1
        return found

    def joined(self, pieces: Sequence[Piece], links: Collection[str]) -> list[list[Piece]]:
        """The pieces, in the order of the request, in groups that nothing but these links separates."""
        groups: list[list[Piece]] = []
        for piece in sorted(pieces, key=lambda each: each.start):
            if groups and piece.start < groups[-1][-1].end:
                continue
            between = self.between(groups[-1][-1], piece) if groups else []
            if groups and all(word in links for word in between):
                groups[-1].append(piece)
            else:
                groups.append([piece])
        return groups

    def _piece(self, match: re.Match[str], value: Any, kind: str) -> Piece:
        """The tokens that a match touches, as a piece."""
        return Piece(value, bisect_right(self._ends, match.start()), bisect_left(self._starts, match.end()), kind)

    def _date(self, match: re.Match[str]) -> Piece | None:
        """A date as it is written; with the name of its month, as ISO 8601."""
        month, day, year = (
            match[a] or match[b] for a, b in (("month", "then_month"), ("day", "first_day"), ("year", "then_year"))
        )
        if month is None:
            return self._piece(match, match[0], "date")
        if month.lower() not in _MONTHS:
            return None
        return self._piece(match, f"{year}-{_MONTHS.index(month.lower()) + 1:02}-{int(day):02}", "date")

    def _numbers(self) -> list[Piece]:
        found = []
        for match in _NUMBER.finditer(self.text):
            digits = match[0].replace(",", "").replace("$", "")
            value: int | float = float(digits) if "." in digits else int(digits)
            rest = self.text[match.end() : match.end() + 20]
            if scale := re.match(r"\s*(thousand|million|billion)\b", rest):
                value = round(value * _SCALES[scale[1]])
            is_share = re.match(r"\s?(?:%|percent\b)", rest) is not None
            piece = self._piece(match, value, "share" if is_share else "number")
            if piece.start not in self.taken:
                found.append(piece)
        return found

    def _is_name(self, i: int) -> bool:
        word = self.word(i)
        if i in self.taken or not word[:1].isalnum():
            return False
        if "_" in word or (
            re.search(r"\d", word) and re.search(r"[^\W\d]", word) and not re.fullmatch(r"\d+[a-z]{1,3}", word)
        ):
            return True
        if not word[0].isupper() or _bare(word) in STOP_WORDS:
            return False
        return not self._begins(i) or (i > 0 and self.word(i + 1)[:1].isupper())

    def _is_word(self, i: int, begins: bool = False) -> bool:
        """Whether it says something. The first word of a sentence does not: it asks ("Find", "Which")."""
        word = self.word(i)
        if i in self.taken or not word[0].isalnum() or _bare(word) in STOP_WORDS:
            return False
        return begins or len(self) <= 3 or not (word[0].isupper() and self._begins(i))

    def _begins(self, i: int) -> bool:
        """Whether a sentence begins with this token."""
        before = self.word(i - 1)
        return i == 0 or before in (".", "?", "!", ":") or before.count(".") > 1


def _unwrapped(request: str) -> str:
    """A request without quotation marks around all of it."""
    whole = re.fullmatch(r"\s*(['\"])((?:(?!\1).|(?<=\w)'(?=\w))*)\1\s*", request, re.DOTALL)
    return whole[2] if whole else request


def _bare(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("’s")


def _weight(vocabulary: Mapping[str, float], own: str) -> float:
    """What a stem weighs in a vocabulary; also as the beginning of a longer one ("user" for "username")."""
    if own in vocabulary or len(own) < 4:
        return vocabulary.get(own, 0)
    return max((weight for key, weight in vocabulary.items() if key.startswith(own)), default=0)
