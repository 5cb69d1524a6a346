"""The body of a request for chat completions. Its messages are the whole conversation: the server keeps none."""

from __future__ import annotations

from typing import Any, Literal

from openai.types import chat
from openai.types.chat.completion_create_params import ResponseFormat
from openai.types.shared_params.reasoning_effort import ReasoningEffort
from pydantic import Field

from nbagent.core.messages import FunctionCall, LLMMessage, parse_arguments
from nbagent.server.routes.asking import MAX_MESSAGES
from nbagent.server.routes.openai.body import BodyPart, LastQuestion, Part, RequestBody, asked, content_from
from nbagent.server.routes.openai.errors import unsupported


class ChatMessage(BodyPart):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = Field(None, examples=["How warm is it in Berlin?"])
    name: str | None = None
    tool_calls: list[chat.ChatCompletionMessageFunctionToolCallParam] | None = None
    tool_call_id: str | None = None

    def to_message(self, param: str) -> LLMMessage:
        """The same as a message of an agent."""
        content = content_from(self.content, f"{param}.content")
        calls = [
            FunctionCall(call["function"]["name"], arguments, call["id"], raw)
            for call in self.tool_calls or ()
            for arguments, raw in [parse_arguments(call["function"]["arguments"])]
        ]
        role = "system" if self.role == "developer" else self.role
        return LLMMessage(role, content, self.name, calls or None, self.tool_call_id)


class ChatCompletionRequest(RequestBody):
    """The body of `POST /v1/chat/completions`."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_completion_tokens: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1)
    n: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    seed: int | None = None
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    response_format: ResponseFormat | None = None
    reasoning_effort: ReasoningEffort = None
    stream_options: chat.ChatCompletionStreamOptionsParam | None = None
    functions: list[Any] | None = Field(None, description="Not supported: the agent has tools of its own.")
    modalities: list[str] | None = None
    logprobs: bool | None = None

    def conversation(self) -> LastQuestion:
        """The question and what came before it."""
        messages = [message.to_message(f"messages[{index}]") for index, message in enumerate(self.messages)]
        return asked(messages, f"messages[{len(messages) - 1}].role")

    def options(self) -> dict[str, Any]:
        """See `RequestBody.options`."""
        if self.functions:
            raise unsupported("functions", "they are tools of the client, which an agent can't call.")
        if (self.n or 1) > 1:
            raise unsupported("n", "an agent gives one answer. Send the request again for another one.")
        if "audio" in (self.modalities or ()):
            raise unsupported("modalities", "an agent answers with text.")
        if self.logprobs:
            raise unsupported("logprobs", "an agent's answer has no log probabilities.")
        penalties = {"frequency_penalty": self.frequency_penalty, "presence_penalty": self.presence_penalty}
        penalties = {name: value for name, value in penalties.items() if value}  # 0 is none, and some models know none
        given = {"stop": self.stop, "seed": self.seed, "thinking": self.reasoning_effort, "extra_body": penalties}
        given["max_tokens"] = self.max_completion_tokens or self.max_tokens
        return {**super().options(), **{name: value for name, value in given.items() if value not in (None, {})}}
