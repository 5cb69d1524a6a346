"""Reads the YAML of skills, which others wrote: leniently, and within limits."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

MAX_YAML = 64_000
_FRONT_MATTER = re.compile(r"\s*^---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
#: A value with a colon that YAML takes for another key: `description: Use it when: …`.
_UNQUOTED = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([^\s'\"|>\[{&*!#].*?:(?: .*?)?)[ \t]*$", re.MULTILINE)


class BrokenSkillError(Exception):
    """A skill can't be used: its file, or a `line` of its YAML, says why not."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def split_front_matter(text: str) -> tuple[str, str, int] | None:
    """The YAML between the first two lines `---`, what follows, and the line that the YAML begins in; else None.

    >>> split_front_matter("---\\nname: tea\\n---\\n# Tea")
    ('name: tea', '# Tea', 2)
    """
    found = _FRONT_MATTER.match(text)
    return found and (found[1].rstrip(), text[found.end() :].strip(), text.count("\n", 0, found.start(1)) + 1)


def read_mapping(text: str, first_line: int = 1, *, plain: bool = False) -> dict[str, Any]:
    """A YAML mapping that begins in this line of a file. With `plain`, all scalars are texts."""
    if len(text) > MAX_YAML:
        raise BrokenSkillError(f"the YAML has {len(text):,} characters; at most {MAX_YAML:,} are read", first_line)
    text = _UNQUOTED.sub(lambda line: f"{line[1]}: {json.dumps(line[2])}", text)
    try:
        # by which a few lines become gigabytes
        if alias := next((each for each in yaml.scan(text) if isinstance(each, yaml.AliasToken)), None):
            raise BrokenSkillError("aliases are not read", first_line + alias.start_mark.line)
        values = yaml.load(text, yaml.BaseLoader if plain else yaml.SafeLoader)  # noqa: S506  both are safe
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = first_line + (mark.line if mark is not None else 0)
        raise BrokenSkillError(f"this is not YAML: {getattr(error, 'problem', None) or error}", line) from None
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:  # such as `!!bool maybe`
        raise BrokenSkillError(f"a value can't be read: {error}", first_line) from None
    if not isinstance(values or {}, dict):
        raise BrokenSkillError("expected `key: value` lines", first_line)
    return values or {}
