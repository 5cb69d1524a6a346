"""Checks values against a JSON Schema, and imports the package `jsonschema` quickly.

JupyterLab brings the package rfc3987-syntax. Where it is installed, `import jsonschema` makes parsers for the format
"iri", which takes seconds. Here they are made when a value of that format is checked.
"""

from __future__ import annotations

import json
import sys
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
    vars(stand_in)["is_valid_syntax"] = _is_valid_syntax
    sys.modules[_PARSERS] = stand_in
    try:
        return import_module("jsonschema")
    finally:
        del sys.modules[_PARSERS]


def _is_valid_syntax(term: str, value: str) -> bool:
    return bool(import_module(_PARSERS).is_valid_syntax(term, value))


if TYPE_CHECKING:
    import jsonschema as jsonschema
else:
    jsonschema = _imported()


def validator_of(schema: Any) -> Any:
    """The validator of a schema; it is kept, since to check a schema takes longer than to check values.

    Raises `jsonschema.SchemaError` for what is no schema. The validator raises `referencing.exceptions.Unresolvable` at
    a reference to another schema: none makes this process fetch one.

    >>> validator_of({"type": "integer"}).is_valid(5)
    True
    """
    return _validator(json.dumps(schema))


@lru_cache(256)
def _validator(text: str) -> Any:
    from referencing import Registry

    schema = json.loads(text)
    make: Any = jsonschema.Draft202012Validator
    with suppress(TypeError, ValueError, AttributeError):  # a `$schema` that is no address, of which the check tells
        make = jsonschema.validators.validator_for(schema, default=make)
    make.check_schema(schema)
    return make(schema, registry=Registry())
