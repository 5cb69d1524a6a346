"""Lets a server ask the user a question during a call, through the approver."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from nbagent.functions.elicitation import CallInProgress, Question, ask_person
from nbagent.mcp.client.tool_list import MAX_TEXT
from nbagent.text import shortened

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult


async def ask(server: str, params: ElicitRequestParams, call: CallInProgress | None) -> ElicitResult:
    """Ask the user and return the answers. Decline if there is nobody to ask, or if the answers don't fit the server's
    schema.
    """
    from mcp_types import ElicitResult

    text = shortened(params.message, MAX_TEXT)
    if params.mode == "url":
        question = Question(server, {}, text=f"{text}\nTo continue, open this address yourself: {params.url}")
    else:
        schema = params.requested_schema
        problem = partial(_problem, schema)
        question = Question(server, _defaults(schema), text=text, problem=problem)
    answers = await ask_person(question, call)
    if answers is None:
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content=None if params.mode == "url" else answers)


def _defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """The initial answers: defaults, the first of several choices, or empty values.

    >>> _defaults({"properties": {"name": {"type": "string"}, "size": {"enum": ["S", "M"]}, "n": {"default": 3}}})
    {'name': '', 'size': 'S', 'n': 3}
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: _default(value) for name, value in properties.items() if isinstance(value, dict)}


def _default(schema: dict[str, Any]) -> Any:
    if "default" in schema:
        return schema["default"]
    choices = schema.get("enum") or [item.get("const") for item in schema.get("oneOf", ()) if isinstance(item, dict)]
    if choices:
        return choices[0]
    kind = schema.get("type")
    empty: dict[Any, Any] = {"boolean": False, "integer": 0, "number": 0, "array": []}
    return empty.get(kind, "") if isinstance(kind, str) else ""


def _problem(schema: dict[str, Any], answers: dict[str, Any]) -> str:
    """Describe the error in the answers, or return ""."""
    from referencing.exceptions import Unresolvable

    from nbagent.core.json_schema import jsonschema, validator_of

    try:
        error = jsonschema.exceptions.best_match(validator_of(schema).iter_errors(answers))
    except (jsonschema.SchemaError, Unresolvable):
        return "the server's question has no valid schema"
    if error is None:
        return ""
    where = ".".join(map(str, error.absolute_path))
    return f"{where}: {error.message}" if where else str(error.message)
