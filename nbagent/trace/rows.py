"""Rows of a trace's tables as dicts, and JSON for them."""

from __future__ import annotations

from typing import Any

from nbagent.core.json_text import json_text

Row = dict[str, Any]


def as_json(value: Any) -> str:
    """JSON text; a value that JSON does not know becomes its `str()`, and a number that it lacks its name in a string.

    >>> as_json({"x": float("inf")})
    '{"x":"Infinity"}'
    """
    # loaded with the first row, so that `%load_ext` stays fast; it takes a third of the time of `json`
    import pydantic_core

    try:
        return pydantic_core.to_json(value, fallback=str, inf_nan_mode="strings", bytes_mode="base64").decode()
    except ValueError:  # a lone surrogate
        return json_text(value)
