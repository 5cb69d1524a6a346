"""Reads JSON Schemas: an example value, and the types that a schema accepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def example(schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> Any:
    """An example of the schema's shape, with the schema's defaults or else `<string>`, `<integer>`, `<string: date>`, …

    >>> schema = {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"default": 20}}}
    >>> example(schema, schema)
    {'query': '<string>', 'limit': 20}
    """
    schema = _resolved(schema, root)
    if schema.get("default") is not None:  # a default of None would hide the type
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return f"<one of: {', '.join(map(str, schema['enum']))}>"
    for branch in schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf") or ():
        return example(branch, root, depth)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        properties = dict(schema.get("properties", {})) if depth < 4 else {}
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and others and not properties:
            properties = {"<name>": others}
        return {name: example(inner, root, depth + 1) for name, inner in properties.items()}
    if kind == "array":
        items = schema.get("prefixItems") or [schema.get("items") or {}]
        return [example(item, root, depth + 1) for item in items] if depth < 4 else []
    form = schema.get("format")
    return f"<{kind or 'any value'}{f': {form}' if form else ''}>"


def _resolved(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """The schema, or the definition that it refers to. `{}` for `true` and for a missing definition."""
    seen = 0
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and seen < 20:
        target: Any = root
        for step in schema["$ref"].removeprefix("#").strip("/").split("/"):
            target = target.get(step, {}) if isinstance(target, dict) else {}
        schema, seen = target, seen + 1
    return schema if isinstance(schema, dict) else {}


def kinds(schema: Any, root: dict[str, Any]) -> list[str]:
    """The distinct JSON types that a schema accepts, or `any` if it names none.

    >>> kinds({"anyOf": [{"type": "integer"}, {"type": ["integer", "null"]}]}, {}), kinds(True, {})
    (['integer', 'null'], ['any'])
    """
    types = [branch.get("type", "any") for branch in _branches(_resolved(schema, root), root)]
    return list(dict.fromkeys(kind for item in types for kind in (item if isinstance(item, list) else [str(item)])))


def _branches(schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """The alternatives of a schema, including nested ones, or the schema itself."""
    branches = schema.get("anyOf") or schema.get("oneOf")
    if not branches or depth > 8:
        yield schema
        return
    for branch in branches:
        yield from _branches(_resolved(branch, root), root, depth + 1)
