"""Parses the options of a `%%agent` line. An error names the wrong value and what was probably meant."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Iterable
from difflib import get_close_matches
from keyword import iskeyword
from typing import Any

from IPython.core.error import UsageError
from IPython.utils.process import arg_split

from nbagent.providers.vendor import LEVELS

#: The values of `--thinking`.
THINKING = ("off", "on", *LEVELS)


def parse(magic: Any, line: str) -> Any:
    """The options of `line` as attributes, parsed by the arguments that `magic_arguments` gave to the function."""
    try:
        words = arg_split(line, posix=False, strict=True)
    except ValueError:
        raise UsageError(f"%%agent {line}: a quotation mark is not closed") from None
    try:
        options, unknown = magic.parser.parse_known_args(words)
    except UsageError as error:
        raise UsageError(f"%%agent: {str(error).removeprefix('argument ')}") from None
    if unknown and not unknown[0].startswith("-"):
        raise UsageError(f"%%agent: unexpected {unknown[0]!r}: write [NAME] [options] here, and the question below")
    if unknown:
        name = unknown[0].partition("=")[0]
        known = [each for action in magic.parser._actions for each in action.option_strings]
        raise UsageError(f"%%agent: there is no option {name}{did_you_mean(name, known)}; %%agent? lists them all")
    if options.tools and options.no_tools:
        raise UsageError("%%agent: give -t or --no-tools, not both")
    if options.output == options.name:
        raise UsageError(f"%%agent: -o {options.output} would overwrite the agent: choose another variable")
    return options


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean --thinking?`, or an empty string if no known word is close.

    >>> did_you_mean("--thinkin", ["--thinking", "--tools"])
    '; did you mean --thinking?'
    """
    near = get_close_matches(word.lower(), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """The known word that is close, or else all of them.

    >>> suggestion("x", ["tools", "panel"])
    '; there are tools, panel'
    """
    known = list(known)
    return did_you_mean(word, known) or f"; there are {', '.join(known) or 'none'}"


class OneOf:
    """The type of an option that takes one of these words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        """The word itself."""
        if text in self.words:
            return text
        hint = did_you_mean(text, self.words)
        raise ArgumentTypeError(f"expected one of {', '.join(self.words)}, got {text!r}{hint}")


def variable(text: str) -> str:
    """The type of an argument that names a variable."""
    if text.isidentifier() and not iskeyword(text):
        return text
    raise ArgumentTypeError(f"expected a variable name, got {text!r}: %%agent [NAME] [options], the question below")


def names(text: str) -> list[str]:
    """The type of an option that lists names."""
    listed = [name.strip() for name in unquoted(text).split(",")]
    if not all(listed):
        raise ArgumentTypeError(f"a name is missing beside a comma in {text!r}: write the names without spaces, a,b,c")
    return listed


def temperature(text: str) -> float:
    """The type of `--temperature`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ArgumentTypeError(f"expected a number of at least 0 (most models take at most 2), got {text!r}")
    return number


def whole_number(text: str) -> int:
    """The type of an option that counts."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"expected a whole number, got {text!r}") from None


def unquoted(text: str) -> str:
    """The type of an option that takes text, quoted if it contains spaces.

    >>> unquoted('"say \\'yes\\'"')
    "say 'yes'"
    """
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
