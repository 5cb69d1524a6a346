"""The package `jsonschema`, imported quickly: `from nbagent.core.json_schema import jsonschema`.

JupyterLab brings the package rfc3987-syntax. Where it is installed, `import jsonschema` makes parsers for the format
"iri", which takes seconds. Here they are made when a value of that format is checked.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

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
