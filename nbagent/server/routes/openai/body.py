"""The common part of both APIs: converts bodies to run requests.

Images come as `data:` URLs, or as addresses that the provider fetches. Nothing here reads a file or an address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from nbagent.core.content.images import image_part, joined_content
from nbagent.core.json_schema import jsonschema, validator_of
from nbagent.core.json_text import json_text
from nbagent.core.messages import Content, LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.providers.base import LLMProvider
from nbagent.server.agent_host import AgentHost
from nbagent.server.hosted_run import RunRequest
from nbagent.server.routes.openai.errors import ParameterError, unsupported
from nbagent.server.routes.openai.models import model_choice

_TOOLS = (
    "this model is an agent that has tools of its own and runs them itself. It can't call tools of the client: leave "
    "them out, or give them to the agent on the server."
)
#: The instructions for providers that can't enforce a schema, only JSON.
_ONLY_JSON = {"response_format": {"type": "json_object"}}
#: Maximum characters of a schema, and maximum nesting of its objects and arrays.
MAX_CHARS, MAX_DEPTH = 120_000, 64


class BodyPart(BaseModel):
    """A part of a body. As at OpenAI, nothing is converted, so wrong types are reported, not coerced."""

    model_config = ConfigDict(strict=True)


class RequestBody(BodyPart):
    """Fields of both APIs.

    Fields that are not listed are ignored, as in other servers for this API: they are hints, such as `service_tier`.
    """

    model: str = Field(description="An id of `GET /v1/models`.", examples=["nbagent"])
    stream: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    metadata: dict[str, str] | None = Field(None, description="Labels of the run in the trace.")
    user: str | None = None
    safety_identifier: str | None = None
    tools: list[Any] | None = Field(None, description="Not supported: the agent has tools of its own.")
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None

    def options(self) -> dict[str, Any]:
        """The options of the run. Raises `RefusedError` for options that an agent can't take."""
        if self.tools:
            raise unsupported("tools", _TOOLS)
        if isinstance(self.tool_choice, dict):
            raise unsupported("tool_choice", _TOOLS)
        names = {"temperature", "top_p", "tool_choice", "metadata"}
        user = self.safety_identifier or self.user
        return self.model_dump(include=names, exclude_none=True) | ({"user": user} if user else {})


@dataclass(frozen=True, slots=True)
class LastQuestion:
    """A conversation's last prompt, its earlier messages, and the client's own system texts."""

    question: LLMMessage
    history: list[LLMMessage]
    instructions: str


def asked(messages: Sequence[LLMMessage], param: str) -> LastQuestion:
    """A conversation that ends with a prompt. All system texts become instructions.

    Adjacent prompts at the end are joined. Raises `RefusedError` if the last message is not a user's.
    """
    instructions = "\n\n".join(message.text for message in messages if message.role == "system" and message.text)
    history = [message for message in messages if message.role != "system"]
    parts: list[dict[str, Any]] = []
    while history and history[-1].role == "user":
        content = history.pop().content
        own = [{"type": "text", "text": content}] if isinstance(content, str) else content
        parts += [*([{"type": "text", "text": "\n\n"}] if parts else []), *reversed(own)]
    if not parts:
        raise ParameterError(param, "the last message must be a user's: an agent answers questions.")
    return LastQuestion(LLMMessage("user", joined_content(reversed(parts))), history, instructions)


class ImageURL(BodyPart):
    """An image's address, in chat completions."""

    url: str


class Part(BodyPart):
    """A part of a content: a text, a refusal or an image, of either API."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | ImageURL | None = None


def content_from(content: str | Sequence[Part] | None, param: str) -> Content:
    """The content of a message. `param` names it in errors, such as `messages[0].content`."""
    if content is None or isinstance(content, str):
        return content or ""
    return joined_content(_part_from(part, f"{param}[{index}]") for index, part in enumerate(content))


def _part_from(part: Part, param: str) -> dict[str, Any]:
    if part.type in ("text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal"):
        text = part.refusal if part.type == "refusal" else part.text
        if text is None:
            raise ParameterError(param, "its text is missing.")
        return {"type": "text", "text": text}
    if part.type not in ("image_url", "input_image"):
        raise unsupported(param, f"{part.type} is not supported: send text, and images as URLs.")
    address = part.image_url.url if isinstance(part.image_url, ImageURL) else part.image_url
    if address is None:
        raise unsupported(param, "uploaded files are not supported: pass image_url, which may be a data: URL.")
    try:
        return image_part({"type": "image", "url": address})
    except ConfigurationError as error:
        raise ParameterError(param, str(error), "invalid_image") from None


async def run_request(
    host: AgentHost,
    body: RequestBody,
    asked: LastQuestion,
    wanted: Mapping[str, Any] | None,
    param: str,
    **more: Any,
) -> RunRequest:
    """The request for a run. `param` is the field with the answer's form.

    Raises `RefusedError` for fields that the agent can't take, and for an unknown model.
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
    """The options that enforce an answer's form, and the instructions if the provider has no such options.

    `wanted` is the form from either API. Raises `ParameterError` for a wrong schema; `param` names it.
    """
    if wanted is None or wanted["type"] == "text":
        return {}, ""
    named = wanted.get("json_schema", wanted)  # chat completions have it one level deeper
    schema = named.get("schema", {"type": "object"})
    if _is_deeper(schema, MAX_DEPTH):
        raise _wrong(param, f"its objects and arrays are nested more than {MAX_DEPTH} deep. Flatten it.")
    if len(text := json_text(schema)) > MAX_CHARS:
        raise _wrong(param, f"it has {len(text):,} characters, and may have {MAX_CHARS:,}. Shorten it.")
    try:
        await asyncio.to_thread(validator_of, schema)  # slow (a second) for a large schema
    except jsonschema.SchemaError as error:
        raise _wrong(param, error.message) from None
    options = provider.output_options(named.get("name", "answer"), schema)
    if options and options != _ONLY_JSON:
        return options, ""
    return options, f"Answer only with JSON, which follows this JSON Schema: {text}"


def _wrong(param: str, reason: str) -> ParameterError:
    return ParameterError(param, f"the JSON Schema is wrong: {reason}", "invalid_json_schema")


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether objects and arrays are nested more deeply."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(each, depth - 1) for each in inner)
