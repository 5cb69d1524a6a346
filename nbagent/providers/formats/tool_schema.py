"""Converts JSON Schema to the dialect that Claude and OpenAI accept for a function's parameters.

They refuse a whole request if one schema has alternatives at the top level. Claude accepts only draft 2020-12, and
OpenAI refuses lists without an item type. Arguments are still validated against the original schema.

https://platform.claude.com/docs/en/agents-and-tools/tool-use,
https://developers.openai.com/api/docs/guides/structured-outputs
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from nbagent.providers.tool_names import (
    SCHEMAS,
    SCHEMAS_BY_NAME,
    described,
    fitting_name,
    schema_text,
    with_fitting_arguments,
)

_TYPES = {"string", "integer", "number", "boolean", "array", "object", "null"}
_ALTERNATIVES = ("anyOf", "oneOf")
#: Keywords with a list of schemas, and keywords with one schema.
_LISTS = ("anyOf", "allOf", "prefixItems")
_INNER = (
    *str.split("items additionalProperties propertyNames contains not if then else"),
    *str.split("unevaluatedItems unevaluatedProperties"),
)
#: Keywords about the schema's draft or display.
_ABOUT = ("$schema", "$id", "$comment", "discriminator", "nullable")
#: How many schemas of a document are inlined. In a hostile document, each schema may refer to the next one twice.
_MAX_INLINED = 2_000
#: Keywords not allowed at the top level with alternatives.
_NOT_ON_TOP = ("not", "enum", "const", "if", "then", "else")


def tool_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The closest schema that both Claude and OpenAI accept. The original is not changed.

    >>> either = {"anyOf": [{"required": ["city"]}, {"required": ["zip"]}]}
    >>> tool_schema({"properties": {"city": {"type": "string"}, "zip": {"type": ["array", "null"]}}, **either})
    {'type': 'object', 'properties': {'city': {'type': 'string'}, 'zip': {'type': ['array', 'null'], 'items': {}}}, \
'description': 'Needs city, or zip.'}
    """
    fitting = with_fitting_arguments(schema)
    return _Dialect(fitting).top(fitting)


def declared(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's definition for the model: `name`, `description` and `parameters`.

    >>> declared({"name": "now", "description": "The time."})
    {'name': 'now', 'description': 'The time.', 'parameters': {'type': 'object', 'properties': {}}}
    """
    name = fitting_name(tool["name"])
    text = described(tool.get("description"), tool["name"], name)
    parameters = _tool_schema(schema_text(tool))
    return {"name": name, **({"description": text} if text else {}), "parameters": parameters}


@lru_cache(maxsize=SCHEMAS)
def _tool_schema(text: str) -> dict[str, Any]:
    return tool_schema(json.loads(text))


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in draft 2020-12, with `anyOf` instead of `oneOf`, and without references.

    References to recursive types are kept. Once expanding references would make the document too large, the remaining
    ones are kept as well.

    >>> plain_schema({"oneOf": [{"$ref": "#/$defs/Id", "description": "Which."}], "$defs": {"Id": {"type": "string"}}})
    {'anyOf': [{'type': 'string', 'description': 'Which.'}]}
    """
    dialect = _Dialect(schema)
    return dialect.with_definitions(dialect.convert(schema))


class _Dialect:
    """Converts one document; its `$ref`s point into it."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        #: The references that are kept.
        self._kept: list[str] = []
        self._left = _MAX_INLINED

    def top(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The schema of a function's parameters: an object, with the properties of all its alternatives."""
        merged = self._merged(schema, ())
        rest = {key: value for key, value in merged.items() if key not in _NOT_ON_TOP}
        properties = rest.get("properties")
        rest |= {"type": "object", "properties": properties if isinstance(properties, Mapping) else {}}
        return self.with_definitions(self.convert({"type": "object", **rest}))

    def with_definitions(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with the definitions that it still refers to."""
        schema = {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}
        for ref in self._kept:  # grows in the loop, since definitions may refer to others
            _, place, name = ref.split("/")
            schema.setdefault(place, {})[name] = {}
            schema[place][name] = self.convert(self._target(ref))
        return schema

    def _merged(self, schema: Any, inside: tuple[str, ...]) -> dict[str, Any]:
        """The schema, its alternatives and the parts of its `allOf`, as one object."""
        schema, inside = self._expanded(schema, inside)
        found = {key: value for key, value in schema.items() if key not in ("allOf", *_ALTERNATIVES)}
        for part in _schemas(schema.get("allOf")):
            found = both(found, self._merged(part, inside))
        for keyword in _ALTERNATIVES:
            variants = [self._merged(part, inside) for part in _schemas(schema.get(keyword))]
            if variants := [variant for variant in variants if variant.get("type", "object") == "object"]:
                found = both(found, _any(variants))
        return found

    def _expanded(self, schema: Any, inside: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The schema with its reference resolved, and the references through which it was reached."""
        self._left -= 1
        schema = dict(schema) if isinstance(schema, Mapping) else {}
        while isinstance(ref := schema.pop("$ref", None), str) and ref not in inside and self._left > 0:
            inside = (*inside, ref)
            schema = {**self._target(ref), **schema}
        return schema, inside

    def _target(self, ref: str) -> Mapping[str, Any]:
        node: Any = self._root if ref.startswith("#") else None
        with suppress(LookupError, TypeError, ValueError):
            for step in ref.split("/")[1:]:
                node = node[int(step) if isinstance(node, list) else step.replace("~1", "/").replace("~0", "~")]
            return node if isinstance(node, Mapping) else {}
        return {}

    def convert(self, schema: Any, inside: tuple[str, ...] = ()) -> dict[str, Any]:
        """One schema, reached through the references `inside`."""
        if schema is False:
            return {"not": {}}
        ref = schema.get("$ref") if isinstance(schema, Mapping) else None
        if isinstance(ref, str) and (self._left <= 0 or self._recurs(ref)):
            return self._again(ref, schema)
        expanded, inside = self._expanded(schema, inside)
        found: dict[str, Any] = {}
        for key, value in _in_2020_12(expanded).items():
            if key in _ABOUT:
                continue
            if key in SCHEMAS_BY_NAME:
                found[key] = {name: self.convert(item, inside) for name, item in value.items()}
            elif key in _LISTS and isinstance(value, list):
                found[key] = [self.convert(item, inside) for item in value]
            elif key in _INNER and isinstance(value, Mapping):
                found[key] = self.convert(value, inside)
            else:
                found[key] = value
        if "array" in _kinds(found) or "prefixItems" in found:
            places = found.get("prefixItems", [])
            found.setdefault("items", _one_of(places))
            if not isinstance(found["items"], Mapping):  # True or False
                found["items"] = _one_of(places)
        return {key: found[key] for key in (*expanded, *found) if key in found}  # in the given order

    def _recurs(self, ref: str) -> bool:
        """Whether a type is recursive."""
        waiting, seen = [self._target(ref)], set[str]()
        while waiting:
            node = waiting.pop()
            if isinstance(inner := node.get("$ref"), str) and inner not in seen:
                seen.add(inner)
                waiting.append(self._target(inner))
            for value in node.values():
                waiting += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
        return ref in seen

    def _again(self, ref: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A reference that stays, which can't have other keywords next to it."""
        if not ref.startswith(("#/$defs/", "#/definitions/")) or ref.count("/") != 2:
            return {"type": "object", "description": f"Again {ref.rpartition('/')[2] or 'the whole'}."}
        if ref not in self._kept:
            self._kept.append(ref)
        description = schema.get("description")
        return {"anyOf": [{"$ref": ref}], "description": description} if description else {"$ref": ref}


def _in_2020_12(schema: dict[str, Any]) -> dict[str, Any]:
    """One schema, converted from older drafts' forms, and without invalid values."""
    schema = dict(schema)
    for bound, word in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(word), bool) and schema.pop(word) and bound in schema:  # draft 4
            schema[word] = schema.pop(bound)
    if isinstance(schema.get("items"), list):  # draft 7: a tuple
        schema["prefixItems"] = schema.pop("items")
        schema |= {"items": schema.pop("additionalItems")} if "additionalItems" in schema else {}
    if isinstance(needs := schema.pop("dependencies", None), Mapping):
        schema["dependentRequired"] = {name: value for name, value in needs.items() if isinstance(value, list)}
    if isinstance(schema.get("id"), str):
        del schema["id"]
    kinds = [kind for kind in _kinds(schema) if kind in _TYPES]
    schema.pop("type", None)
    schema |= {"type": kinds if len(kinds) > 1 else kinds[0]} if kinds else {}
    for word in SCHEMAS_BY_NAME:
        if word in schema and not isinstance(schema[word], Mapping):
            del schema[word]
    properties = schema.get("properties", {})
    names = _names(schema)
    schema.pop("required", None)
    names += [name for name, item in properties.items() if isinstance(item, Mapping) and item.get("required") is True]
    schema |= {"required": list(dict.fromkeys(names))} if names else {}
    if alternatives := _schemas(schema.pop("oneOf", ())):
        word = "allOf" if "anyOf" in schema else "anyOf"
        schema[word] = [*schema.get("allOf", ()), {"anyOf": alternatives}] if word == "allOf" else alternatives
    return {key: value for key, value in schema.items() if key not in ("enum", "anyOf", "allOf") or value}


def _kinds(schema: Mapping[str, Any]) -> Sequence[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def _names(schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _schemas(value: Any) -> list[Any]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def both(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The intersection of two object schemas. The first schema's keywords take precedence."""
    found = {**one, **{key: value for key, value in other.items() if key not in one}}
    if "properties" in one and "properties" in other:
        found["properties"] = {**other["properties"], **one["properties"]}
        found.pop("additionalProperties", None)  # each closed only its own
    if required := [*_names(one), *_names(other)]:
        found["required"] = list(dict.fromkeys(required))
    descriptions = [text for text in (one.get("description"), other.get("description")) if text]
    return found | ({"description": " ".join(descriptions)} if descriptions else {})


def _any(variants: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The union of several object schemas. The description lists what each of them requires."""
    properties: dict[str, list[Any]] = {}
    for variant in variants:
        for name, item in (variant.get("properties") or {}).items():
            properties.setdefault(name, []).append(item)
    needed = [_names(variant) for variant in variants]
    common = [name for name in needed[0] if all(name in names for names in needed)]
    groups = [", ".join(name for name in names if name not in common) for names in needed]
    found: dict[str, Any] = {"properties": {name: _one_of(items) for name, items in properties.items()}}
    found |= {"required": common} if common else {}
    return found | ({"description": f"Needs {', or '.join(dict.fromkeys(groups))}."} if all(groups) else {})


def _one_of(schemas: Iterable[Any]) -> dict[str, Any]:
    """The schema of a value that fits any of these."""
    found: list[dict[str, Any]] = []
    for item in schemas:
        schema = dict(item) if isinstance(item, Mapping) else {}  # True or False
        found += [] if schema in found else [schema]
    values = [item.get("enum", [item["const"]] if "const" in item else None) for item in found]
    if len(found) > 1 and all(isinstance(each, list) for each in values):
        rest = {key: value for key, value in found[0].items() if key not in ("const", "enum")}
        return {**rest, "enum": [value for each in values for value in each or ()]}
    return (found or [{}])[0] if len(found) < 2 else {"anyOf": found}
