"""What the bodies of both APIs have in common: fields, and the messages of a conversation that the client holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from nbagent.core.content.images import joined_content
from nbagent.core.messages import Content, LLMMessage
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
