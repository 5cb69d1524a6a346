"""Converts a client's prompt to a message, and the agent's events to updates for the client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import acp
from acp import schema

from nbagent.agent.plan import UPDATE_PLAN, plan_in
from nbagent.core import events
from nbagent.core.content.images import images_in
from nbagent.core.history.history import without_drafts
from nbagent.core.messages import Content, LLMMessage, Usage
from nbagent.core.results import AgentResult
from nbagent.errors import ConfigurationError
from nbagent.text import shortened

#: Characters of the arguments in a call's title.
TITLE_CHARS = 100
#: The protocol's statuses for a plan's steps.
_PLAN: dict[str, schema.PlanEntryStatus] = {"pending": "pending", "doing": "in_progress", "done": "completed"}


def parts_of(prompt: Iterable[Any]) -> list[dict[str, Any]]:
    """Convert a prompt to content parts. Raises ConfigurationError for content that the agent can't read.

    >>> parts_of([acp.resource_link_block("notes.txt", "file:///home/ada/notes.txt")])
    [{'type': 'text', 'text': '[notes.txt](file:///home/ada/notes.txt)'}]
    """
    return [_part(block) for block in prompt]


def _part(block: Any) -> dict[str, Any]:
    match block:
        case schema.TextContentBlock():
            return _text(block.text)
        case schema.ImageContentBlock():
            return {"type": "image", "media_type": block.mime_type, "data": block.data}
        case schema.ResourceContentBlock():
            return _text(f"[{block.title or block.name}]({block.uri})")
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as resource):
            return _text(f"\n{resource.uri}:\n\n{resource.text}\n")
        case schema.EmbeddedResourceContentBlock(resource=schema.BlobResourceContents() as resource):
            if (resource.mime_type or "").startswith("image/"):
                return {"type": "image", "media_type": resource.mime_type, "data": resource.blob}
            return _text(f"[{resource.uri}]({resource.uri})")
    raise ConfigurationError(f"The agent can't read content of type {block.type!r}. Send text, images or resources.")


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def updates_of(event: events.AnyEvent) -> Iterator[Any]:
    """Yield the client updates for an event of the run."""
    metadata = event.metadata
    if event.tool_name == UPDATE_PLAN:
        yield from _updates_of_plan(event)
        return
    match event:
        case events.Text():
            yield acp.update_agent_message_text(event.content)
        case events.Thinking():
            yield acp.update_agent_thought_text(event.content)
        case events.Retry() | events.Http() if event.content:
            yield acp.update_agent_thought_text(f"\n{event.content}\n")
        case events.Limit():
            yield acp.update_agent_message_text(f"\n{event.content}")
        case events.TurnDone() if event.message is not None:
            for image in images_in(event.message.content):
                yield acp.update_agent_message(acp.image_block(image.to_base64(), image.media_type))
        case events.ToolCall():
            title = title_of(event.tool_name or "", event.tool_arguments or {})
            yield acp.start_tool_call(
                metadata["tool_call_id"], title, kind="other", status="pending", raw_input=event.tool_arguments
            )
        case events.ToolStarted():
            yield acp.update_tool_call(metadata["tool_call_id"], status="in_progress")
        case events.ToolProgress():
            yield acp.update_tool_call(metadata["tool_call_id"], content=list(_blocks(event.content)))
        case events.ToolResult() if event.outcome is not None:
            status: Any = "failed" if event.outcome.is_error else "completed"
            blocks = list(_blocks(event.outcome.content))
            yield acp.update_tool_call(metadata["tool_call_id"], status=status, content=blocks)


def _updates_of_plan(event: events.AnyEvent) -> Iterator[Any]:
    """The plan that a call wrote, without dropped steps, or the call itself if it wrote none."""
    if not isinstance(event, events.ToolResult) or event.outcome is None:
        return
    if plan := plan_in(event):
        entries = [acp.plan_entry(row.step, status=_PLAN[row.status]) for row in plan if row.status in _PLAN]
        yield acp.update_plan(entries)
        return
    status: Any = "failed" if event.outcome.is_error else "completed"
    yield acp.start_tool_call(
        event.metadata["tool_call_id"],
        title_of(UPDATE_PLAN, event.outcome.call.arguments),
        kind="other",
        status=status,
        content=list(_blocks(event.outcome.content)),
        raw_input=event.outcome.call.arguments,
    )


def title_of(tool: str, arguments: dict[str, Any]) -> str:
    """A one-line description of a tool call."""
    return f"{tool} {shortened(json.dumps(arguments, ensure_ascii=False), TITLE_CHARS)}" if arguments else tool


def replayed(messages: Sequence[LLMMessage]) -> Iterator[Any]:
    """Yield the client updates that show a stored conversation."""
    for message in without_drafts(messages):
        if message.role == "tool":
            status: Any = "failed" if message.is_error else "completed"
            blocks = list(_blocks(message.content))
            yield acp.update_tool_call(message.tool_call_id or "", status=status, content=blocks)
        elif message.opens_turn:
            yield from map(acp.update_user_message, _content_blocks(message.content))
        elif message.role == "assistant":
            yield from map(acp.update_agent_message, _content_blocks(message.content))
            for call in message.tool_calls or ():
                title = title_of(call.name, call.arguments)
                yield acp.start_tool_call(
                    call.id or "", title, kind="other", status="pending", raw_input=call.arguments
                )


def _blocks(content: Content) -> Iterator[schema.ContentToolCallContent]:
    return map(acp.tool_content, _content_blocks(content))


def _content_blocks(content: Content) -> Iterator[Any]:
    for part in [_text(content)] if isinstance(content, str) else content:
        if part.get("type") == "text" and part["text"]:
            yield acp.text_block(part["text"])
        for image in images_in([part]):
            yield acp.image_block(image.to_base64(), image.media_type)


def context_update(usage: Usage, size: int, dollars: float) -> schema.UsageUpdate:
    """An update with the tokens used, the size of the model's context window, and the session's cost so far."""
    cost = schema.Cost(amount=dollars, currency="USD")
    return schema.UsageUpdate(session_update="usage_update", used=usage.total_tokens, size=size, cost=cost)


def usage_of(usage: Usage) -> schema.Usage:
    """Convert token counts to the protocol's type."""
    return schema.Usage(
        total_tokens=usage.total_tokens,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        thought_tokens=usage.reasoning_tokens,
        cached_read_tokens=usage.cache_read_tokens,
        cached_write_tokens=usage.cache_write_tokens,
    )


def stop_reason(result: AgentResult) -> schema.StopReason:
    """The protocol's stop reason for a run."""
    if result.status == "blocked":
        return "refusal"
    if result.status == "truncated" or (result.limit_reason or "").endswith("tokens"):
        return "max_tokens"
    return "max_turn_requests" if result.status == "limit" else "end_turn"
