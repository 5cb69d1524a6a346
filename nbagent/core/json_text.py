"""Converts any value to JSON text that can always be encoded and stored."""

from __future__ import annotations

import json
from typing import Any

from nbagent.core.messages import well_formed


def _name_of_type(value: Any) -> str:
    return type(value).__name__


_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_name_of_type)
_LENIENT = json.JSONEncoder(ensure_ascii=False, default=_name_of_type)


def json_text(value: Any) -> str:
    """Return the value as JSON text. An object that JSON can't represent is replaced by the name of its type.

    NaN and infinite numbers become null, because other languages can't read them.

    >>> json_text({"city": "Zürich", "when": object(), "t": [1.5, float("nan")]})
    '{"city": "Zürich", "when": "object", "t": [1.5, null]}'
    """
    try:
        text = _STRICT.encode(value)
    except ValueError:
        text = _STRICT.encode(json.loads(_LENIENT.encode(value), parse_constant=lambda _: None))
    return well_formed(text)
