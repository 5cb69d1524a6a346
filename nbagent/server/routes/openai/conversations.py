"""`/v1/conversations`: the conversations that responses can continue."""

from __future__ import annotations

from time import time
from typing import Annotated, Any

from fastapi import APIRouter
from openai.types.conversations import Conversation, ConversationDeletedResource
from pydantic import Field

from nbagent.core.messages import new_id
from nbagent.server.conversations.store import Spent
from nbagent.server.problems import not_found
from nbagent.server.routes.dependencies import MAX_MESSAGES, Host, Owner
from nbagent.server.routes.openai.body import BodyPart
from nbagent.server.routes.openai.errors import unsupported
from nbagent.server.routes.openai.items import ItemsPage, page_of_items, stored_items
from nbagent.server.routes.openai.responses import InputItem, merged

router = APIRouter(prefix="/v1/conversations")


class NewConversation(BodyPart):
    """The body of `POST /v1/conversations`."""

    items: Annotated[list[InputItem], Field(max_length=MAX_MESSAGES)] | None = None
    metadata: dict[str, str] | None = Field(None, description="Returned, but not stored.")


@router.post("")
async def create_conversation(host: Host, owner: Owner, body: NewConversation) -> Conversation:
    """Start a conversation, optionally with messages."""
    messages = merged(body.items or ())
    if any(message.role == "system" for message in messages):
        raise unsupported(
            "items", "a conversation can't contain system text. Send it as the instructions of each response."
        )
    conversation_id = new_id("conv")
    async with host.store.turn(owner, conversation_id) as turn:
        named = [message.replace(message_id=new_id("msg")) for message in messages]
        await host.store.save(owner, Spent(), turn=turn, messages=named)
    return _shown(conversation_id, time(), body.metadata)


@router.get("/{conversation_id}")
async def retrieve_conversation(host: Host, owner: Owner, conversation_id: str) -> Conversation:
    """Return the id and creation time of a conversation."""
    return _shown(conversation_id, (await host.conversation(owner, conversation_id)).created)


@router.delete("/{conversation_id}")
async def delete_conversation(host: Host, owner: Owner, conversation_id: str) -> ConversationDeletedResource:
    """Delete a conversation with its items. If it has a run in progress, that run ends."""
    if not await host.store.delete(owner, conversation_id):
        raise not_found("conversation with that id")
    return ConversationDeletedResource(id=conversation_id, deleted=True, object="conversation.deleted")


@router.get("/{conversation_id}/items")
async def list_items(host: Host, owner: Owner, conversation_id: str, page: ItemsPage) -> dict[str, Any]:
    """Return the items of a conversation, by default newest first."""
    found = await host.conversation(owner, conversation_id)
    return page_of_items(list(stored_items(conversation_id, found.messages)), page)


def _shown(conversation_id: str, created: float, metadata: dict[str, str] | None = None) -> Conversation:
    return Conversation(id=conversation_id, created_at=int(created), metadata=metadata or {}, object="conversation")
