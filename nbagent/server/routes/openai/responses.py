"""`/v1/responses`: questions to the agent in conversations that the server keeps, if the client does not object."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from openai.types.responses import InputTokenCountResponse
from starlette.responses import Response

from nbagent.core.limits import Limits
from nbagent.core.messages import LLMMessage
from nbagent.server.agent_host import AgentHost
from nbagent.server.conversations.store import Conversation, Spent
from nbagent.server.event_stream import MEDIA_TYPE, sse
from nbagent.server.hosted_run import HostedRun, RunRequest
from nbagent.server.problems import RefusedError
from nbagent.server.routes.asking import Host, Owner
from nbagent.server.routes.openai.body import run_request
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
from nbagent.server.routes.openai.responses_request import InputItem, InputTokensRequest, ResponseRequest
from nbagent.server.routes.openai.writing import reply
from nbagent.text import shortened

router = APIRouter(prefix="/v1")


@router.post("/responses", response_model=None, responses={200: {"content": {MEDIA_TYPE: {}}}})
async def create_response(request: Request, host: Host, owner: Owner, body: ResponseRequest) -> Response:
    """Ask the agent, which goes on from an earlier response, in a conversation, or begins one.

    Tools run on the server, and are items of the type `mcp_call`.
    """

    def answer(run: HostedRun) -> ResponseAnswer:
        conversation_id = None if body.store is False else run.conversation_id
        return ResponseAnswer(body.model, body.echo(), conversation_id)

    write = (lambda event: sse(event, event["type"])) if body.stream else None
    return await reply(request, host, owner, await _run_request(host, body, owner), answer, write)


@router.post("/responses/input_tokens")
async def count_input_tokens(host: Host, owner: Owner, body: InputTokensRequest) -> InputTokenCountResponse:
    """About how many tokens the agent's first request to its model would have, tools and conversation included."""
    preview = await host.preview(owner, await _run_request(host, body, owner))
    return InputTokenCountResponse(input_tokens=preview.tokens, object="response.input_tokens")


async def _with_referred(host: AgentHost, owner: str, items: list[InputItem]) -> list[InputItem]:
    """The items, with those of the server in place of references to them."""
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
            known[conversation_id] = {each["id"]: each for each in stored_items(conversation_id, messages)}
        stored = known[conversation_id]
        if item.id in stored:
            resolved.append(InputItem.model_validate(stored[item.id]))
        elif not stored or not (item.id or "").startswith(("rs_", "msg_")):  # thinking, and text that others hold
            detail = (
                f"input[{index}]: there is no item {shortened(item.id or '', 100)!r}. It was deleted, or never stored."
            )
            raise RefusedError(404, "item_not_found", detail)
    return resolved


async def _run_request(host: AgentHost, body: ResponseRequest, owner: str) -> RunRequest:
    if not isinstance(body.input, str):
        body.input = await _with_referred(host, owner, body.input)
    asked, is_stored = body.asked(), body.store is not False
    conversation_id, after = body.conversation_id(), None
    history: list[LLMMessage] | None = asked.history or None
    if body.previous_response_id is not None:
        conversation, turn = await _found(host, owner, body.previous_response_id)
        history = [*conversation.messages[: turn.stop], *asked.history]
        if is_stored and not asked.history:
            conversation_id, after = conversation.id, conversation.messages[turn.start].message_id
    return await run_request(
        host,
        body,
        asked,
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
    """What was answered. Token counts, thinking and the fields of the request are not kept."""
    conversation, turn = await _found(host, owner, response_id)
    messages = conversation.messages[turn]
    status = "incomplete" if any(message.interrupted for message in messages) else "completed"
    stored = response_object(response_id, AGENT, int(conversation.updated))
    return {**stored, "status": status, "output": list(stored_items(conversation.id, messages))[1:]}


@router.get("/responses/{response_id}/input_items")
async def list_input_items(host: Host, response_id: str, owner: Owner, page: ItemsPage) -> dict[str, Any]:
    """The question that a response answers."""
    conversation, turn = await _found(host, owner, response_id)
    return page_of_items(list(stored_items(conversation.id, conversation.messages[turn][:1])), page)


@router.delete("/responses/{response_id}")
async def delete_response(host: Host, response_id: str, owner: Owner) -> dict[str, Any]:
    """Delete a response with its question from their conversation, which is deleted with its last one."""
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
    """The conversation of a response, and its turn there."""
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
