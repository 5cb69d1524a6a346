"""Reads the YAML of skills, which others wrote: leniently, within limits, and with the line of each problem."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

#: Characters and levels of YAML.
MAX_YAML, MAX_DEPTH = 64_000, 20
_FENCE = re.compile(r"---[ \t]*")
#: A value with a colon that YAML takes for another key: `description: Use it when: …`.
_UNQUOTED = re.compile(r"([A-Za-z][\w-]*):[ \t]+([^\s'\"|>\[{&*!#].*?)[ \t]*")


@dataclass
class Fields:
    """A YAML mapping: values and lines by key, and problems as `(line, message)`. Lines count from 1."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)
    is_broken: bool = False


def split_front_matter(text: str) -> tuple[str | None, str, int]:
    """The YAML between the first two lines `---`, what follows, and the line that the YAML begins in.

    The YAML is None if there is none, or if it does not end.

    >>> split_front_matter("---\\nname: tea\\n---\\n# Tea")
    ('name: tea', '# Tea', 2)
    """
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if not _FENCE.fullmatch(lines[first]):
        return None, text, 1
    for number in range(first + 1, len(lines)):
        if _FENCE.fullmatch(lines[number]):
            return "\n".join(lines[first + 1 : number]), "\n".join(lines[number + 1 :]).strip(), first + 2
    return None, text, first + 1


def read_yaml(text: str, first_line: int = 1, *, plain: bool = False) -> Fields:
    """A YAML mapping. With `plain`, all scalars are strings, as the front matter of a skill has them.

    Never raises: what can't be read is a problem.
    """
    found = Fields()
    if len(text) > MAX_YAML:
        found.problems.append((first_line, f"the YAML has {len(text):,} characters; at most {MAX_YAML:,} are read"))
        found.is_broken = True
        return found
    try:
        _read_into(found, text, first_line, plain)
    except yaml.YAMLError as error:
        problem = (_line(error, first_line), f"this is not YAML: {getattr(error, 'problem', None) or error}")
        if (mended := _with_quotes(text)) != text:
            again = Fields()
            try:
                _read_into(again, mended, first_line, plain)
            except (yaml.YAMLError, ValueError):
                pass
            else:
                again.problems.append((problem[0], f"{problem[1]}. It was read as if the value were in quotes"))
                return again
        found.problems.append(problem)
        found.is_broken = True
    except ValueError as error:  # a number or a date that is none
        found.problems.append((first_line, f"a value can't be read: {error}"))
        found.is_broken = True
    return found


def _read_into(found: Fields, text: str, first_line: int, plain: bool) -> None:
    loader = _PlainLoader(text) if plain else _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return
        if not isinstance(node, yaml.MappingNode):
            raise yaml.MarkedYAMLError(problem="expected `key: value` lines", problem_mark=node.start_mark)
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + first_line
            if key in found.values:
                found.problems.append((line, f"{key!r} is there twice; the first one counts"))
                continue
            found.values[key] = loader.construct_object(value_node, deep=True)
            found.lines[key] = line
    finally:
        loader.dispose()


def _line(error: Any, first_line: int) -> int:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return first_line + (mark.line if mark is not None else 0)


def _with_quotes(text: str) -> str:
    """The text, with quotes around the values of its lines that have an unquoted colon."""
    lines = []
    for line in text.split("\n"):
        match = _UNQUOTED.fullmatch(line)
        is_ambiguous = match is not None and (": " in match[2] or match[2].endswith(":"))
        lines.append(f"{match[1]}: {json.dumps(match[2])}" if match and is_ambiguous else line)
    return "\n".join(lines)


class _Bounded:
    """Refuses aliases, by which a few lines become gigabytes, and deep nesting."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[attr-defined]  # of the loader that this is mixed into
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(problem="anchors and aliases are not read", problem_mark=event.start_mark)
        if self._depth == MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"more than {MAX_DEPTH} levels", problem_mark=event.start_mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)  # type: ignore[misc]  # of the same
        finally:
            self._depth -= 1


class _Loader(_Bounded, yaml.SafeLoader):
    pass


class _PlainLoader(_Bounded, yaml.BaseLoader):
    pass
