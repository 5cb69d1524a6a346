"""Prompts a model for a tool call as JSON, which is constrained by a schema if the model's server supports that."""

from __future__ import annotations

import json
from typing import Any

from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.core.model_request import Functions, ModelRequest
from nbagent.errors import BadRequestError, ContextLengthError
from nbagent.providers.base import LLMProvider
from nbagent.providers.formats.tool_schema import plain_schema


async def ask_for_call(
    inner: LLMProvider, request: ModelRequest, tools: Functions, *, is_forced: bool = False
) -> LLMResponse:
    """The model's answer: `{"name": ..., "arguments": {...}}`, or, unless a call is forced, `{"name": null}`.

    If a server refuses the schema, the request is sent again without it. The answer may then have any form.
    """
    tools = [{**tool, "parameters": plain_schema(tool.get("parameters") or {"type": "object"})} for tool in tools]
    listed = "\n".join(json.dumps(dict(tool), ensure_ascii=False) for tool in tools)
    instructions = LLMMessage(
        "system",
        f"You can call one of these functions:\n{listed}\n"
        f"{'Call one' if is_forced else 'If one is needed'}: reply with nothing but "
        '{"name": <function>, "arguments": {<arguments>}}.'
        + ("" if is_forced else ' If none is needed, reply with nothing but {"name": null}.'),
    )
    messages = [instructions, *request.all_messages]
    options = {**request.options, "temperature": 0.0}
    format_ = {"type": "json_schema", "json_schema": {"name": "call", "schema": call_schema(tools, is_forced)}}
    try:
        extra_body = {**options.get("extra_body", {}), "response_format": format_}
        return await inner.chat(messages, None, **{**options, "extra_body": extra_body})
    except BadRequestError as exc:
        if isinstance(exc, ContextLengthError):
            raise
        return await inner.chat(messages, None, **options)


def call_schema(tools: Functions, is_forced: bool = False) -> dict[str, Any]:
    """The JSON Schema of a call to one of the tools. Unless a call is forced, it also allows `null` as the tool's name.

    >>> [form["properties"]["name"] for form in call_schema([{"name": "now"}])["anyOf"]]
    [{'const': 'now'}, {'type': 'null'}]
    """
    forms = [{"name": {"const": t["name"]}, "arguments": t.get("parameters") or {"type": "object"}} for t in tools]
    forms += [] if is_forced else [{"name": {"type": "null"}}]
    return {
        "anyOf": [
            {"type": "object", "properties": form, "required": list(form), "additionalProperties": False}
            for form in forms
        ]
    }


def first_json_object(text: str) -> Any:
    """The first JSON object in text, inside or outside a code block, or None.

    >>> first_json_object('Sure: {"name": null}.')
    {'name': None}
    """
    start = text.find("{")
    if start < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text[start:])[0]
    except (ValueError, RecursionError):
        return None
