"""Extracts the JSON value from a model's answer."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from nbagent.text import shortened

_CODE_BLOCK = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
#: A bracket that can start JSON. The next characters are checked first, because a failed attempt is expensive.
_OPENING = re.compile(r"""\{(?=\s*["}])|\[(?=\s*[\[\]{"\d\-tfnNI])""")
_BETWEEN_LINES = re.compile(r"(?:```\w*|[\s,])*")


def json_in(text: str) -> Any:
    """Return the JSON value in a model's answer, without the Markdown code block or prose around it.

    Consecutive objects (JSON Lines) become a list. Raises ValueError if there is no value, if a value is incomplete, or
    if several values are possible. Part of a value is never returned as the whole value.

    >>> json_in('Here you are:\\n```json\\n[{"city": "Paris"}]\\n```')
    [{'city': 'Paris'}]
    """
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    blocks: list[Any] = []
    for block in _CODE_BLOCK.findall(text):
        with suppress(ValueError, RecursionError):
            value = json.loads(block)
            blocks += [] if value in blocks else [value]
    found = [] if blocks else _scan(text)
    values = blocks or [value for _, _, value in found]
    if not values:
        shown = shortened(text.strip(), 200)
        raise ValueError(f"found no complete JSON value in {shown!r}" if shown else "the answer is empty")
    with_objects = [value for value in values if _holds_object(value)]
    if len(with_objects) < 2:
        return with_objects[0] if with_objects else max(values, key=lambda value: len(json.dumps(value)))
    ends = [0, *(end for _, end, _ in found)]
    rest = "".join(text[end:start] for end, start in zip(ends, [*(start for start, _, _ in found), None], strict=True))
    if blocks or not _BETWEEN_LINES.fullmatch(rest):
        raise ValueError(f"expected one JSON value, found {len(with_objects)}")
    return values


def _scan(text: str) -> list[tuple[int, int, Any]]:
    """`(start, end, value)` for each JSON object or array in text. Raises ValueError if one is broken."""
    found: list[tuple[int, int, Any]] = []
    longest, position = 0, 0
    while opening := _OPENING.search(text, position):
        start, position = opening.span()
        try:
            value, position = json.JSONDecoder().raw_decode(text, start)
        except json.JSONDecodeError as error:
            begun = text[position : error.pos].strip()
            if len(begun) > longest:  # its inner values are only a part of the requested value
                raise ValueError(f"the JSON breaks off after {begun[-40:]!r}: {error.msg}") from None
        except RecursionError:  # nested too deeply, like the rest
            break
        else:
            found.append((start, position, value))
            longest = max(longest, position - start)
    return found


def _holds_object(value: Any) -> bool:
    """Whether the value contains an object, unlike the [1] of a footnote."""
    return bool(value) and (isinstance(value, dict) or (isinstance(value, list) and any(map(_holds_object, value))))
