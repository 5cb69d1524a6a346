"""Works on JSON Schemas as plain data: tidies them for vendors, shows an example, repairs what a model sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

#: Keywords whose value is a mapping from names to schemas.
_MAPS = ("properties", "$defs", "patternProperties")
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


# -- tidy -------------------------------------------------------------------------------------------------------------


def tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without titles and with shared definitions inlined, which all vendors understand.

    `$defs` stays only for types that contain themselves.
    """
    definitions = schema.get("$defs", {})
    recursive = {name for name in definitions if name in _reachable(definitions[name], definitions)}
    body = {key: value for key, value in schema.items() if key != "$defs"}
    tidied: dict[str, Any] = {"type": "object", "properties": {}} | _tidied(body, definitions, recursive)
    if kept := recursive & _reachable(body, definitions):
        tidied["$defs"] = {name: _tidied(definitions[name], definitions, recursive) for name in sorted(kept)}
    return tidied


def _tidied(node: Any, definitions: dict[str, Any], recursive: set[str]) -> Any:
    if isinstance(node, list):
        return [_tidied(item, definitions, recursive) for item in node]
    if not isinstance(node, dict):
        return node
    name = _reference(node)
    if name in definitions and name not in recursive:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _tidied({**definitions[name], **beside}, definitions, recursive)
    tidied = {}
    for key, value in node.items():
        if key in _MAPS and isinstance(value, dict):
            tidied[key] = {inner: _tidied(item, definitions, recursive) for inner, item in value.items()}
        elif key in ("default", "const", "enum", "examples"):
            tidied[key] = value
        elif key not in ("title", "discriminator"):
            tidied[key] = _tidied(value, definitions, recursive)
    return tidied


def _reference(node: dict[str, Any]) -> str:
    """The name of the definition that `$ref` refers to; "" if there is none."""
    reference = node.get("$ref")
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if name := _reference(node):
            yield name
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from _references(item)


def _reachable(node: Any, definitions: dict[str, Any]) -> set[str]:
    """The definitions that a schema uses, directly or through others."""
    found: set[str] = set()
    waiting = list(_references(node))
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in found:
            found.add(name)
            waiting.extend(_references(definitions[name]))
    return found


# -- example ----------------------------------------------------------------------------------------------------------


def example(schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> Any:
    """A value of the schema's shape: its defaults, otherwise `<string>`, `<integer>`, `<string: date>`, …

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
    """The schema, or the definition that it refers to; `{}` for `true` and for a missing definition."""
    seen = 0
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and seen < 20:
        target: Any = root
        for step in schema["$ref"].removeprefix("#").strip("/").split("/"):
            target = target.get(step, {}) if isinstance(target, dict) else {}
        schema, seen = target, seen + 1
    return schema if isinstance(schema, dict) else {}


# -- repair -----------------------------------------------------------------------------------------------------------


def repair(value: Any, schema: Any, root: dict[str, Any]) -> Any:
    """The value with a model's lossless slips corrected; the same object if there is nothing to correct.

    A JSON string is unwrapped if the schema expects an object or an array and not a string. Numbers and strings are
    converted into each other if the schema accepts only the other. Everything else is left to validation.
    """
    schema = _resolved(schema, root)
    wanted = set(_types(schema, root))
    if isinstance(value, str) and not wanted & {"string", "any"}:
        value = _from_string(value, wanted)
    elif wanted - {"null"} == {"string"} and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    for branch in _branches(schema, root):
        if isinstance(value, dict):
            changed = {key: repair(item, _property(branch, key), root) for key, item in value.items()}
            value = changed if any(changed[key] is not value[key] for key in value) else value
        elif isinstance(value, list):
            items = [repair(item, branch.get("items"), root) for item in value]
            value = items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _types(schema: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    """The JSON types that a schema accepts; `any` if it names none."""
    for branch in _branches(schema, root):
        kind = branch.get("type")
        if isinstance(kind, str):
            yield kind
        elif isinstance(kind, list):
            yield from kind
        else:
            yield "any"


def _branches(schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """The alternatives of a schema, nested ones included; the schema itself if it has none."""
    branches = schema.get("anyOf") or schema.get("oneOf")
    if not branches or depth > 8:
        yield schema
        return
    for branch in branches:
        yield from _branches(_resolved(branch, root), root, depth + 1)


def _property(schema: dict[str, Any], name: str) -> Any:
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return properties[name]
    return schema.get("additionalProperties")


def _from_string(text: str, wanted: set[str]) -> Any:
    stripped = text.strip()
    if wanted & {"object", "array"} and stripped[:1] in ("{", "["):
        try:
            parsed = json.loads(stripped)
        except (ValueError, RecursionError):
            return text
        return parsed if ("object" if isinstance(parsed, dict) else "array") in wanted else text
    if wanted & {"integer", "number"} and len(stripped) < 100:
        if _INTEGER.fullmatch(stripped):
            return int(stripped)
        if "number" in wanted and _NUMBER.fullmatch(stripped):
            return float(stripped)
    return text
