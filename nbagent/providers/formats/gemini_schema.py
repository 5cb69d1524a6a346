"""JSON Schema in the dialect that Gemini takes for the parameters of a function.

One unknown keyword makes Gemini refuse the whole request. What the dialect can't express goes into the description if
the model needs it, and is left out otherwise: arguments are validated against the original schema anyway.
Format: https://ai.google.dev/api/caching#Schema
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

#: The keywords that each type may have, besides a description.
_KEPT: dict[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
#: Gemini refuses all other formats.
_FORMATS = {"date-time", "float", "double", "int32", "int64"}
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
_ANY: tuple[dict[str, Any], ...] = (
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "object"},
)

#: A schema, and the references through which it was reached.
_Option = tuple[dict[str, Any], tuple[str, ...]]


def gemini_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The nearest schema that Gemini takes. The original is not changed.

    >>> gemini_schema({"type": ["integer", "null"], "exclusiveMinimum": 0, "title": "N", "default": None})
    {'type': 'integer', 'minimum': 1, 'nullable': True}
    """
    return _GeminiDialect(schema).convert(schema, ())


class _GeminiDialect:
    """Converts one document; its `$ref`s point into it."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def convert(self, schema: Any, inside: tuple[str, ...]) -> dict[str, Any]:
        """One schema. `inside` names the references through which it was reached: recursion ends at the second."""
        options, nullable = self._options(schema, inside)
        found: list[dict[str, Any]] = []
        for option, path in options:
            found += [item for item in self._single(option, path) if item not in found]
        if nullable:
            found = [item | {"nullable": True} for item in found or [{"type": "string"}]]
        return found[0] if len(found) == 1 else {"anyOf": found}  # which must stand alone

    def _options(self, schema: Any, inside: tuple[str, ...]) -> tuple[list[_Option], bool]:
        """The alternatives of a schema, each of at most one type, and whether null is one of them."""
        schema, inside = self._expand(schema, inside)
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        variants = schema.get("anyOf") or schema.get("oneOf")
        kinds = schema.get("type")
        if isinstance(variants, list):
            expanded = [self._expand(variant, inside) for variant in variants]
            alternatives = [(rest | variant, path) for variant, path in expanded]
        elif isinstance(kinds, list):
            alternatives = [(rest | {"type": kind}, inside) for kind in kinds]
        else:
            return ([], True) if _is_null(schema) else ([(schema, inside)], None in (schema.get("enum") or ()))
        found: list[_Option] = []
        nullable = False
        for alternative, path in alternatives:
            options, null = self._options(alternative, path)
            found, nullable = found + options, nullable or null
        return found, nullable

    def _expand(self, schema: Any, inside: tuple[str, ...]) -> _Option:
        """The schema with `$ref` and `allOf` resolved."""
        schema = dict(schema) if isinstance(schema, Mapping) else {}
        while isinstance(ref := schema.pop("$ref", None), str):
            if ref in inside:
                return {"type": "object", "description": f"Again {ref.rpartition('/')[2]}.", **schema}, inside
            inside = (*inside, ref)
            schema = {**self._target(ref), **schema}
        for part in schema.pop("allOf", None) or ():
            other, inside = self._expand(part, inside)
            properties = {**(schema.get("properties") or {}), **(other.get("properties") or {})}
            required = [*(schema.get("required") or ()), *(other.get("required") or ())]
            schema = {**other, **schema}
            schema |= {"properties": properties} if properties else {}
            schema |= {"required": required} if required else {}
        return schema, inside

    def _target(self, ref: str) -> Mapping[str, Any]:
        node: Any = self._root
        for step in ref.removeprefix("#").split("/")[1:]:
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
        return node if isinstance(node, Mapping) else {}

    def _single(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> list[dict[str, Any]]:
        """The schema of an alternative; one for every type if it has none."""
        kind, values = _kind(schema), _values(schema)
        described = {"description": schema["description"]} if schema.get("description") else {}
        if kind is None:
            return [item | described for item in _ANY]
        out: dict[str, Any] = {"type": kind} | {key: schema[key] for key in _KEPT[kind] if schema.get(key) is not None}
        notes = []
        if kind == "string" and values and all(isinstance(value, str) for value in values):
            out["enum"] = [value for value in values if value]  # an empty one is refused
        elif values:
            notes.append(f"one of: {', '.join(map(json.dumps, values))}")
        if (wanted := schema.get("format")) in _FORMATS:
            out["format"] = wanted
        elif wanted:
            notes.append(f"format: {wanted}")
        if kind in ("integer", "number"):
            out |= _closed(schema, kind)
        elif kind == "array":
            out["items"] = self._items(schema, inside)
        elif kind == "object":
            out |= self._properties(schema, inside)
            notes += _any_keys(schema)
        return [out | _description(str(schema.get("description") or ""), notes)]

    def _items(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        """The schema of a list's items, which Gemini requires for every list. Tuples become lists."""
        if isinstance(places := schema.get("prefixItems"), list) and places:
            return self.convert({"anyOf": places}, inside)
        return self.convert(schema.get("items"), inside) if schema.get("items") else {"type": "string"}

    def _properties(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        """The fields of an object. Gemini refuses an empty list of them, and required names that are not among them."""
        properties = {name: self.convert(sub, inside) for name, sub in (schema.get("properties") or {}).items()}
        required = [name for name in schema.get("required") or () if name in properties]
        return ({"properties": properties} if properties else {}) | ({"required": required} if required else {})


def _is_null(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "null" or ("const" in schema and schema["const"] is None)


def _values(schema: Mapping[str, Any]) -> list[Any]:
    """The values that a schema lists, without null, which is an alternative of its own."""
    values = [schema["const"]] if "const" in schema else schema.get("enum") or []
    return [value for value in values if value is not None]


def _kind(schema: Mapping[str, Any]) -> str | None:
    """The type of a schema; if it names none, the type that its keywords tell."""
    kind = str(schema.get("type", "")).lower()
    if kind in _KEPT:
        return kind
    if "properties" in schema or isinstance(schema.get("additionalProperties"), Mapping):
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    kinds = {_TYPE_NAMES.get(type(value)) for value in _values(schema)}
    return kinds.pop() if len(kinds) == 1 else None


def _closed(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Exclusive bounds as inclusive ones."""
    found: dict[str, Any] = {}
    for name, closed, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound = schema.get(name)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            found[closed] = bound + step if kind == "integer" else bound
    return found


def _any_keys(schema: Mapping[str, Any]) -> list[str]:
    """A note for an object that takes any keys."""
    values = schema.get("additionalProperties")
    if not isinstance(values, Mapping) or schema.get("properties"):
        return []
    kind = _kind(values)
    return [f"an object with any keys{f', each value: {kind}' if kind else ''}"]


def _description(text: str, notes: Sequence[str]) -> dict[str, str]:
    note = f"({'; '.join(notes)})" if notes else ""
    whole = " ".join(filter(None, (text, note)))
    return {"description": whole} if whole else {}
