"""Converts the request bodies of chat completions and responses to requests for runs.

Images are `data:` URLs, or addresses that the provider fetches. This code opens no files and fetches no addresses.
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
    "this model is an agent, which has tools of its own and runs them itself. It can't call the client's tools. Omit "
    "them, or add them to the agent on the server."
)
#: The output options of providers that can enforce JSON, but no schema.
_ONLY_JSON = {"response_format": {"type": "json_object"}}
#: The maximum characters of a schema, and the maximum nesting of its objects and arrays.
MAX_CHARS, MAX_DEPTH = 120_000, 64


class BodyPart(BaseModel):
    """A part of a request body. As in OpenAI's API, values of the wrong type are reported, not converted."""

    model_config = ConfigDict(strict=True)


class RequestBody(BodyPart):
    """The fields that chat completions and responses share. Other fields are ignored, as they are by other servers for
    these APIs. They are only hints, such as `service_tier`.
    """

    model: str = Field(description="An id from `GET /v1/models`.", examples=["nbagent"])
    stream: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    metadata: dict[str, str] | None = Field(None, description="Labels for the run in the trace.")
    user: str | None = None
    safety_identifier: str | None = None
    tools: list[Any] | None = Field(None, description="Not supported. The agent has its own tools.")
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of the run. Raises `RefusedError` for options that an agent can't support."""
        if self.tools:
            raise unsupported("tools", _TOOLS)
        if isinstance(self.tool_choice, dict):
            raise unsupported("tool_choice", _TOOLS)
        names = {"temperature", "top_p", "tool_choice", "metadata"}
        user = self.safety_identifier or self.user
        return self.model_dump(include=names, exclude_none=True) | ({"user": user} if user else {})


@dataclass(frozen=True, slots=True)
class PromptAndHistory:
    """A conversation's last prompt, its earlier messages, and the client's system texts."""

    question: LLMMessage
    history: list[LLMMessage]
    instructions: str


def split_prompt(messages: Sequence[LLMMessage], param: str) -> PromptAndHistory:
    """Split a conversation into its last prompt, its history, and its instructions (all the system texts).

    Consecutive prompts at the end are joined. Raises `RefusedError` if the last message is not from a user.
    """
    instructions = "\n\n".join(message.text for message in messages if message.role == "system" and message.text)
    history = [message for message in messages if message.role != "system"]
    parts: list[dict[str, Any]] = []
    while history and history[-1].role == "user":
        content = history.pop().content
        own = [{"type": "text", "text": content}] if isinstance(content, str) else content
        parts += [*([{"type": "text", "text": "\n\n"}] if parts else []), *reversed(own)]
    if not parts:
        raise ParameterError(param, "the last message must be from a user.")
    return PromptAndHistory(LLMMessage("user", joined_content(reversed(parts))), history, instructions)


class ImageURL(BodyPart):
    """An image's address, in chat completions."""

    url: str


class Part(BodyPart):
    """A content part of either API: text, a refusal or an image."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | ImageURL | None = None


def content_from(content: str | Sequence[Part] | None, param: str) -> Content:
    """Return a message's content. `param` is the content's name in errors, such as `messages[0].content`."""
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
        raise unsupported(param, f"{part.type} is not supported. Send text, and images as URLs.")
    address = part.image_url.url if isinstance(part.image_url, ImageURL) else part.image_url
    if address is None:
        raise unsupported(param, "uploaded files are not supported. Pass image_url, which may be a data: URL.")
    try:
        return image_part({"type": "image", "url": address})
    except ConfigurationError as error:
        raise ParameterError(param, str(error), "invalid_image") from None


async def run_request(
    host: AgentHost,
    body: RequestBody,
    prompt: PromptAndHistory,
    wanted: Mapping[str, Any] | None,
    param: str,
    **more: Any,
) -> RunRequest:
    """Return the request for a run. `wanted` is the requested format of the answer, from the request's field `param`.

    Raises `RefusedError` for fields that the agent can't support, and for an unknown model.
    """
    model = model_choice(host, body.model)
    form, format_instructions = await _output_options(wanted, host.provider_for(None, model), param)
    options = body.options()
    if form:
        options["extra_body"] = {**options.get("extra_body", {}), **form}
    return RunRequest(
        message=prompt.question,
        instructions="\n\n".join(filter(None, (prompt.instructions, format_instructions))),
        model=model,
        options=options,
        **more,
    )


async def _output_options(
    wanted: Mapping[str, Any] | None, provider: LLMProvider, param: str
) -> tuple[dict[str, Any], str]:
    """The options that enforce the answer's format, and instructions in case the provider has no such options.

    Raises `ParameterError` for an invalid schema.
    """
    if wanted is None or wanted["type"] == "text":
        return {}, ""
    named = wanted.get("json_schema", wanted)  # chat completions have it one level deeper
    schema = named.get("schema", {"type": "object"})
    if _is_deeper(schema, MAX_DEPTH):
        raise _wrong(param, f"its objects and arrays are nested more than {MAX_DEPTH} levels deep. Flatten it.")
    if len(text := json_text(schema)) > MAX_CHARS:
        raise _wrong(param, f"it has {len(text):,} characters; the maximum is {MAX_CHARS:,}. Shorten it.")
    try:
        await asyncio.to_thread(validator_of, schema)  # takes a second for a large schema
    except jsonschema.SchemaError as error:
        raise _wrong(param, error.message) from None
    options = provider.output_options(named.get("name", "answer"), schema)
    if options and options != _ONLY_JSON:
        return options, ""
    return options, f"Answer only with JSON that follows this JSON Schema: {text}"


def _wrong(param: str, reason: str) -> ParameterError:
    return ParameterError(param, f"the JSON Schema is invalid: {reason}", "invalid_json_schema")


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether objects and arrays are nested more deeply than this."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(item, depth - 1) for item in inner)
