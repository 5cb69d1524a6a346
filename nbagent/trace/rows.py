"""Table rows as dicts, and their JSON."""

from __future__ import annotations

from typing import Any

from nbagent.core.json_text import json_text

Row = dict[str, Any]


def as_json(value: Any) -> str:
    """Return a value as JSON text. Infinite numbers become "Infinity" or "-Infinity". Other values that JSON can't
    represent are converted with `str()`.

    >>> as_json({"x": float("inf")})
    '{"x":"Infinity"}'
    """
    # imported with the first row, to keep `%load_ext` fast; three times as fast as `json`
    import pydantic_core

    try:
        return pydantic_core.to_json(value, fallback=str, inf_nan_mode="strings", bytes_mode="base64").decode()
    except ValueError:  # a lone surrogate
        return json_text(value)
