"""The body of a request for a response. Its input goes on from an earlier response, a conversation, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal

from openai.types.responses import ResponseTextConfigParam
from openai.types.shared_params import Reasoning
from pydantic import Field

from nbagent.core.json_text import json_text
from nbagent.core.messages import FunctionCall, LLMMessage, parse_arguments
from nbagent.server.routes.asking import ID_PATTERN, MAX_MESSAGES
from nbagent.server.routes.openai.body import BodyPart, LastQuestion, Part, RequestBody, asked, content_from
from nbagent.server.routes.openai.errors import ParameterError, unsupported
from nbagent.server.routes.openai.models import AGENT

#: Items that the model does not read again: thinking, and what servers did by themselves.
_SILENT = ("reasoning", "mcp_list_tools", "image_generation_call", "web_search_call", "file_search_call")

#: Fields that the response repeats.
_ECHOED = {
    *("instructions", "metadata", "temperature", "top_p", "max_output_tokens", "max_tool_calls", "reasoning", "text"),
    *("user", "safety_identifier", "previous_response_id", "tool_choice"),
}


class InputItem(BodyPart):
    """A message, or what earlier responses gave back: calls of tools with their results, and thinking."""

    type: str | None = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[Part] | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[Part] | None = None
    error: Any = None

    def to_messages(self, param: str) -> list[LLMMessage]:
        """The same as messages of an agent. Raises `RefusedError` for an item that an agent can't read."""
        match self.type:
            case "message" | None:
                if self.role is None:
                    raise ParameterError(f"{param}.role", "a message has a role, such as 'user'.")
                role = "system" if self.role == "developer" else self.role
                return [LLMMessage(role, content_from(self.content, f"{param}.content"))]
            case "mcp_call":
                return [self._call(self.id), self._result(self.id, param)]
            case "function_call":
                return [self._call(self.call_id)]
            case "function_call_output":
                return [self._result(self.call_id, param)]
            case kind if kind in _SILENT:
                return []
            case kind:
                raise unsupported(f"{param}.type", f"items of the type {kind!r} are not supported.")

    def _call(self, call_id: str | None) -> LLMMessage:
        arguments, raw = parse_arguments(self.arguments)
        return LLMMessage("assistant", tool_calls=[FunctionCall(self.name or "", arguments, call_id, raw)])

    def _result(self, call_id: str | None, param: str) -> LLMMessage:
        content = json_text(self.error) if self.error else content_from(self.output, f"{param}.output")
        return LLMMessage("tool", content, self.name, tool_call_id=call_id, is_error=bool(self.error))


ConversationId = Annotated[str, Field(pattern=ID_PATTERN, examples=["penguins-1"])]


class ConversationReference(BodyPart):
    """A conversation by its id."""

    id: ConversationId


class ResponseRequest(RequestBody):
    """The body of `POST /v1/responses`."""

    input: str | Annotated[list[InputItem], Field(max_length=MAX_MESSAGES)] = Field(
        examples=["How warm is it in Berlin?"]
    )
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: ConversationId | ConversationReference | None = Field(
        None, description="Goes on with it, or begins it, if there is none of this id."
    )
    store: bool | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    max_tool_calls: int | None = Field(None, ge=0)
    reasoning: Reasoning | None = None
    text: ResponseTextConfigParam | None = None
    background: bool | None = None
    prompt: dict[str, Any] | None = Field(None, description="Not supported: there are no stored prompts.")
    top_logprobs: int | None = None
    waits_for_approval: bool = Field(
        False, description="Whether calls that need approval wait for a decision; without it they are denied."
    )

    def conversation_id(self) -> str | None:
        """The id in `conversation`."""
        given = self.conversation
        return given.id if isinstance(given, ConversationReference) else given

    def asked(self) -> LastQuestion:
        """The question, and what the input has before it."""
        if isinstance(self.input, str):
            messages, last = [LLMMessage("user", self.input)], "input"
        else:
            messages, last = merged(self.input), f"input[{len(self.input) - 1}]"
        found = asked(messages, last)
        if self.conversation is not None and found.history:
            raise unsupported("input", "with a conversation, the input is one question: the server has the rest.")
        return replace(found, instructions="\n\n".join(filter(None, (self.instructions, found.instructions))))

    def options(self) -> dict[str, Any]:
        """See `RequestBody.options`."""
        if self.previous_response_id is not None and self.conversation is not None:
            message = "it can't be used together with conversation. Leave one of them out."
            raise ParameterError("previous_response_id", message, "mutually_exclusive_parameters")
        if self.background:
            raise unsupported("background", "a response is made while the client waits. Ask for a stream.")
        if self.prompt:
            raise unsupported("prompt", "there are no stored prompts. Send input and instructions.")
        if self.top_logprobs:
            raise unsupported("top_logprobs", "an agent's answer has no log probabilities.")
        given = {"max_tokens": self.max_output_tokens, "thinking": (self.reasoning or {}).get("effort")}
        return {**super().options(), **{name: value for name, value in given.items() if value is not None}}

    def echo(self) -> dict[str, Any]:
        """The fields that the response repeats."""
        sent = self.model_dump(include=_ECHOED, exclude_unset=True, exclude_none=True)
        conversation = self.conversation_id()
        return sent if conversation is None else {**sent, "conversation": {"id": conversation}}


class InputTokensRequest(ResponseRequest):
    """The body of `POST /v1/responses/input_tokens`: that of a response, which need not name the model."""

    model: str = AGENT


def merged(items: Iterable[InputItem]) -> list[LLMMessage]:
    """The items as messages. Calls that follow each other, or a text, belong to one message of the assistant."""
    messages: list[LLMMessage] = []
    calls: list[FunctionCall] | None = None  # of the last message, which is the assistant's
    for index, item in enumerate(items):
        for message in item.to_messages(f"input[{index}]"):
            if message.tool_calls and calls is not None:
                calls += message.tool_calls
            elif message.role == "assistant":
                calls = list(message.tool_calls or ())
                messages.append(message.replace(tool_calls=calls))
            else:
                calls = None
                messages.append(message)
    return messages
