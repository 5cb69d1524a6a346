"""A request as its tokens, and the pieces of it that can be arguments of a tool: numbers, quotations, dates, words.

The rules are for English. Chinese, Japanese and Korean have no spaces: there, pairs of characters are compared.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

#: Word lists and fitted weights: `benchmarks/fit_embedded.py` writes the weights.
DATA: dict[str, Any] = json.loads(Path(__file__).with_name("weights.json").read_text(encoding="utf-8"))
#: Words that say nothing about what is asked for, and the stems of those that fit almost any tool.
STOP_WORDS, COMMON = frozenset(DATA["stop words"].split()), frozenset(DATA["common stems"].split())
#: Words that link a piece to what follows: what stands behind one says nothing about the piece before it.
LINKS = frozenset(str.split("about and at by for from in of on or to with"))
#: Everyday words for the same thing, each mapped to the first of its group.
_SYNONYMS = {
    word: group.split()[0]
    for group in (
        "mean average typical",
        "maximum max largest highest biggest most",
        "minimum min smallest lowest least",
    )
    for word in group.split()
}
#: The most words in a piece that does not go to the end of its clause.
MAX_WORDS = 6
_ENDINGS = ("ingly", "ations", "ation", "ings", "ing", "edly", "ies", "ied", "ely", "ed", "es", "ly", "s", "e")
_NUMBER_WORDS = str.split("zero one two three four five six seven eight nine ten eleven twelve")
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
#: Quotation marks as they are read, one for one.
_MARKS = str.maketrans("“”„«»‘’", '"""""\'\'')
#: All kinds take time in proportion to the text: each begins only where a word does, or ends where it could begin.
_TOKEN = re.compile(
    r"""
    (?P<quoted> "[^"]+" | (?<!\w)'(?:[^']|(?<=\w)'(?=\w))+'(?!\w) | `[^`]+` )
    | (?P<date> \b\d{1,2}[-/]\d{1,2}[-/]\d{4}\b | \b\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b
        | \b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s?\d{1,2}(?:st|nd|rd|th)?,?\s?\d{4}\b
        | \b\d{1,2}(?:st|nd|rd|th)?(?:\ of)?\ (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[,\ ]+\d{4}\b )
    | (?P<code> https?://[^\s'"]+ | (?<![\w.+-])[\w.+-]+@[\w-]+\.\w+(?:\.\w+)* | ~?(?:/[\w.-]+){2,} | \b\d{1,2}:\d{2}\b
        | (?<![\w/-])(?:[\w-]+/)*[\w-]+\.(?:com|org|net|io|gov|edu|csv|json|txt|xlsx|pdf|py|png|jpg)\b
        | (?:\b[a-z](?:\([a-z]\))?\s?=\s?)?-?\b\d*[a-z](?:(?:\^|\*\*)\d+|(?=\s?[-+]\s?\d))
          (?:\s?[-+*/]\s?\d*[a-z]?(?:(?:\^|\*\*)\d+)?)* )
    | (?P<number> (?<![\w.])-?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,40})(?:\.\d{1,40})?(?![\d.]*\d)
        (?!-\d|/\w|:\d|[a-z]+\d)
        (?:\s?%|\s?(?:percent|thousand|million|billion)\b)? )
    | (?P<word> (?:[a-z]\.){2,} | \w+(?:['./-]\w+)* )
    | (?P<mark> [^\w\s] )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]+")


@lru_cache(10_000)
def stem(word: str) -> str:
    """A word without a common ending, for comparison only. Everyday synonyms become the same word.

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
    """The stems of a text's words in order, without stop words; `snake_case` and `camelCase` are split."""
    pairs = ["".join(pair) for run in _CJK.findall(text) for pair in itertools.pairwise(run)]
    found = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", _CJK.sub(" ", text)))
    return (*pairs, *(stem(word) for word in found if word.lower() not in STOP_WORDS))


def is_readable(text: str) -> bool:
    """Whether at least half of the letters are Latin: of others the embedded model makes nothing.

    >>> is_readable("How many rows has 订单?"), is_readable("北京的天气怎么样？")
    (True, False)
    """
    letters = [char for char in text if char.isalpha()]
    return sum(char < "\u0250" for char in letters) * 2 >= len(letters)


@dataclass(frozen=True, slots=True)
class Piece:
    """A value that the request holds, from its token `start` to before `end`.

    `kind`: "number", "share" (5 %), "numeral" (five), "quoted", "date", "code", "words", or "clause" for words to the
    end of their clause.
    """

    value: Any
    start: int
    end: int
    kind: str

    def __hash__(self) -> int:
        return hash((self.start, self.end, self.kind))

    def meets(self, other: Piece) -> bool:
        """Whether the two have a token in common."""
        return self.start < other.end and other.start < self.end


class Reading:
    """A request, read."""

    def __init__(self, request: str) -> None:
        whole = re.fullmatch(r"""\s*(["'])((?:(?!\1).|(?<=\w)'(?=\w))*)\1\s*""", request, re.DOTALL)
        self.text = whole[2] if whole else request  # without quotation marks around all of it
        self._tokens = list(_TOKEN.finditer(self.text.translate(_MARKS)))
        self.kinds = [str(token.lastgroup) for token in self._tokens]
        self.lower = [token[0].lower().strip("\"'`").removesuffix("'s") for token in self._tokens]
        self.stems = [stem(word) for word in self.lower]

    def word(self, i: int) -> str:
        """A token, or "" outside of the request."""
        return self._tokens[i][0] if 0 <= i < len(self._tokens) else ""

    @cached_property
    def said(self) -> set[str]:
        """The stems of what the request says, without what it quotes, which is a value and does not say what to do."""
        unquoted = [token[0] for token in self._tokens if token.lastgroup != "quoted"]
        return set(words(" ".join(unquoted))) - COMMON

    def span(self, start: int, end: int, kind: str = "words") -> Piece:
        """The text of these tokens."""
        text = self.text[self._tokens[start].start() : self._tokens[end - 1].end()]
        return Piece(text.removesuffix("'s").removesuffix("’s"), start, end, kind)

    def nearness(self, piece: Piece, vocabulary: Mapping[str, float]) -> tuple[float, float]:
        """How much the words before and behind a piece speak of a parameter: the nearer, the more."""
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

    def is_word(self, i: int) -> bool:
        """Whether a token is a word that says something."""
        return 0 <= i < len(self.kinds) and self.kinds[i] in ("word", "number") and self.lower[i] not in STOP_WORDS

    def is_name(self, i: int) -> bool:
        """Whether a token has a capital letter that is not its sentence's."""
        before = self.word(i - 1)
        begins = i == 0 or before in (".", "?", "!", ":") or before.count(".") > 1
        return self.word(i)[:1].isupper() and self.is_word(i) and not begins

    def is_whole(self, piece: Piece) -> bool:
        """Whether a piece of words is a whole name, or a whole row of words that are no names."""
        inside = {self.is_name(i) for i in range(piece.start, piece.end) if self.is_word(i)}
        around = {self.is_name(i) for i in (piece.start - 1, piece.end) if self.is_word(i)}
        return len(inside) == 1 and not inside & around and "," not in piece.value

    @cached_property
    def numbers(self) -> list[Piece]:
        """The numbers, in figures and in words; "next week" holds a 1."""
        found = []
        for i, (word, kind) in enumerate(zip(self.lower, self.kinds, strict=True)):
            if kind == "number":
                digits = re.sub(r"[^\d.-]", "", word)
                value: int | float = float(digits) if "." in digits else int(digits)
                if scale := _SCALES.get(word.lstrip("-$,.0123456789 ")):
                    value = round(value * scale)
                found.append(Piece(value, i, i + 1, "share" if word.endswith(("%", "percent")) else "number"))
            elif word in _NUMBER_WORDS:
                found.append(Piece(_NUMBER_WORDS.index(word), i, i + 1, "numeral"))
            elif word in ("next", "past", "last"):
                found.append(Piece(1, i, i + 1, "numeral"))
        return found

    @cached_property
    def ranks(self) -> dict[int, int]:
        """Which of the numbers in figures begins at a token: the first is 0."""
        return {piece.start: i for i, piece in enumerate(each for each in self.numbers if each.kind != "numeral")}

    @cached_property
    def texts(self) -> list[Piece]:
        """What a text can be. Names go on over "of" and a comma ("Bank of Spain", "Boston, MA")."""
        found = []
        for start, kind in enumerate(self.kinds):
            if kind in ("date", "code", "number"):
                found.append(self.span(start, start + 1, kind))
            elif kind == "quoted":
                piece = self.span(start, start + 1, kind)
                found.append(Piece(piece.value[1:-1].strip(), start, start + 1, kind))
            end = start
            while self.is_word(end) and end - start < MAX_WORDS:
                end += 1
                found.append(self.span(start, end))
                links = self.word(end) in ("of", "the", "de", "del", "van", "von", ",")
                if links and self.is_name(end + 1) and self.word(end - 1)[0].isupper():
                    end += 1
        return found

    def clauses(self, spoken: Collection[str]) -> list[Piece]:
        """From behind the words `spoken` to the end of each clause: what a free text can be."""
        found, start = [], 0
        ends = ("quoted", "date", "code")
        for stop in [
            *(i for i, kind in enumerate(self.kinds) if kind in ends or self.word(i) in ",.;:?!"),
            len(self.kinds),
        ]:
            first = next((i for i in range(start, stop) if self.is_word(i) and self.stems[i] not in spoken), stop)
            if stop - first > 1:
                found.append(self.span(first, stop, "clause"))
            start = stop + 1
        return found

    def joined(self, pieces: Iterable[Piece], links: Collection[str]) -> list[list[Piece]]:
        """The pieces, in the order of the request, in groups that nothing but these links separates."""
        groups: list[list[Piece]] = []
        for piece in sorted(pieces, key=lambda each: each.start):
            if groups and piece.start < groups[-1][-1].end:
                continue
            if groups and all(word in links for word in self.lower[groups[-1][-1].end : piece.start]):
                groups[-1].append(piece)
            else:
                groups.append([piece])
        return groups
