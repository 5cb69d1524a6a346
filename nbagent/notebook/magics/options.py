"""Parses the options of a `%%agent` line. Errors name the wrong value and, if possible, suggest the right one."""

from __future__ import annotations

import ast
import math
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable
from keyword import iskeyword
from typing import Any

from IPython.core.error import UsageError
from IPython.utils.process import arg_split

from nbagent.notebook.magics.interpolate import evaluate, split
from nbagent.providers.provider_facts import LEVELS
from nbagent.text import did_you_mean

#: Stands for a value by its number, between characters that no line contains.
_VALUE = re.compile("\0(\\d+)\0")

#: The values of `--thinking`.
THINKING = ("off", "on", *LEVELS)
#: The options of each request, in conversations and maps.
OF_REQUESTS = ("thinking", "temperature")


def parse(magic: Any, line: str, namespace: dict[str, Any]) -> Any:
    """Parse the options of `line` as the `magic_arguments` of `magic` define them. Returns them as attributes.

    Each `{expression}` in the line is replaced by its value in the namespace. A value always stays within one word and
    never becomes an option.
    """
    words = _words(line, namespace, magic.parser)
    try:
        options, unknown = magic.parser.parse_known_args(words)
    except UsageError as error:
        raise UsageError(f"%%agent: {str(error).removeprefix('argument ')}") from None
    if unknown and unknown[0].startswith("-"):
        name = unknown[0].partition("=")[0]
        known = [each for action in magic.parser._actions for each in action.option_strings]
        raise UsageError(f"%%agent: there is no option {name}{did_you_mean(name, known)}; %%agent? lists them all")
    try:
        variable(options.name)  # after an unknown option, it may be that option's value
    except ArgumentTypeError as error:
        raise UsageError(f"%%agent: NAME: {error}") from None
    if unknown:
        raise UsageError(f"%%agent: unexpected {unknown[0]!r}: write [NAME] [options] here, and the prompt below")
    if options.tools and options.no_tools:
        raise UsageError("%%agent: give -t or --no-tools, not both")
    if options.write and (options.tools or options.no_tools):
        raise UsageError("%%agent: --write adds its own tools: omit -t and --no-tools")
    if options.shape and options.form != "markdown":
        raise UsageError("%%agent: give --as or --shape, not both: --shape already sets the format")
    if options.output == options.name:
        raise UsageError(f"%%agent: -o {options.output} would overwrite the agent: choose another variable")
    return options


def of_requests(given: Any) -> dict[str, Any]:
    """The request options that a line sets. For all other options, the agent's settings apply."""
    return {name: value for name in OF_REQUESTS if (value := getattr(given, name)) is not None}


def _words(line: str, namespace: dict[str, Any], parser: Any) -> list[str]:
    """The words of the line, split at spaces that are not in quotes or values, with the values inserted."""
    values: list[str] = []
    marked = ""
    for literal, field in split(line.replace("\0", "")):
        marked += literal if field is None else f"\0{len(values)}\0"
        if field is not None:
            value = evaluate(field, namespace)
            if not isinstance(value, str):
                raise UsageError(f"%%agent: {{{field.source}}}: expected text, got an image")
            values.append(value)
    try:
        split_words = arg_split(marked, posix=False, strict=True)
    except ValueError:
        raise UsageError(f"%%agent {line}: a quotation mark is not closed") from None
    long_names = {
        name: max(a.option_strings, key=len) for a in parser._actions if a.nargs != 0 for name in a.option_strings
    }
    words: list[str] = []
    for word in split_words:
        whole = _VALUE.sub(lambda found: values[int(found[1])], word)
        before = words[-1] if words else ""
        option = next((long for name, long in long_names.items() if before[:1] == "-" and name.startswith(before)), "")
        if whole != word and option and not word.startswith("-"):
            # in one word with its option: a separate value that starts with a dash would count as an option
            quoted = f'"{whole}"' if unquoted(word) == word and unquoted(whole) != whole else whole
            words[-1] = f"{option}={quoted}"
        elif whole != word and word.startswith("\0") and whole.startswith("-"):
            raise UsageError(f"%%agent: expected a variable name, got {whole!r}")
        else:
            words.append(whole)
    return words


def suggestion(word: str, known: Iterable[str]) -> str:
    """A hint with the closest known word or, if no word is close, with all known words.

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
    raise ArgumentTypeError(
        f"expected a variable name, got {text!r}: write %%agent [NAME] [options], and the prompt below"
    )


def expression(text: str) -> str:
    """The type of an option that takes a Python expression, quoted if it contains spaces."""
    source = unquoted(text)
    try:
        ast.parse(source, mode="eval")
    except SyntaxError:
        raise ArgumentTypeError(f"expected a Python expression, in quotes if it has spaces, got {text!r}") from None
    return source


def value_of(shell: Any, option: str, source: str) -> Any:
    """The value of an option's expression in the user's namespace. Raises UsageError if the expression fails."""
    try:
        return eval(source, shell.user_ns)  # noqa: S307  the user's own expression in the user's own kernel
    except NameError as error:
        known = [each for each in shell.user_ns if not each.startswith("_")]
        hint = did_you_mean(error.name or source, known)
        raise UsageError(f"%%agent: {option} {source}: there is no variable {error.name}{hint}") from None
    except Exception as error:
        raise UsageError(f"%%agent: {option} {source}: {type(error).__name__}: {error}") from error


def names(text: str) -> list[str]:
    """The type of an option that lists names."""
    listed = [name.strip() for name in unquoted(text).split(",")]
    if not all(listed):
        raise ArgumentTypeError(
            f"a name is missing next to a comma in {text!r}: write the names without spaces, as in a,b,c"
        )
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
    """The type of an option that takes a whole number."""
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
