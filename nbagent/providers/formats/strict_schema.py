"""Converts a JSON Schema to the strict form that providers can enforce for a whole answer.

Every object lists its properties and allows no others.
Rules: https://developers.openai.com/api/docs/guides/structured-outputs,
https://platform.claude.com/docs/en/build-with-claude/structured-outputs
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def strict_schema(
    schema: dict[str, Any], *, all_required: bool, without: Collection[str] = ()
) -> dict[str, Any] | None:
    """The schema with every object closed to further properties; None if an object is open on purpose, as for
    `dict[str, int]`.

    With `all_required`, every property is required. `without` names keywords to omit; the caller must check
    them itself.

    >>> strict_schema({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}, all_required=True)
    {'type': 'object', 'properties': {'n': {'type': 'integer', 'minimum': 1}}, 'additionalProperties': False, \
'required': ['n']}
    """
    try:
        closed: dict[str, Any] = _closed(schema, all_required, without)
    except _OpenObjectError:
        return None
    return closed


class _OpenObjectError(Exception):
    """The schema has an object that accepts any property."""


def _closed(node: Any, all_required: bool, without: Collection[str]) -> Any:
    if isinstance(node, list):
        return [_closed(item, all_required, without) for item in node]
    if not isinstance(node, dict):
        return node
    named = ("properties", "$defs")  # their keys are names, not keywords
    result = {
        key: {name: _closed(item, all_required, without) for name, item in value.items()}
        if key in named
        else value
        if key in ("const", "enum", "default")
        else _closed(value, all_required, without)
        for key, value in node.items()
        if key not in without
    }
    if result.get("type") == "object":
        if not result.get("properties") or node.get("additionalProperties"):
            raise _OpenObjectError
        result["additionalProperties"] = False
        if all_required:
            result["required"] = list(result["properties"])
    return result
