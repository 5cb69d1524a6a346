"""Converts names of tools and arguments to a form that every provider accepts, and back.

Claude refuses argument names that don't match `[a-zA-Z0-9_.-]{1,64}`, even through gateways. No provider accepts every
tool name. One name that is refused would make every prompt fail. A fixed replacement is therefore sent, and the
description contains the original name. Original names are restored in answers before anybody sees them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from nbagent.core.messages import FunctionCall, LLMResponse
from nbagent.core.model_request import Functions

_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_FUNCTION = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
#: Schema keywords with schemas by name, and keywords with values or names.
SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
VALUES = ("const", "enum", "default", "examples", "example")

#: Every request of a conversation offers the same tools, so results for this many schemas are cached.
SCHEMAS = 512

#: `json.dumps` would create an encoder for each schema.
_ENCODER = json.JSONEncoder(default=dict)

#: By tool name, sent or original, since models use both: the original name, and original argument names by sent ones.
Renamed = Mapping[str, tuple[str, Mapping[str, str]]]
#: No name was replaced.
ALL_OWN: Renamed = {}


def fitting_name(name: str | None) -> str:
    """A function's name, which models may have made up, in a form that every provider accepts.

    >>> fitting_name("functions.find"), fitting_name("3天"), fitting_name("1st")
    ('functions_find', 'name_a03ff7da', 'st_e01ddf65')
    """
    name = name or "unknown"
    fitting = _UNFIT.sub("_", name)
    return fitting if name.isascii() and _FUNCTION.fullmatch(fitting) else _replaced(name)


def fitting_argument(name: str) -> str:
    """An argument's name in a form that every provider accepts.

    >>> fitting_argument("first.name"), fitting_argument("$filter")
    ('first.name', 'filter_0c097d40')
    """
    return name if _ARGUMENT.fullmatch(name) else _replaced(name)


def described(description: str | None, name: str, sent: str) -> str:
    """The description of a renamed element, which contains the original name.

    >>> described("Where it is", "城市", fitting_argument("城市"))
    '城市: Where it is'
    """
    text = description or ""
    return text if name == sent or name in text else ": ".join(filter(None, (name, text)))


def with_fitting_arguments(schema: Any, renamed: dict[str, str] | None = None) -> Any:
    """A copy of a JSON Schema whose properties have names that every provider accepts.

    The original names are added to `renamed`, under the names that are sent.
    """
    if isinstance(schema, list):
        return [with_fitting_arguments(item, renamed) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in SCHEMAS_BY_NAME and isinstance(value, Mapping):
            inner = {name: with_fitting_arguments(item, renamed) for name, item in value.items()}
            found[key] = dict(_property(*item, renamed) for item in inner.items()) if key == "properties" else inner
        elif key == "required" and isinstance(value, list):
            found[key] = [fitting_argument(name) if isinstance(name, str) else name for name in value]
        else:
            found[key] = value if key in VALUES else with_fitting_arguments(value, renamed)
    return found


def _property(name: str, schema: Any, renamed: dict[str, str] | None) -> tuple[str, Any]:
    sent = fitting_argument(name)
    if sent == name:
        return name, schema
    if renamed is not None:
        renamed[sent] = name
    schema = dict(schema) if isinstance(schema, Mapping) else {}
    return sent, {**schema, "description": described(schema.get("description"), name, sent)}


def renamed(tools: Functions | None) -> Renamed:
    """The replaced names among these tools and their arguments."""
    found: dict[str, tuple[str, Mapping[str, str]]] = {}
    for tool in tools or ():
        sent = fitting_name(tool["name"])
        arguments = _renamed_arguments(schema_text(tool))
        if arguments or sent != tool["name"]:
            found[sent] = found[tool["name"]] = tool["name"], arguments
    return found


def schema_text(tool: Mapping[str, Any]) -> str:
    """The schema of a tool's parameters as JSON."""
    return _ENCODER.encode(tool.get("parameters") or {})


@lru_cache(maxsize=SCHEMAS)
def _renamed_arguments(schema: str) -> Mapping[str, str]:
    names: dict[str, str] = {}
    with_fitting_arguments(json.loads(schema), names)
    return names


def restored(answer: LLMResponse, names: Renamed) -> LLMResponse:
    """The answer with original names in its calls. Its encoded form keeps the names that were sent."""
    if not names or not answer.function_calls:
        return answer
    calls = []
    for call in answer.function_calls:
        name, own = names.get(call.name, (call.name, {}))
        arguments = _with_keys(call.arguments, own.get)
        calls.append(FunctionCall(name, arguments, call.id, call.raw))
    found = replace(answer, function_calls=calls)
    found.encoded.update(answer.encoded)
    return found


def is_same_call(call: FunctionCall, name: str, arguments: Any) -> bool:
    """Whether a call has this name and these arguments; original and sent names count as equal."""
    if (call.name, call.arguments) == (name, arguments):
        return True
    sent = partial(_with_keys, name=fitting_argument)
    return fitting_name(call.name) == fitting_name(name) and sent(call.arguments) == sent(arguments)


def _with_keys(value: Any, name: Callable[[str], str | None]) -> Any:
    """JSON data with renamed object keys."""
    if isinstance(value, list):
        return [_with_keys(item, name) for item in value]
    if not isinstance(value, dict):
        return value
    return {name(key) or key: _with_keys(item, name) for key, item in value.items()}


def _replaced(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    kept = re.sub("^[^a-zA-Z]+|[^a-zA-Z0-9]+", "_", name).strip("_")[:55] or "name"
    return f"{kept}_{digest}"
