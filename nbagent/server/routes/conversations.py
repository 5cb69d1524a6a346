"""`/agent/conversations`: the caller's stored conversations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.responses import Response

from nbagent.core.messages import LLMMessage
from nbagent.server.problems import not_found
from nbagent.server.routes.dependencies import ID_PATTERN, Host, Owner

router = APIRouter(prefix="/agent/conversations", tags=["conversations"])

ConversationId = Annotated[str, Path(pattern=ID_PATTERN)]


class ConversationSummary(BaseModel):
    """A conversation without its messages. The title is the start of its first prompt."""

    model_config = ConfigDict(from_attributes=True)

    conversation_id: str = Field(validation_alias="id")
    title: str
    created: datetime
    updated: datetime
    message_count: int
    total_tokens: int = Field(validation_alias=AliasPath("spent", "tokens"))
    cost_usd: float = Field(validation_alias=AliasPath("spent", "dollars"))


class ConversationPage(BaseModel):
    """Some conversations, most recently changed first. For the next page, pass `next` as `after`."""

    conversations: list[ConversationSummary]
    next: str | None


class StoredConversation(ConversationSummary):
    """A conversation with its messages, each with its `role`, `content` and other fields."""

    messages: Annotated[list[dict[str, Any]], BeforeValidator(lambda messages: list(map(_shown, messages)))]


@router.get("")
async def conversations(
    host: Host,
    owner: Owner,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: Annotated[str | None, Query(max_length=300, description="The previous page's `next`.")] = None,
) -> ConversationPage:
    """This token's conversations, most recently changed first."""
    page = await host.store.page(owner, limit, after)
    found = [ConversationSummary.model_validate(stored) for stored in page.conversations]
    return ConversationPage(conversations=found, next=page.next)


@router.get("/{conversation_id}")
async def conversation(host: Host, owner: Owner, conversation_id: ConversationId) -> StoredConversation:
    """A conversation with its messages."""
    return StoredConversation.model_validate(await host.conversation(owner, conversation_id))


@router.delete("/{conversation_id}", status_code=204)
async def delete_conversation(host: Host, owner: Owner, conversation_id: ConversationId) -> Response:
    """Delete a conversation. If it has a run in progress, that run ends."""
    if not await host.store.delete(owner, conversation_id):
        raise not_found("conversation with that id")
    return Response(status_code=204)


def _shown(message: LLMMessage) -> dict[str, Any]:
    """A message without provider data."""
    return {name: value for name, value in message.to_dict().items() if name != "provider_extras"}
