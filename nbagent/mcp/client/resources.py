"""Reads a server's resources and prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from nbagent.core.content.images import joined_content
from nbagent.core.messages import Content
from nbagent.mcp.client.results import contents_part, part_of

if TYPE_CHECKING:
    from mcp import Client

#: How many pages of a list are read.
MAX_PAGES = 100


class Resource(NamedTuple):
    """A resource that can be read. If its `uri` contains a `{name}`, it is a template to fill in."""

    uri: str
    name: str
    description: str
    media_type: str


class Prompt(NamedTuple):
    """A server's prompt template. `arguments` maps each argument's name to whether it is required."""

    name: str
    description: str
    arguments: dict[str, bool]


async def pages(request: Callable[..., Awaitable[Any]]) -> AsyncIterator[Any]:
    """Yield the pages of a list, as in `pages(client.list_prompts)`."""
    cursor = None
    for _ in range(MAX_PAGES):
        page = await request(cursor=cursor, cache_mode="refresh")
        yield page
        if (cursor := page.next_cursor) is None:
            return


async def list_resources(client: Client) -> list[Resource]:
    """Return the server's resources and resource templates."""
    if client.server_capabilities.resources is None:
        return []
    found = [(item.uri, item) async for page in pages(client.list_resources) for item in page.resources]
    async for page in pages(client.list_resource_templates):
        found += [(item.uri_template, item) for item in page.resource_templates]
    return [Resource(uri, item.title or item.name, item.description or "", item.mime_type or "") for uri, item in found]


async def read_resource(client: Client, uri: str) -> Content:
    """Return a resource's content."""
    return joined_content(map(contents_part, (await client.read_resource(uri)).contents))


async def list_prompts(client: Client) -> list[Prompt]:
    """Return the server's prompts."""
    if client.server_capabilities.prompts is None:
        return []
    return [
        Prompt(prompt.name, prompt.description or "", {arg.name: bool(arg.required) for arg in prompt.arguments or ()})
        async for page in pages(client.list_prompts)
        for prompt in page.prompts
    ]


async def fill_prompt(client: Client, prompt: str, arguments: dict[str, str]) -> Content:
    """Return a filled-in prompt as one message. If the prompt also contains assistant messages, each original message
    starts with its role.
    """
    messages = (await client.get_prompt(prompt, arguments)).messages
    is_dialogue = any(message.role != "user" for message in messages)
    parts: list[dict[str, Any]] = []
    for message in messages:
        space = "\n\n" if parts else ""
        parts.append({"type": "text", "text": f"{space}{message.role}: " if is_dialogue else space})
        parts.append(part_of(message.content))
    return joined_content(parts)
