"""`/v1/responses`: prompts in conversations. The server keeps the conversations unless the client opts out.

A prompt can continue an earlier response or a conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from openai.types.responses import InputTokenCountResponse, ResponseTextConfigParam
from openai.types.shared_params import Reasoning
from pydantic import Field
from starlette.responses import Response

from nbagent.core.json_text import json_text
from nbagent.core.limits import Limits
from nbagent.core.messages import FunctionCall, LLMMessage, parse_arguments
from nbagent.server.agent_host import AgentHost
from nbagent.server.conversations.store import Conversation, Spent
from nbagent.server.event_stream import MEDIA_TYPE, sse
from nbagent.server.hosted_run import HostedRun, RunRequest
from nbagent.server.problems import RefusedError
from nbagent.server.routes.dependencies import ID_PATTERN, MAX_MESSAGES, Host, Owner
from nbagent.server.routes.openai.body import (
    BodyPart,
    Part,
    PromptAndHistory,
    RequestBody,
    content_from,
    run_request,
    split_prompt,
)
from nbagent.server.routes.openai.errors import ParameterError, unsupported
from nbagent.server.routes.openai.items import (
    ItemsPage,
    conversation_of,
    page_of_items,
    place_of,
    response_object,
    stored_items,
    turn_of,
)
from nbagent.server.routes.openai.models import AGENT
from nbagent.server.routes.openai.responses_answer import ResponseAnswer
from nbagent.server.routes.openai.writing import reply
from nbagent.text import shortened

router = APIRouter(prefix="/v1")

#: Items that the model does not read again: thinking, and actions of servers.
_SILENT = ("reasoning", "mcp_list_tools", "image_generation_call", "web_search_call", "file_search_call")

#: Fields that the response repeats.
_ECHOED = {
    *("instructions", "metadata", "temperature", "top_p", "max_output_tokens", "max_tool_calls", "reasoning", "text"),
    *("user", "safety_identifier", "previous_response_id", "tool_choice"),
}


class InputItem(BodyPart):
    """A message, or an item of an earlier response: a tool call, its result, or thinking."""

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
        """Convert the item to messages for an agent. Raises `RefusedError` for an unsupported item."""
        match self.type:
            case "message" | None:
                if self.role is None:
                    raise ParameterError(f"{param}.role", "a message needs a role, such as 'user'.")
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
    """A reference to a conversation by its id."""

    id: ConversationId


class ResponseRequest(RequestBody):
    """The body of `POST /v1/responses`."""

    input: str | Annotated[list[InputItem], Field(max_length=MAX_MESSAGES)] = Field(
        examples=["How warm is it in Berlin?"]
    )
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: ConversationId | ConversationReference | None = Field(
        None, description="Continues this conversation, or starts one with this id."
    )
    store: bool | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    max_tool_calls: int | None = Field(None, ge=0)
    reasoning: Reasoning | None = None
    text: ResponseTextConfigParam | None = None
    background: bool | None = None
    prompt: dict[str, Any] | None = Field(None, description="Not supported. Send input and instructions.")
    top_logprobs: int | None = None
    waits_for_approval: bool = Field(
        False, description="Whether calls that need approval wait for a decision. Otherwise, they are denied."
    )

    def conversation_id(self) -> str | None:
        """Return the conversation id that the request names, or None."""
        given = self.conversation
        return given.id if isinstance(given, ConversationReference) else given

    def split_prompt(self) -> PromptAndHistory:
        """Split the input into the prompt and the messages before it."""
        if isinstance(self.input, str):
            messages, last = [LLMMessage("user", self.input)], "input"
        else:
            messages, last = merged(self.input), f"input[{len(self.input) - 1}]"
        found = split_prompt(messages, last)
        if self.conversation is not None and found.history:
            raise unsupported(
                "input", "with a conversation, the input must be one prompt, since the server has the earlier messages."
            )
        return replace(found, instructions="\n\n".join(filter(None, (self.instructions, found.instructions))))

    def options(self) -> dict[str, Any]:
        """See `RequestBody.options`."""
        if self.previous_response_id is not None and self.conversation is not None:
            message = "it can't be used together with conversation. Omit one of them."
            raise ParameterError("previous_response_id", message, "mutually_exclusive_parameters")
        if self.background:
            raise unsupported("background", "responses can't be created in the background. Use stream instead.")
        if self.prompt:
            raise unsupported("prompt", "stored prompts are not supported. Send input and instructions.")
        if self.top_logprobs:
            raise unsupported("top_logprobs", "an agent's answer has no log probabilities.")
        given = {"max_tokens": self.max_output_tokens, "thinking": (self.reasoning or {}).get("effort")}
        return {**super().options(), **{name: value for name, value in given.items() if value is not None}}

    def echo(self) -> dict[str, Any]:
        """Return the fields of the request that the response repeats."""
        sent = self.model_dump(include=_ECHOED, exclude_unset=True, exclude_none=True)
        conversation = self.conversation_id()
        return sent if conversation is None else {**sent, "conversation": {"id": conversation}}


class InputTokensRequest(ResponseRequest):
    """The body of `POST /v1/responses/input_tokens`. Here, unlike in `POST /v1/responses`, the model is optional."""

    model: str = AGENT


def merged(items: Iterable[InputItem]) -> list[LLMMessage]:
    """Convert the items to messages. Consecutive tool calls become one assistant message, together with any text before
    them.
    """
    messages: list[LLMMessage] = []
    calls: list[FunctionCall] | None = None  # of the last message, if it is the assistant's
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


@router.post("/responses", response_model=None, responses={200: {"content": {MEDIA_TYPE: {}}}})
async def create_response(request: Request, host: Host, owner: Owner, body: ResponseRequest) -> Response:
    """Send a prompt that continues an earlier response or a conversation, or that starts a conversation.

    Tools run on the server. The output contains their calls as items of the type `mcp_call`.
    """

    def answer(run: HostedRun) -> ResponseAnswer:
        conversation_id = None if body.store is False else run.conversation_id
        return ResponseAnswer(body.model, body.echo(), conversation_id)

    write = (lambda event: sse(event, event["type"])) if body.stream else None
    return await reply(request, host, owner, await _run_request(host, body, owner), answer, write)


@router.post("/responses/input_tokens")
async def count_input_tokens(host: Host, owner: Owner, body: InputTokensRequest) -> InputTokenCountResponse:
    """Estimate the number of tokens in the agent's first model request, including its tools and the conversation."""
    preview = await host.preview(owner, await _run_request(host, body, owner))
    return InputTokenCountResponse(input_tokens=preview.tokens, object="response.input_tokens")


async def _resolved(host: AgentHost, owner: str, items: list[InputItem]) -> list[InputItem]:
    """The items, with references replaced by the stored items."""
    known: dict[str, dict[str, dict[str, Any]]] = {}
    resolved: list[InputItem] = []
    for index, item in enumerate(items):
        if item.type != "item_reference":
            resolved.append(item)
            continue
        conversation_id = conversation_of(item.id or "")
        if conversation_id not in known:
            found = await host.store.get(owner, conversation_id) if conversation_id else None
            messages = found.messages if found is not None else ()
            known[conversation_id] = {stored["id"]: stored for stored in stored_items(conversation_id, messages)}
        stored = known[conversation_id]
        if item.id in stored:
            resolved.append(InputItem.model_validate(stored[item.id]))
        elif not stored or not (item.id or "").startswith(("rs_", "msg_")):  # thinking, or text stored elsewhere
            detail = (
                f"input[{index}]: there is no item {shortened(item.id or '', 100)!r}. It was deleted, or never stored."
            )
            raise RefusedError(404, "item_not_found", detail)
    return resolved


async def _run_request(host: AgentHost, body: ResponseRequest, owner: str) -> RunRequest:
    if not isinstance(body.input, str):
        body.input = await _resolved(host, owner, body.input)
    prompt, is_stored = body.split_prompt(), body.store is not False
    conversation_id, after = body.conversation_id(), None
    history: list[LLMMessage] | None = prompt.history or None
    if body.previous_response_id is not None:
        conversation, turn = await _found(host, owner, body.previous_response_id)
        history = [*conversation.messages[: turn.stop], *prompt.history]
        if is_stored and not prompt.history:
            conversation_id, after = conversation.id, conversation.messages[turn.start].message_id
    return await run_request(
        host,
        body,
        prompt,
        (body.text or {}).get("format"),
        "text.format",
        conversation_id=conversation_id,
        after=after,
        history=history,
        stored=is_stored,
        waits_for_approval=body.waits_for_approval,
        limits=Limits(max_tool_calls=body.max_tool_calls),
    )


@router.get("/responses/{response_id}")
async def retrieve_response(host: Host, response_id: str, owner: Owner) -> dict[str, Any]:
    """Return a stored response. Token counts, thinking and request fields are missing, since they are not kept."""
    conversation, turn = await _found(host, owner, response_id)
    messages = conversation.messages[turn]
    status = "incomplete" if any(message.interrupted for message in messages) else "completed"
    stored = response_object(response_id, AGENT, int(conversation.updated))
    return {**stored, "status": status, "output": list(stored_items(conversation.id, messages))[1:]}


@router.get("/responses/{response_id}/input_items")
async def list_input_items(host: Host, response_id: str, owner: Owner, page: ItemsPage) -> dict[str, Any]:
    """Return the prompt of a response."""
    conversation, turn = await _found(host, owner, response_id)
    return page_of_items(list(stored_items(conversation.id, conversation.messages[turn][:1])), page)


@router.delete("/responses/{response_id}")
async def delete_response(host: Host, response_id: str, owner: Owner) -> dict[str, Any]:
    """Delete a response and its prompt. If the conversation then has no messages, it is deleted too."""
    conversation_id, question_id = place_of(response_id)
    async with host.store.turn(owner, conversation_id) as taken:
        messages = list(taken.conversation.messages) if taken.conversation else []
        del messages[_turn(messages, question_id, response_id)]
        if messages:
            await host.store.save(owner, Spent(), turn=taken, messages=messages)
        else:
            await host.store.delete(owner, conversation_id)
    return {"id": response_id, "object": "response", "deleted": True}


async def _found(host: AgentHost, owner: str, response_id: str) -> tuple[Conversation, slice]:
    """The conversation of a response, and its turn."""
    conversation_id, question_id = place_of(response_id)
    conversation = await host.store.get(owner, conversation_id)
    if conversation is None:
        raise _not_found(response_id)
    return conversation, _turn(conversation.messages, question_id, response_id)


def _turn(messages: Any, question_id: str, response_id: str) -> slice:
    turn = turn_of(messages, question_id)
    if turn is None:
        raise _not_found(response_id)
    return turn


def _not_found(response_id: str) -> RefusedError:
    detail = f"There is no response {shortened(response_id, 100)!r}. It was deleted, or never stored."
    return RefusedError(404, "response_not_found", detail)
