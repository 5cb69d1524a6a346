"""`/agent/conversations`: what is stored of the caller's conversations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from nbagent.core.messages import LLMMessage
from nbagent.server.conversations.store import Conversation
from nbagent.server.problems import not_found
from nbagent.server.routes.asking import ID_PATTERN, Host, Owner

router = APIRouter(prefix="/agent/conversations", tags=["conversations"])

ConversationId = Annotated[str, Path(pattern=ID_PATTERN)]


class ConversationSummary(BaseModel):
    """A conversation without its messages. The title is the beginning of its first question."""

    conversation_id: str
    title: str
    created: datetime
    updated: datetime
    message_count: int
    total_tokens: int
    cost_usd: float


class ConversationPage(BaseModel):
    """Some conversations, the last changed first. Pass `next` as `after` for the next ones."""

    conversations: list[ConversationSummary]
    next: str | None


class StoredConversation(ConversationSummary):
    """A conversation with its messages: `role`, `content`, and what else a message has."""

    messages: list[dict[str, Any]]


@router.get("")
async def conversations(
    host: Host,
    owner: Owner,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: Annotated[str | None, Query(max_length=300, description="`next` of the page before.")] = None,
) -> ConversationPage:
    """The conversations of this token, the last changed first."""
    page = await host.store.page(owner, limit, after)
    return ConversationPage(
        conversations=[ConversationSummary(**_facts(each)) for each in page.conversations], next=page.next
    )


@router.get("/{conversation_id}")
async def conversation(host: Host, owner: Owner, conversation_id: ConversationId) -> StoredConversation:
    """A conversation with its messages."""
    found = await host.store.get(owner, conversation_id)
    if found is None:
        raise not_found("conversation of that id")
    return StoredConversation(**_facts(found), messages=[_message(each) for each in found.messages])


@router.delete("/{conversation_id}", status_code=204)
async def delete_conversation(host: Host, owner: Owner, conversation_id: ConversationId) -> Response:
    """Delete a conversation. A run of it ends."""
    if not await host.store.delete(owner, conversation_id):
        raise not_found("conversation of that id")
    return Response(status_code=204)


def _facts(info: Conversation) -> dict[str, Any]:
    return {
        "conversation_id": info.id,
        "title": info.title,
        "created": datetime.fromtimestamp(info.created, UTC),
        "updated": datetime.fromtimestamp(info.updated, UTC),
        "message_count": info.message_count,
        "total_tokens": info.spent.tokens,
        "cost_usd": info.spent.dollars,
    }


def _message(message: LLMMessage) -> dict[str, Any]:
    """The message without what only its vendor can read."""
    return {name: value for name, value in message.to_dict().items() if name != "provider_extras"}
