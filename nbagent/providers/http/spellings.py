"""The ways to write a secret: as it is, as JSON, URLs and HTML escape it, and in Base64, whatever stands before it.

Most texts hold nothing like it, and are read once, at the speed of `str.find`.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

#: Shorter secrets ("none", "ollama") are never searched for: they may be ordinary words.
SHORTEST_SECRET = 8
#: Local servers take any key, so people pass words such as "not-needed".
_WORDS = re.compile(r"(?=.{0,19}\Z)[A-Za-z]+(?:[-_ ][A-Za-z]+)*")
#: An escape that may stand for a character of a key.
_ESCAPED = re.compile(r"\\(?:u00|[^\w\s])|%[2-7]|&[#a-z]")
#: The beginning of an escape, at the end of a text. The longest is shorter than so many characters.
_CUT_ESCAPE = re.compile(r"\\+(?:u[0-9a-fA-F]{0,3})?|%(?:25)*2?[0-9a-fA-F]?|&(?:#[xX]?[0-9a-fA-F]{0,4}|[a-z]{0,5})")
_LONGEST_ESCAPE = 16


class Spellings:
    """All ways to write one secret. Make it with `spellings_of`, which keeps the last ones."""

    def __init__(self, secret: str) -> None:
        cores = list(_in_base64(secret))
        urlsafe = [core.translate({43: "-", 47: "_"}) for core in cores]
        #: Without escapes.
        self.literals = tuple(dict.fromkeys([secret, *cores, *urlsafe]))
        self._beginnings = [literal[:SHORTEST_SECRET] for literal in self.literals]
        self._longest = _LONGEST_ESCAPE * max(map(len, self.literals))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join("".join(map(_any_form, literal)) for literal in self.literals))

    @cached_property
    def _prefixes(self) -> frozenset[str]:
        return frozenset(literal[:length] for literal in self.literals for length in range(1, len(literal)))

    @cached_property
    def _starts(self) -> re.Pattern[str]:
        return starts_of(self.literals)

    def may_be_in(self, text: str) -> bool:
        """False for nearly all texts that hold no spelling, and no long beginning of one: a fast look."""
        if len(text) < SHORTEST_SECRET:
            return False
        for beginning in self._beginnings:  # a loop, since `any` costs more than the search
            if beginning in text:
                return True
        return _has_escapes(text)

    def replaced(self, text: str, mask: str) -> str:
        """The text with `mask` for each spelling in it.

        >>> spellings_of("sk-12345678").replaced("sk%2D12345678, c2stMTIzNDU2Nzg=", "***")
        '***, ***g='
        """
        for literal in self.literals:
            if literal in text:
                text = text.replace(literal, mask)
        return self._replaced_with_escapes(text, mask) if _has_escapes(text) else text

    def _replaced_with_escapes(self, text: str, mask: str) -> str:
        parts, end = [], 0
        for start in self._starts.finditer(text):
            if start.start() >= end and (found := self._pattern.match(text, start.start())):
                parts += [text[end : start.start()], mask]
                end = found.end()
        return "".join([*parts, text[end:]]) if parts else text

    def begun_at(self, text: str) -> int:
        """Where the text ends in the beginning of a spelling; its length if it does not.

        >>> spellings_of("sk-12345678").begun_at("a key: sk-12")
        7
        """
        for found in self._starts.finditer(text, max(0, len(text) - self._longest)):
            at = found.start()
            if self._may_go_on(text, at):
                return at
        return len(text)

    def cut(self, text: str, mask: str) -> str:
        """The text with `mask` for the beginning of a spelling at its end: it was cut off there.

        >>> spellings_of("sk-12345678").cut("a key: sk-12345", "***")
        'a key: ***'
        """
        for literal in self.literals:
            at = text.rfind(literal[:SHORTEST_SECRET], max(0, len(text) - len(literal)))
            if at >= 0 and literal.startswith(text[at:]):
                return text[:at] + mask
        return text

    def _may_go_on(self, text: str, at: int) -> bool:
        """Whether all of the text from `at` on spells the beginning of the secret."""
        rest = text[at:]
        if rest in self._prefixes:
            return True
        return _has_signs(rest) and any(_spells(rest, literal) for literal in self.literals)


def may_be_words(secret: str) -> bool:
    """Whether a secret could be ordinary words: then it must not be searched for in what people and models say.

    >>> [may_be_words(secret) for secret in ("x1", "not-needed", "sk-12345678")]
    [True, True, False]
    """
    return len(secret) < SHORTEST_SECRET or _WORDS.fullmatch(secret) is not None


def starts_of(literals: Sequence[str]) -> re.Pattern[str]:
    """Finds where a spelling of one of these may begin: two classes of characters, which a search is fast for."""
    first = "".join({literal[0] for literal in literals})
    second = "".join({literal[1] for literal in literals})
    return re.compile(rf"[{re.escape(first)}\\%&](?=[{re.escape(second)}\\%&u#2-7]|\Z)")


def _has_signs(text: str) -> bool:
    return "\\" in text or "%" in text or "&" in text


def _has_escapes(text: str) -> bool:
    return _has_signs(text) and _ESCAPED.search(text) is not None


def _spells(text: str, literal: str) -> bool:
    """Whether a text with escapes spells the beginning of `literal`, and nothing else."""
    at = 0
    for char in literal:
        if at == len(text) or (len(text) - at < _LONGEST_ESCAPE and _CUT_ESCAPE.fullmatch(text, at)):
            return True
        found = _form(char).match(text, at)
        if found is None:
            return False
        at = found.end()
    return False


@lru_cache(maxsize=32)
def spellings_of(secret: str) -> Spellings:
    """The spellings of a secret of at least `SHORTEST_SECRET` characters."""
    return Spellings(secret)


def _in_base64(secret: str) -> Iterator[str]:
    """What a text in Base64 holds where the secret is a part of it: three ways, by what stands before it."""
    for before in range(3):
        encoded = base64.b64encode(b"x" * before + secret.encode()).decode()
        yield encoded[-(-before * 8 // 6) : (before + len(secret.encode())) * 8 // 6]


@lru_cache(maxsize=512)
def _form(char: str) -> re.Pattern[str]:
    return re.compile(_any_form(char))


def _any_form(char: str) -> str:
    """Matches a character, plain or as JSON, a URL or HTML may escape it."""
    # only from its beginning is a run of backslashes looked at: from each of them, it would be a square's work
    code = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{ord(char):02x}")
    run = r"(?<!\\)\\+"
    forms = [rf"{run}u00{code}", rf"%(?:25)*{code}", f"&#(?:[xX]0*{code}|0*{ord(char)});"]
    if not char.isalnum():
        forms += [run + re.escape(char), re.escape(html.escape(char))]
    forms.append(re.escape(char))  # last, since a plain & or % may begin one of the others
    return f"(?:{'|'.join(forms)})"
