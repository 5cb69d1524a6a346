"""Asking a model in words for a tool call, as JSON; under a schema, where its server can decode so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.core.model_request import Functions
from nbagent.errors import BadRequestError, ContextLengthError
from nbagent.providers.base import LLMProvider


async def ask_for_call(
    inner: LLMProvider, messages: list[LLMMessage], functions: Functions, options: Mapping[str, Any]
) -> LLMResponse:
    """The model's reply to the conversation: `{"name": ..., "arguments": {...}}`, or `{"name": null}`.

    A server that refuses the schema is asked without it, and may then reply anything.
    """
    listed = "\n".join(json.dumps(dict(function), ensure_ascii=False) for function in functions)
    ask = LLMMessage(
        "system",
        f"You can call one of these functions:\n{listed}\n"
        'If one is needed, reply with nothing but {"name": <function>, "arguments": {<arguments>}}. '
        'If none is needed, reply with nothing but {"name": null}.',
    )
    wanted = {"type": "json_schema", "json_schema": {"name": "call", "schema": call_schema(functions)}}
    options = {**options, "temperature": 0.0}
    try:
        return await inner.chat([ask, *messages], None, **{**options, "response_format": wanted})
    except BadRequestError as exc:
        if isinstance(exc, ContextLengthError):
            raise
        return await inner.chat([ask, *messages], None, **options)


def call_schema(functions: Functions) -> dict[str, Any]:
    """The JSON Schema of a call of one of the functions, or of none.

    >>> [form["properties"]["name"] for form in call_schema([{"name": "now"}])["anyOf"]]
    [{'const': 'now'}, {'type': 'null'}]
    """
    forms = [{"name": {"const": f["name"]}, "arguments": f.get("parameters") or {"type": "object"}} for f in functions]
    forms.append({"name": {"type": "null"}})
    return {
        "anyOf": [
            {"type": "object", "properties": form, "required": list(form), "additionalProperties": False}
            for form in forms
        ]
    }
