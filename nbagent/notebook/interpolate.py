"""`{expression}` in the text of a cell: the value of a Python expression in the user's namespace."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from IPython.core.error import UsageError

from nbagent.functions.formatting import format_result

#: Closing braces that are tried for one opening brace.
MOST_BRACES = 20


def interpolate(text: str, namespace: dict[str, Any]) -> str | list[dict[str, Any]]:
    """The text with each `{expression}` replaced by its value; content parts, where a value is an image.

    Text in braces that is no expression stays as it is; `{{` and `}}` are braces. A DataFrame becomes its shape, dtypes
    and head. An unknown name, or an expression that raises, is an error before anything is sent.

    >>> interpolate("Is {n} odd? {not python} {{n}}", {"n": 3})
    'Is 3 odd? {not python} {n}'
    """
    parts: list[dict[str, Any]] = []
    for literal, expression in _split(text):
        value = literal if expression is None else _evaluate(expression, namespace)
        if isinstance(value, str) and parts and parts[-1]["type"] == "text":
            parts[-1]["text"] += value
        else:
            parts += [{"type": "text", "text": value}] if isinstance(value, str) else value
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _split(text: str) -> Iterator[tuple[str, str | None]]:
    """`(literal, None)` or `("", expression)`, in order."""
    start = position = escaped = 0
    while position < len(text):
        pair = text[position : position + 2]
        if pair == "{{" or (pair == "}}" and escaped):
            escaped += 1 if pair == "{{" else -1
            yield text[start:position] + pair[0], None
            start = position = position + 2
        elif text[position] == "{" and (end := _expression_end(text, position)) is not None:
            yield text[start:position], None
            yield "", text[position + 1 : end]
            start = position = end + 1
        else:
            position += 1
    yield text[start:], None


def _expression_end(text: str, opening: int) -> int | None:
    """The index of the brace that closes an expression on the same line, or None.

    A literal (`{1}`, `{...}`) is left alone: it is LaTeX or JSON rather than a question to Python.
    """
    line_end = text.find("\n", opening)
    end = opening
    for _ in range(MOST_BRACES):
        end = text.find("}", end + 1, line_end if line_end != -1 else len(text))
        inside = text[opening + 1 : end].strip()
        if end == -1 or not inside:
            return None
        try:
            tree = ast.parse(inside, mode="eval")
        except (SyntaxError, ValueError, RecursionError):
            continue
        return None if _is_literal(tree) else end
    return None


def _is_literal(tree: ast.Expression) -> bool:
    try:
        ast.literal_eval(tree)
    except ValueError:
        return False
    except TypeError:  # a literal of something that can't be, such as {[1]: 2}
        return True
    return True


def _evaluate(expression: str, namespace: dict[str, Any]) -> str | list[dict[str, Any]]:
    try:
        value = eval(expression.strip(), namespace)  # noqa: S307  the user's own expression in the user's own kernel
        return value if isinstance(value, str) else format_result(value)
    except Exception as error:
        hint = "write {{ for a brace, or use --raw" if isinstance(error, NameError) else "nothing was sent"
        raise UsageError(f"{{{expression}}}: {type(error).__name__}: {error} ({hint})") from error
