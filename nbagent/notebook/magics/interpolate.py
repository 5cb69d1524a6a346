"""Replaces each `{expression}` in a cell's text with the value of the Python expression in the user's namespace.

As in an f-string, a conversion and a format may follow: `{name!r}`, `{mean:.2f}`, `{day:%d %B}`. LaTeX and JSON also
contain colons, so text after a colon counts as a format only if it can format numbers, text or dates.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from IPython.core.error import UsageError

from nbagent.core.content.images import joined_content
from nbagent.functions.formatting import format_result

#: Closing braces tried for one opening brace.
MAX_BRACES = 20

_CONVERSIONS: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
_FILL, _SIGN, _WIDTH, _PRECISION = r"(?:[^a-zA-Z\s{}]?[<>=^])?", "[-+ ]?z?#?", r"\d*[,_]?", r"(?:\.\d+)?[,_]?"
_FORMAT = re.compile(
    rf"(?P<expression>.+?)(?:!(?P<conversion>[rsa]))?(?::(?P<format>(?! |$)"
    rf"(?:{_FILL}{_SIGN}{_WIDTH}{_PRECISION}[bcdeEfFgGnosxX%]?|[^{{}}]{{0,50}}%[a-zA-Z][^{{}}]{{0,50}})))?"
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the text between two braces (`source`) and its parts."""

    source: str
    expression: str
    conversion: str = ""
    format: str = ""


def interpolate(text: str, namespace: dict[str, Any]) -> str | list[dict[str, Any]]:
    """Replace each `{expression}` in the text with its value. If a value is an image, return content parts.

    Text in braces that is not an expression stays unchanged. Write `{{` and `}}` for braces. A DataFrame is replaced by
    its shape, its dtypes and its first rows. Raises UsageError if a name is unknown, or if an expression or a format
    fails. However, a label such as `{fig:1}` stays unchanged if there is no variable `fig`.

    >>> interpolate("Is {n} odd? {n:.2f} {n!r:>3} {no expression} {{n}}", {"n": 3})
    'Is 3 odd? 3.00   3 {no expression} {n}'
    """
    parts: list[dict[str, Any]] = []
    for literal, field in split(text):
        value = literal if field is None else evaluate(field, namespace)
        parts += [{"type": "text", "text": value}] if isinstance(value, str) else value
    return joined_content(parts)


def split(text: str) -> Iterator[tuple[str, Field | None]]:
    """Yield the text's parts in order, each as `(literal, None)` or `("", field)`."""
    start = position = open_pairs = 0
    while position < len(text):
        pair = text[position : position + 2]
        if pair == "{{" or (pair == "}}" and open_pairs):
            open_pairs += 1 if pair == "{{" else -1
            yield text[start:position] + pair[0], None
            start = position = position + 2
        elif text[position] == "{" and (field := _field(text, position)) is not None:
            yield text[start:position], None
            yield "", field
            start = position = position + len(field.source) + 2
        else:
            position += 1
    yield text[start:], None


def _field(text: str, opening: int) -> Field | None:
    """The field from this opening brace to a closing brace on the same line, or None if there is no expression.

    A literal (`{1}`, `{...}`) is not an expression: it is probably LaTeX or JSON.
    """
    line_end = text.find("\n", opening)
    end = opening
    for _ in range(MAX_BRACES):
        end = text.find("}", end + 1, line_end if line_end != -1 else len(text))
        source = text[opening + 1 : end]
        if end == -1 or not source.strip():
            return None
        for field in (Field(source, source.strip()), _formatted_field(source)):
            if field is None:
                continue
            try:
                with warnings.catch_warnings(action="ignore"):  # of invalid escapes, as in TeX
                    tree = ast.parse(field.expression, mode="eval")
            except (SyntaxError, ValueError):
                continue
            return None if _is_literal(tree) else field
    return None


def _formatted_field(source: str) -> Field | None:
    """The field if it ends with a conversion or a format."""
    begin = max(source.rfind("{"), source.rfind("}"), 0)  # conversions and formats contain no braces
    found = _FORMAT.fullmatch(source, begin)
    if found is None or not (found["conversion"] or found["format"]):
        return None
    expression = source[: found.end("expression")].strip()
    return Field(source, expression, found["conversion"] or "", found["format"] or "")


def _is_literal(tree: ast.Expression) -> bool:
    try:
        ast.literal_eval(tree)
    except ValueError:
        return False
    except TypeError:  # an impossible literal, such as {[1]: 2}
        return True
    return True


def evaluate(field: Field, namespace: dict[str, Any]) -> str | list[dict[str, Any]]:
    """The value of a field as text or, if the value is an image, as content parts. Raises UsageError if the field can't
    be evaluated.
    """
    try:
        value = eval(field.expression, namespace)  # noqa: S307  the user's own expression in the user's own kernel
        if field.conversion:
            value = _CONVERSIONS[field.conversion](value)
        if field.format:
            value = format(value, field.format)
        return value if isinstance(value, str) else format_result(value)
    except Exception as error:
        is_label = field.expression.isidentifier() and field.format.isalnum() and not field.conversion
        if isinstance(error, NameError) and is_label:
            return f"{{{field.source}}}"  # as in \ref{fig:1}
        hint = "nothing was sent; write {{ for a brace, or --raw to keep all braces"
        raise UsageError(f"{{{field.source}}}: {type(error).__name__}: {error} ({hint})") from error
