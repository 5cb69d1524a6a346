"""Converts JSON Schema to the keywords that Gemini accepts for a function's parameters.

Other keywords are moved to the description. Arguments are validated against the original schema. Format:
`parametersJsonSchema` in https://ai.google.dev/api/caching#FunctionDeclaration, and `responseJsonSchema` in
https://ai.google.dev/api/generate-content#GenerationConfig, which lists the keywords.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from nbagent.providers.formats.tool_schema import both

_ACCEPTED = (*str.split("type enum minimum maximum minItems maxItems"), "additionalProperties")
_INNER = ("items", "additionalProperties")
_DESCRIBED = (
    *str.split("const enum format pattern minLength maxLength exclusiveMinimum exclusiveMaximum multipleOf"),
    *str.split("uniqueItems minProperties maxProperties not"),
)


def gemini_schema(
    schema: Mapping[str, Any], root: Mapping[str, Any] | None = None, inside: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Convert a schema from `tool_schema`. The schema is a part of `root`, and `inside` names the references that led
    to it.

    >>> gemini_schema({"type": "integer", "exclusiveMinimum": 0, "title": "N", "description": "How many"})
    {'type': 'integer', 'description': 'How many (exclusiveMinimum: 0)'}
    """
    root = schema if root is None else root
    if ref := schema.get("$ref"):
        _, place, name = ref.split("/")
        again = {"type": "object", "description": f"Again {name}."}  # a reference to itself may be refused
        return again if ref in inside or len(inside) > 2 else gemini_schema(root[place][name], root, (*inside, ref))
    convert = partial(gemini_schema, root=root, inside=inside)
    for part in schema.get("allOf", ()):
        schema = both(schema, convert(part))
    found: dict[str, Any] = {}
    notes = []
    for word, value in schema.items():
        if word == "properties":
            found |= {word: {name: convert(item) for name, item in value.items()}} if value else {}
        elif word == "required":  # Gemini refuses names that are not properties
            found[word] = [name for name in value if name in schema.get("properties", ())]
        elif word in ("anyOf", "prefixItems"):
            found[word] = [convert(item) for item in value]
        elif word in _INNER and isinstance(value, Mapping):
            found[word] = convert(value)
        elif word in _ACCEPTED and (word != "enum" or all(isinstance(item, str | int | float) for item in value)):
            found[word] = value
        elif word in _DESCRIBED:
            notes.append(f"{word}: {json.dumps(value, ensure_ascii=False)}")
    text = " ".join(filter(None, (schema.get("description"), f"({'; '.join(notes)})" if notes else "")))
    return found | ({"description": text} if text else {})
