"""The form that a client wants the answer in: JSON that follows a schema, whichever vendor's model answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbagent.core.json_schema import jsonschema, validator_of
from nbagent.core.json_text import json_text
from nbagent.providers.base import LLMProvider
from nbagent.server.routes.openai.errors import ParameterError

#: What vendors get that can't be held to a schema, only to JSON.
_ONLY_JSON = {"response_format": {"type": "json_object"}}


def output_options(wanted: Mapping[str, Any] | None, provider: LLMProvider, param: str) -> tuple[dict[str, Any], str]:
    """The options that hold a model to a form, and what it is told if its vendor can't be.

    `wanted` is the form as either API has it. Raises `ParameterError` for a wrong schema; `param` names it.
    """
    if wanted is None or wanted["type"] == "text":
        return {}, ""
    named = wanted.get("json_schema", wanted)  # chat completions have it one level deeper
    schema = named.get("schema", {"type": "object"})
    try:
        validator_of(schema)
    except jsonschema.SchemaError as error:
        raise ParameterError(param, f"the JSON Schema is wrong: {error.message}", "invalid_json_schema") from None
    options = provider.output_options(named.get("name", "answer"), schema)
    if options and options != _ONLY_JSON:
        return options, ""
    return options, f"Answer only with JSON, which follows this JSON Schema: {json_text(schema)}"
