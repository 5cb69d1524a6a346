"""What the bodies of both APIs have in common: fields, content, and the messages of a conversation of the client's.

Images come as `data:` URLs, or as addresses that the provider fetches. Nothing here reads a file or an address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from nbagent.core.content.images import image_part, joined_content
from nbagent.core.messages import Content, LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.server.routes.openai.errors import ParameterError, unsupported

_TOOLS = (
    "this model is an agent that has tools of its own and runs them itself. It can't call tools of the client: leave "
    "them out, or give them to the agent on the server."
)


class BodyPart(BaseModel):
    """A part of a body: nothing is converted, as at OpenAI, so that a wrong type is told and not guessed at."""

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
        """The options of the run. Raises `RefusedError` for what an agent can't do."""
        if self.tools:
            raise unsupported("tools", _TOOLS)
        if isinstance(self.tool_choice, dict):
            raise unsupported("tool_choice", _TOOLS)
        names = {"temperature", "top_p", "tool_choice", "metadata"}
        user = self.safety_identifier or self.user
        return self.model_dump(include=names, exclude_none=True) | ({"user": user} if user else {})


@dataclass(frozen=True, slots=True)
class LastQuestion:
    """The last question of a conversation, what came before it, and the client's own system texts."""

    question: LLMMessage
    history: list[LLMMessage]
    instructions: str


def asked(messages: Iterable[LLMMessage], param: str) -> LastQuestion:
    """A conversation that ends with a question. System texts go to the instructions, wherever they stand.

    Questions at the end that follow each other are one. Raises `RefusedError` if the last message is not a user's.
    """
    given = list(messages)
    instructions = "\n\n".join(message.text for message in given if message.role == "system" and message.text)
    history = [message for message in given if message.role != "system"]
    questions: list[LLMMessage] = []
    while history and history[-1].role == "user":
        questions.append(history.pop())
    questions.reverse()
    if not questions:
        raise ParameterError(param, "the last message must be a user's: an agent answers questions.")
    return LastQuestion(LLMMessage("user", _one_content(questions)), history, instructions)


def _one_content(questions: list[LLMMessage]) -> Content:
    if len(questions) == 1:
        return questions[0].content
    texts: list[dict[str, Any]] = []
    for question in questions:
        texts += [{"type": "text", "text": "\n\n"}] if texts else []
        content = question.content
        texts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return joined_content(texts)


class ImageURL(BodyPart):
    """Where an image is, in chat completions."""

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
