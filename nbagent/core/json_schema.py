"""Checks values against a JSON Schema, and imports the package `jsonschema` quickly.

Schemas come from MCP servers and HTTP clients, and Python's `re` may take years for a hostile pattern. Therefore,
patterns are matched by pydantic's engine, which takes linear time. A pattern that this engine can't compile, such as a
look-ahead, is not checked.

If the package rfc3987-syntax is installed (JupyterLab installs it), `import jsonschema` builds parsers for the format
"iri", which takes seconds. This module postpones that until a value of this format is checked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

_PARSERS = "rfc3987_syntax"


def _imported() -> ModuleType:
    if "jsonschema" in sys.modules or _PARSERS in sys.modules or find_spec(_PARSERS) is None:
        return import_module("jsonschema")
    stand_in = ModuleType(_PARSERS)
    vars(stand_in)["is_valid_syntax"] = lambda term, value: import_module(_PARSERS).is_valid_syntax(term, value)
    sys.modules[_PARSERS] = stand_in
    try:
        return import_module("jsonschema")
    finally:
        del sys.modules[_PARSERS]


if TYPE_CHECKING:
    import jsonschema as jsonschema
else:
    jsonschema = _imported()


def validator_of(schema: Any) -> Any:
    """Return a validator for a schema. Validators are cached, because checking a schema takes longer than checking
    values.

    Raises `jsonschema.SchemaError` for an invalid schema. The validator raises `referencing.exceptions.Unresolvable`
    for a reference to another schema, because schemas are never fetched.

    >>> validator_of({"type": "integer"}).is_valid(5)
    True
    """
    return _validator(json.dumps(schema))


@lru_cache(256)
def _validator(text: str) -> Any:
    from referencing import Registry

    schema = json.loads(text)
    make: Any = jsonschema.Draft202012Validator
    with suppress(TypeError, ValueError, AttributeError):  # an invalid `$schema` address, which the check reports
        make = jsonschema.validators.validator_for(schema, default=make)
    make.check_schema(schema)
    return _linear(make)(schema, registry=Registry())


@lru_cache(16)
def _linear(make: Any) -> Any:
    """A validator class whose pattern keywords run in linear time."""
    extra = make.VALIDATORS["additionalProperties"]

    def pattern(validator: Any, wanted: str, text: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(text, "string") and not _matches(wanted, text):
            yield jsonschema.ValidationError(f"{text!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: dict[str, Any], value: Any, schema: Any) -> Iterator[Any]:
        for each, inner in wanted.items() if validator.is_type(value, "object") else ():
            for name in value:
                if _matches(each, name, unknown=False):
                    yield from validator.descend(value[name], inner, path=name, schema_path=each)

    def additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "object") and (patterns := schema.get("patternProperties")):
            value = {name: value[name] for name in value if not any(_matches(each, name) for each in patterns)}
            schema = {key: schema[key] for key in schema if key != "patternProperties"}
        yield from extra(validator, allowed, value, schema)

    own = {"pattern": pattern, "patternProperties": pattern_properties, "additionalProperties": additional_properties}
    extend: Any = jsonschema.validators.extend
    return extend(make, {**own, "unevaluatedProperties": None})


def _matches(pattern: str, text: str, *, unknown: bool = True) -> bool:
    """Whether the pattern occurs in the text; `unknown` if it can't be compiled."""
    compiled = _compiled(pattern)
    return unknown if compiled is None else bool(compiled.isinstance_python(text))


@lru_cache(256)
def _compiled(pattern: str) -> Any:
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
    except SchemaError:
        return None
