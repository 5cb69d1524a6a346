"""Splits a request into tokens, and finds the pieces that can be a tool's arguments: numbers, quotations, dates, words.

The rules are for English. In Chinese, Japanese and Korean, pairs of characters are compared instead of words.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

#: Words that say nothing about the request.
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
#: Words that link a piece to the next one. The words after such a link say nothing about the piece before it.
LINKS = frozenset(str.split("about and at by for from in of on or to with"))
#: The stems of words that fit almost any tool.
COMMON = frozenset(
    str.split(
        "calculat check comput creat data detail determin differ fetch find function generat get giv information know "
        "list look mak number perform provid retriev return search set show specif tell us valu"
    )
)
#: Everyday synonyms, each mapped to the first of its group.
_SYNONYMS = {
    word: group.split()[0]
    for group in (
        "mean average typical",
        "maximum max largest highest biggest most",
        "minimum min smallest lowest least",
    )
    for word in group.split()
}
#: Units of time by stem, with their length in the smallest unit of their kind, seconds or months.
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
#: The most tokens in a piece of words.
MAX_WORDS = 6
_ENDINGS = ("ingly", "ations", "ation", "ings", "ing", "edly", "ies", "ied", "ely", "ed", "es", "ly", "s", "e")
_NUMBER_WORDS = {
    word: n for n, word in enumerate(str.split("zero one two three four five six seven eight nine ten eleven twelve"))
}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_MONTHS = str.split("jan feb mar apr may jun jul aug sep oct nov dec")

_TOKEN = re.compile(
    r"-?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?![\w/-])|(?:[A-Za-z]\.){2,}|\w+(?:['’./-]\w+)*|[^\w\s]"
)
# All of these patterns run in linear time: each starts only where a word does, or ends where it could start.

#: A longer run of digits is not a number for a tool.
_NUMBER = re.compile(r"(?<![\w.])-?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,40})(?:\.\d{1,40})?(?![\d.]*\d)(?!-\d|/\w|:\d)")
#: No quotation contains its own opening mark; otherwise each unclosed one would search the rest of the text.
_QUOTED = re.compile(
    r"\"([^\"]+)\"|(?<!\w)'((?:[^']|(?<=\w)'(?=\w))+)'(?!\w)|[“„]([^”“„]+)[”“]|‘([^‘’]+)’|`([^`]+)`"
    r"|«\s?([^«»]*[^«»\s])\s?»"
)
_DATE = re.compile(
    r"\b\d{1,2}[-/]\d{1,2}[-/]\d{4}\b|\b(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})\b"
    r"|\b(?P<month>[A-Za-z]{3})[a-z]*\.?\s?(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s?(?P<year>\d{4})\b"
    r"|\b(?P<first_day>\d{1,2})(?:st|nd|rd|th)?(?: of)? (?P<then_month>[A-Za-z]{3})[a-z]*[, ]+(?P<then_year>\d{4})\b"
)
#: Addresses, files, times of day and formulas.
_CODE = re.compile(
    r"https?://\S+|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.]+|~?(?:/[\w.-]+){2,}"
    r"|\b\d{1,2}:\d{2}\b|(?<![\w/-])(?:[\w-]+/)*[\w-]+\.(?:com|org|net|io|gov|edu|csv|json|txt|xlsx|pdf|py|png|jpg)\b"
    r"|(?:\b[a-z](?:\([a-z]\))?\s?=\s?)?-?\b\d*[a-z](?:(?:\^|\*\*)\d+|(?=\s?[-+]\s?\d))"
    r"(?:\s?[-+*/]\s?\d*[a-z]?(?:(?:\^|\*\*)\d+)?)*"
)
#: Sums, products and the like; "-" and "/" without spaces are for ranges and dates.
_ARITHMETIC = re.compile(
    r"(?<![\w.])\(?\d{1,40}(?:\.\d{1,40})?(?:(?:\s?(?:\*\*|[+*])\s?|\s[-/]\s)\(?\d{1,40}(?:\.\d{1,40})?\)?)+(?!\w)"
)
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")


@lru_cache(10_000)
def stem(word: str) -> str:
    """A word with any common ending removed, for comparison only. Synonyms become the same word.

    >>> stem("calculates") == stem("calculated"), stem("movies") == stem("movie"), stem("average")
    (True, True, 'mean')
    """
    word = word.lower()
    if word in _SYNONYMS:
        return _SYNONYMS[word]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    word = word.rstrip("yei") if len(word) > 3 else word
    return _SYNONYMS.get(word, word)


@lru_cache(10_000)
def words(text: str) -> tuple[str, ...]:
    """The stems of a text's words in order, without stop words. `snake_case` and `camelCase` are split."""
    pairs = ["".join(pair) for run in _CJK.findall(text) for pair in itertools.pairwise(run)]
    found = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", _CJK.sub(" ", text)))
    return (*pairs, *(stem(word) for word in found if word.lower() not in STOP_WORDS))


def has_no_spaces(text: str) -> bool:
    """Whether a text contains Chinese, Japanese or Korean characters."""
    return _CJK.search(text) is not None


def is_readable(text: str) -> bool:
    """Whether at least half of the letters are Latin. The embedded model can't read other scripts.

    >>> is_readable("How many rows has 订单?"), is_readable("北京的天气怎么样？")
    (True, False)
    """
    letters = [char for char in text if char.isalpha()]
    return sum(char < "\u0250" for char in letters) * 2 >= len(letters)


def without_quotations(request: str) -> str:
    """The request without quotations, which are values, not instructions."""
    return _QUOTED.sub(" , ", _unwrapped(request))


@dataclass(frozen=True, slots=True)
class Piece:
    """A value in the request, from token `start` up to `end`.

    `kind`: "number", "share" (5%), "quoted", "date", "code" or "words".
    """

    value: Any
    start: int
    end: int
    kind: str

    def __hash__(self) -> int:
        return hash((self.start, self.end, self.kind))

    @property
    def places(self) -> range:
        """The positions of the piece's tokens."""
        return range(self.start, self.end)

    def meets(self, other: Piece) -> bool:
        """Whether this piece and another one share a token."""
        return self.start < other.end and other.start < self.end

    def overlaps(self, places: Collection[int]) -> bool:
        """Whether this piece contains one of these tokens."""
        return any(place in places for place in self.places)


class Reading:
    """A parsed request."""

    def __init__(self, request: str) -> None:
        self.text = _unwrapped(request)
        self._tokens = list(_TOKEN.finditer(self.text))
        self._starts, self._ends = [t.start() for t in self._tokens], [t.end() for t in self._tokens]
        self.stems = [stem(token[0]) for token in self._tokens]
        self.lower = [token[0].lower() for token in self._tokens]
        self.quoted = [self._piece(m, next(filter(None, m.groups())), "quoted") for m in _QUOTED.finditer(self.text)]
        self.dates = [piece for match in _DATE.finditer(self.text) if (piece := self._date(match))]
        self.codes = [self._piece(match, match[0].rstrip("."), "code") for match in _CODE.finditer(self.text)]
        #: The tokens of quotations, dates and codes, which are not words.
        self.taken = {i for piece in (*self.quoted, *self.dates, *self.codes) for i in range(piece.start, piece.end)}
        found = [match for match in _ARITHMETIC.finditer(self.text) if match[0].count("(") == match[0].count(")")]
        pieces = [self._piece(match, match[0], "code") for match in found]
        #: The arithmetic that can be a text argument. Each number in it can also be a separate argument.
        self.arithmetic = [piece for piece in pieces if not piece.overlaps(self.taken)]
        self.numbers = self._numbers()
        self.words = self._words()

    def __len__(self) -> int:
        return len(self._tokens)

    def word(self, i: int) -> str:
        """A token, or "" outside the request."""
        return self._tokens[i][0] if 0 <= i < len(self._tokens) else ""

    def between(self, piece: Piece, later: Piece) -> list[str]:
        """The tokens between two pieces."""
        return self.lower[piece.end : later.start]

    def span(self, start: int, end: int, kind: str = "words") -> Piece:
        """The piece from token `start` up to `end`."""
        text = self.text[self._tokens[start].start() : self._tokens[end - 1].end()]
        return Piece(text.removesuffix("'s").removesuffix("’s"), start, end, kind)

    def nearness(self, piece: Piece, vocabulary: Mapping[str, float]) -> tuple[float, float]:
        """How strongly the words before and after a piece suggest a parameter. Nearer words count more."""
        before = behind = 0.0
        for step in range(1, 7):
            word = self.word(piece.start - step)
            if not word or word in ".;?!" or (step > 1 and word == ",") or word[-1].isdigit():
                break
            before += vocabulary.get(self.stems[piece.start - step], 0) / (1 + step)
        for step in range(1, 4):
            word = self.word(piece.end + step - 1)
            if not word or word in ".;?!,()" or word.lower() in LINKS:
                break
            behind += vocabulary.get(self.stems[piece.end + step - 1], 0) / (1 + step)
        return before, behind

    def unit(self, i: int) -> str:
        """The stem of this token if it is a unit of time, else ""."""
        own = self.stems[i] if i < len(self) else ""
        return own if own in UNITS else ""

    def clauses(self, spoken: Collection[str], taken: Collection[int]) -> list[Piece]:
        """The candidates for a free-text value: each clause, after any words in `spoken`, up to a token in `taken`."""
        found, start = [], 0
        for stop in [*(i for i in range(len(self)) if self.word(i) in ",.;:?!" or i in taken), len(self)]:
            first = next((i for i in range(start, stop) if self.is_word(i) and self.stems[i] not in spoken), stop)
            if stop - first > 1:
                found.append(self.span(first, stop, "clause"))
            start = stop + 1
        return found

    def joined(self, pieces: Sequence[Piece], links: Collection[str]) -> list[list[Piece]]:
        """The pieces in the request's order. Pieces that are separated only by these linking words form a group."""
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

    def starts_sentence(self, i: int) -> bool:
        """Whether a sentence starts with this token."""
        before = self.word(i - 1)
        return i == 0 or before in (".", "?", "!", ":") or before.count(".") > 1

    def is_name(self, i: int) -> bool:
        """Whether a token is a capitalised word that does not start a sentence."""
        return self.word(i)[:1].isupper() and self.is_word(i) and not self.starts_sentence(i)

    def is_word(self, i: int) -> bool:
        """Whether a token is a word that carries meaning."""
        word = self.word(i)
        return word[:1].isalnum() and i not in self.taken and _bare(word) not in STOP_WORDS

    def _words(self) -> list[Piece]:
        """All runs of words, up to `MAX_WORDS`; names may include "of" and a comma ("Bank of Spain", "Boston, MA")."""
        found = []
        for start in range(len(self)):
            end = start
            while self.is_word(end) and end - start < MAX_WORDS:
                end += 1
                found.append(self.span(start, end))
                if (
                    self.word(end) in ("of", "the", "de", "del", "van", "von", ",")
                    and self.is_name(end + 1)
                    and self.word(end - 1)[0].isupper()
                ):
                    end += 1
        return found

    def _piece(self, match: re.Match[str], value: Any, kind: str) -> Piece:
        """A piece of the tokens that a match touches."""
        return Piece(value, bisect_right(self._ends, match.start()), bisect_left(self._starts, match.end()), kind)

    def _date(self, match: re.Match[str]) -> Piece | None:
        """A date in ISO 8601, or as written if day and month are ambiguous."""
        year, month, day = (
            match[a] or match[b] or match[c]
            for a, b, c in (("y", "year", "then_year"), ("m", "month", "then_month"), ("d", "day", "first_day"))
        )
        if year is None:
            return self._piece(match, match[0], "date")
        if month.lower() in _MONTHS:
            month = str(_MONTHS.index(month.lower()) + 1)
        return self._piece(match, f"{year}-{month:0>2}-{day:0>2}", "date") if month.isdigit() else None

    def _numbers(self) -> list[Piece]:
        found = [
            Piece(_NUMBER_WORDS[word], i, i + 1, "word")
            for i, word in enumerate(self.lower)
            if word in _NUMBER_WORDS and i not in self.taken
        ]
        spans = [i for i, word in enumerate(self.lower) if word in ("next", "past", "last") and self.unit(i + 1)]
        found += [Piece(1, i, i + 1, "word") for i in spans]
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
        return sorted(found, key=lambda piece: piece.start)


def _unwrapped(request: str) -> str:
    """A request without quotation marks around all of it."""
    whole = re.fullmatch(r"\s*(['\"])((?:(?!\1).|(?<=\w)'(?=\w))*)\1\s*", request, re.DOTALL)
    return whole[2] if whole else request


def _bare(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("’s")
