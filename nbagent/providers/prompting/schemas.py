"""Converts a tool's JSON Schema for `grounding` and the small model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nbagent.providers.formats.tool_schema import plain_schema

Schema = Mapping[str, Any]
Tool = Mapping[str, Any]
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict"}


def parameter_schemas(tool: Tool) -> dict[str, dict[str, Any]]:
    """The schemas of a tool's parameters by name, with references resolved."""
    properties = plain_schema(tool.get("parameters") or {}).get("properties") or {}
    schemas = {name: _without_null(schema) for name, schema in properties.items()}
    for schema in schemas.values():
        if "items" in schema:
            schema["items"] = _without_null(schema["items"])
    return schemas


def _without_null(schema: Schema) -> dict[str, Any]:
    """A schema with "this or null" reduced to "this"; `{}` for `true` or an array's list of schemas."""
    schema = dict(schema) if isinstance(schema, Mapping) else {}
    options = [option for option in schema.get("anyOf") or schema.get("oneOf") or () if option.get("type") != "null"]
    if len(options) == 1:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        return _without_null({**rest, **options[0]})
    if isinstance(schema.get("type"), list):
        types = [one for one in schema["type"] if one != "null"]
        schema["type"] = types[0] if len(types) == 1 else types
    if "const" in schema:
        schema["enum"] = [schema["const"]]
    return schema


def signature(tool: Tool, names: Sequence[str]) -> str:
    """A tool as a Python `def` with these parameters and a docstring."""
    needed, schemas = (tool.get("parameters") or {}).get("required") or (), parameter_schemas(tool)
    parts = [f"{name}: {_annotation(schemas[name])}" + ("" if name in needed else " = None") for name in names]
    lines = [str(tool.get("description") or "").strip().split("\n")[0]]
    for name in names:
        about = re.split(r"\. |\(", str(schemas[name].get("description") or ""))[0].strip()
        lines += [f"    {name}: {about[:80]}"] if about else []
    return f'def {tool["name"]}({", ".join(parts)}):\n    """{chr(10).join(lines)}"""\n'


def _annotation(schema: Schema) -> str:
    kind = schema.get("type")
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    if kind == "array":
        return f"list[{_annotation(schema.get('items') or {'type': 'string'})}]"
    return _TYPES.get(kind, "str") if isinstance(kind, str) else "str"
