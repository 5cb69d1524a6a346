"""Parses docstrings in Google, NumPy and reST style into a tool's description and its parameters' descriptions.

>>> parse_docstring("Add.\\n\\nArgs:\\n    a: The first.\\n    b (int): The second.\\n")
Docstring(description='Add.', parameters={'a': 'The first.', 'b': 'The second.'})

The description is the summary and the body, up to the first section.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PARAMETERS = "args|arguments|parameters|params|other parameters|keyword args|keyword arguments"
_SECTIONS = (
    f"{_PARAMETERS}|returns|return|yields|yield|receives|raises|raise|warns|warnings|warning|attributes|methods|"
    "examples|example|notes|note|references|see also|todo|usage"
)
_GOOGLE = re.compile(rf"^({_SECTIONS})\s*:\s*$", re.IGNORECASE)
_NUMPY = re.compile(rf"^({_SECTIONS})\s*$", re.IGNORECASE)
_IS_PARAMETERS = re.compile(rf"^({_PARAMETERS})$", re.IGNORECASE)
_GOOGLE_ITEM = re.compile(r"^\*{0,2}(?P<names>\w+)\s*(?:\((?:[^()]|\([^()]*\))*\))?\s*:(?:\s+(?P<text>.*)|$)")
_NUMPY_ITEM = re.compile(r"^(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?(?P<text>)$")
_REST_FIELD = re.compile(r"^:(\w+)(?:\s+([^:]*))?:(?:\s+(.*)|$)")
_REST_PARAMETER = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})


@dataclass(frozen=True, slots=True)
class Docstring:
    """A parsed docstring: `description`, and the descriptions of parameters by name."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(text: str) -> Docstring:
    """Parse any of the three styles, even mixed. `text` is dedented, as `inspect.getdoc` returns it. Never raises."""
    lines = text.splitlines()
    start = next((number for number in range(len(lines)) if _section_at(lines, number)), len(lines))
    description = "\n".join(lines[:start]).strip()
    parameters: dict[str, str] = {}
    number = start
    while number < len(lines):
        kind, name = _section_at(lines, number) or ("", "")
        end = next((later for later in range(number + 1, len(lines)) if _section_at(lines, later)), len(lines))
        body = lines[number + (2 if kind == "numpy" else 1) : end]
        if kind == "rest":
            parameters |= _rest_item(lines[number], body)
        elif _IS_PARAMETERS.match(name):
            parameters |= _items(body, _GOOGLE_ITEM if kind == "google" else _NUMPY_ITEM)
        number = end
    return Docstring(description, parameters)


def _section_at(lines: list[str], number: int) -> tuple[str, str] | None:
    """`(style, name)` of the section or field that begins at this line, or None."""
    line = lines[number]
    if match := _REST_FIELD.match(line):
        return "rest", match[1]
    below = lines[number + 1] if number + 1 < len(lines) else ""
    if (match := _NUMPY.match(line)) and re.fullmatch(r"-{3,}\s*", below):
        return "numpy", match[1]
    if (match := _GOOGLE.match(line)) and (not below.strip() or below[:1].isspace()):
        return "google", match[1]
    return None


def _items(body: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """The parameters that a section describes. An item begins at the smallest indent; other lines continue it."""
    items: dict[str, list[str]] = {}
    current: list[str] = []
    base = min((_indent(line) for line in body if line.strip()), default=0)
    for line in body:
        match = pattern.match(line.strip()) if line.strip() and _indent(line) == base else None
        if match:
            current = [name.strip().lstrip("*") for name in match["names"].split(",")]
            items |= {name: [match["text"] or ""] for name in current}
        else:
            for name in current:
                items[name].append(line)
    return {name: _joined(parts) for name, parts in items.items()}


def _rest_item(line: str, body: list[str]) -> dict[str, str]:
    match = _REST_FIELD.match(line)
    if match is None or match[1] not in _REST_PARAMETER or not (match[2] or "").split():
        return {}
    continued = []
    for following in body:
        if following.strip() and not following[0].isspace():
            break
        continued.append(following)
    return {match[2].split()[-1].lstrip("*\\"): _joined([match[3] or "", *continued])}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(parts: list[str]) -> str:
    return " ".join(part.strip() for part in parts if part.strip())
