"""The options of a `%%agent` line: what is wrong with them is said with the name or the values that were meant."""

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

#: What `--thinking` takes.
THINKING = ("off", "on", *LEVELS)


def parse(magic: Any, line: str) -> Any:
    """The options of `line` as attributes, by the parser of the function that `magic_arguments` made a magic of."""
    try:
        words = arg_split(line, posix=False, strict=True)
    except ValueError:
        raise UsageError(f"%%agent {line}: a quotation mark is not closed") from None
    try:
        options, unknown = magic.parser.parse_known_args(words)
    except UsageError as error:
        raise UsageError(f"%%agent: {str(error).removeprefix('argument ')}") from None
    if unknown:
        raise UsageError(f"%%agent: {_unknown(unknown[0], magic.parser)}")
    if options.tools and options.no_tools:
        raise UsageError("%%agent: give -t or --no-tools, not both")
    if options.output == options.name:
        raise UsageError(f"%%agent: -o {options.output} would put the answer in the place of the agent: name another")
    return options


def _unknown(word: str, parser: Any) -> str:
    if not word.startswith("-"):
        return f"{word!r} is one word too many: [NAME] [options] stand here, the question below"
    known = [name for action in parser._actions for name in action.option_strings]
    return f"there is no option {word.partition('=')[0]}{meant(word.partition('=')[0], known)}; %%agent? lists them all"


def meant(word: str, known: Iterable[str]) -> str:
    """`, did you mean --thinking?`, or nothing where nothing is near.

    >>> meant("--thinkin", ["--thinking", "--tools"])
    ', did you mean --thinking?'
    """
    near = get_close_matches(word.lower(), list(known), n=1)
    return f", did you mean {near[0]}?" if near else ""


def instead(word: str, known: Iterable[str]) -> str:
    """What was meant; where nothing is near, all that there is.

    >>> instead("dance", ["tools", "panel"])
    '; there are tools, panel'
    """
    known = list(known)
    return meant(word, known) or f"; there are {', '.join(known) or 'none'}"


class OneOf:
    """The type of an option that takes one of these words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        """The word itself."""
        if text in self.words:
            return text
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(self.words)}{meant(text, self.words)}")


def variable(text: str) -> str:
    """The type of an argument that names a variable."""
    if text.isidentifier() and not iskeyword(text):
        return text
    raise ArgumentTypeError(f"{text!r} is not a variable name: %%agent [NAME] [options], the question below")


def names(text: str) -> list[str]:
    """The type of an option that lists names."""
    listed = [name.strip() for name in unquoted(text).split(",")]
    if not all(listed):
        raise ArgumentTypeError(f"{text!r} has nothing beside a comma: write the names without spaces, a,b,c")
    return listed


def temperature(text: str) -> float:
    """The type of `--temperature`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ArgumentTypeError(f"{text!r} is no temperature: give a number from 0 up; most models take no more than 2")
    return number


def count(text: str) -> int:
    """The type of an option that counts."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no whole number") from None


def unquoted(text: str) -> str:
    """The type of an option that takes a text, in quotes where it has spaces.

    >>> unquoted('"say \\'yes\\'"')
    "say 'yes'"
    """
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
