"""The form that a client wants the answer in: JSON that follows a schema, whichever vendor's model answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from nbagent.core.json_schema import jsonschema
from nbagent.core.json_text import json_text
from nbagent.providers.base import LLMProvider
from nbagent.server.routes.openai.errors import ParameterError
from nbagent.server.routes.openai.form import BodyPart

_ANY_OBJECT = {"type": "object"}
#: What vendors get that can't be held to a schema, only to JSON.
_ONLY_JSON = {"response_format": {"type": "json_object"}}


class PlainText(BodyPart):
    """A text."""

    type: Literal["text"]


class AnyJSON(BodyPart):
    """A JSON object."""

    type: Literal["json_object"]


class JSONSchema(BodyPart):
    """JSON that follows a schema."""

    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$", examples=["sum"])
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class ChatSchema(BodyPart):
    """The same in chat completions."""

    type: Literal["json_schema"]
    json_schema: JSONSchema


class ResponseSchema(JSONSchema):
    """The same in responses."""

    type: Literal["json_schema"]


ChatFormat = Annotated[PlainText | AnyJSON | ChatSchema, Field(discriminator="type")]
ResponseFormat = Annotated[PlainText | AnyJSON | ResponseSchema, Field(discriminator="type")]


def output_options(
    wanted: ChatFormat | ResponseFormat | None, provider: LLMProvider, param: str
) -> tuple[dict[str, Any], str]:
    """The options that hold a model to this form, and what it is told if its vendor can't be.

    Raises `ParameterError` for a wrong schema; `param` names it.
    """
    name, schema = "answer", _ANY_OBJECT
    match wanted:
        case None | PlainText():
            return {}, ""
        case JSONSchema() as named:
            name, schema = named.name, named.schema_
        case ChatSchema(json_schema=named):
            name, schema = named.name, named.schema_
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ParameterError(param, f"the JSON Schema is wrong: {error.message}", "invalid_json_schema") from None
    options = provider.output_options(name, schema)
    if options and options != _ONLY_JSON:
        return options, ""
    return options, f"Answer only with JSON, which follows this JSON Schema: {json_text(schema)}"
