"""From the body of either API to what the server asks of the agent, and how the client wants the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from nbagent.core.json_schema import jsonschema, validator_of
from nbagent.core.json_text import json_text
from nbagent.providers.base import LLMProvider
from nbagent.server.agent_host import AgentHost
from nbagent.server.hosted_run import RunRequest
from nbagent.server.routes.openai.body import LastQuestion, RequestBody
from nbagent.server.routes.openai.errors import ParameterError
from nbagent.server.routes.openai.models import model_choice

#: What providers get that can't be held to a schema, only to JSON.
_ONLY_JSON = {"response_format": {"type": "json_object"}}
#: The most characters of a schema, and how deep its objects and arrays may be nested.
MAX_CHARS, MAX_DEPTH = 120_000, 64


async def run_request(
    host: AgentHost,
    body: RequestBody,
    asked: LastQuestion,
    wanted: Mapping[str, Any] | None,
    param: str,
    **more: Any,
) -> RunRequest:
    """The request for a run. `param` is the field that says in which form the answer is wanted.

    Raises `RefusedError` for what the agent can't do, and for a model that is not there.
    """
    model = model_choice(host, body.model)
    form, told = await _output_options(wanted, host.provider_for(None, model), param)
    options = body.options()
    if form:
        options["extra_body"] = {**options.get("extra_body", {}), **form}
    return RunRequest(
        message=asked.question,
        instructions="\n\n".join(filter(None, (asked.instructions, told))),
        model=model,
        options=options,
        **more,
    )


async def _output_options(
    wanted: Mapping[str, Any] | None, provider: LLMProvider, param: str
) -> tuple[dict[str, Any], str]:
    """The options that hold a model to a form, and the instructions for a model whose provider has no such options.

    `wanted` is the form as either API has it. Raises `ParameterError` for a wrong schema; `param` names it.
    """
    if wanted is None or wanted["type"] == "text":
        return {}, ""
    named = wanted.get("json_schema", wanted)  # chat completions have it one level deeper
    schema = named.get("schema", {"type": "object"})
    if _depth(schema) > MAX_DEPTH:
        raise _wrong(param, f"its objects and arrays are nested more than {MAX_DEPTH} deep. Flatten it.")
    if len(text := json_text(schema)) > MAX_CHARS:
        raise _wrong(param, f"it has {len(text):,} characters, and may have {MAX_CHARS:,}. Shorten it.")
    try:
        await asyncio.to_thread(validator_of, schema)  # takes a second for a large one
    except jsonschema.SchemaError as error:
        raise _wrong(param, error.message) from None
    options = provider.output_options(named.get("name", "answer"), schema)
    if options and options != _ONLY_JSON:
        return options, ""
    return options, f"Answer only with JSON, which follows this JSON Schema: {text}"


def _wrong(param: str, reason: str) -> ParameterError:
    return ParameterError(param, f"the JSON Schema is wrong: {reason}", "invalid_json_schema")


def _depth(value: Any) -> int:
    """How deep objects and arrays are nested; it looks no deeper than the limit."""
    depth, level = 0, [value]
    while depth <= MAX_DEPTH:
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        if not inner:
            break
        depth, level = depth + 1, [item for items in inner for item in items]
    return depth
