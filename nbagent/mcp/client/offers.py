"""A server's resources and prompts, in addition to its tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from nbagent.core.content.images import joined_content
from nbagent.core.messages import Content
from nbagent.mcp.client.results import contents_part, part_of

if TYPE_CHECKING:
    from mcp import Client

#: The maximum number of pages in a list.
MAX_PAGES = 100


class Resource(NamedTuple):
    """Something to read. A `uri` with `{name}` in it is a template: fill it in."""

    uri: str
    name: str
    description: str
    media_type: str


class Prompt(NamedTuple):
    """A server's prompt template. `arguments` maps names to whether each is required."""

    name: str
    description: str
    arguments: dict[str, bool]


async def pages(request: Callable[..., Awaitable[Any]]) -> AsyncIterator[Any]:
    """The pages of a list: `pages(client.list_prompts)`."""
    cursor = None
    for _ in range(MAX_PAGES):
        page = await request(cursor=cursor, cache_mode="refresh")
        yield page
        if (cursor := page.next_cursor) is None:
            return


async def resources_of(client: Client) -> list[Resource]:
    """The server's resources and resource templates."""
    if client.server_capabilities.resources is None:
        return []
    found = [(each.uri, each) async for page in pages(client.list_resources) for each in page.resources]
    async for page in pages(client.list_resource_templates):
        found += [(each.uri_template, each) for each in page.resource_templates]
    return [Resource(uri, each.title or each.name, each.description or "", each.mime_type or "") for uri, each in found]


async def read(client: Client, uri: str) -> Content:
    """A resource's content."""
    contents = (await client.read_resource(uri)).contents
    return joined_content(map(contents_part, contents))


async def prompts_of(client: Client) -> list[Prompt]:
    """The server's prompts."""
    if client.server_capabilities.prompts is None:
        return []
    return [
        Prompt(each.name, each.description or "", {arg.name: bool(arg.required) for arg in each.arguments or ()})
        async for page in pages(client.list_prompts)
        for each in page.prompts
    ]


async def filled(client: Client, prompt: str, arguments: dict[str, str]) -> Content:
    """A prompt as one text. If it includes an assistant's answers, each message begins with its speaker."""
    messages = (await client.get_prompt(prompt, arguments)).messages
    is_dialogue = any(message.role != "user" for message in messages)
    parts: list[dict[str, Any]] = []
    for message in messages:
        space = "\n\n" if parts else ""
        parts.append({"type": "text", "text": f"{space}{message.role}: " if is_dialogue else space})
        parts.append(part_of(message.content))
    return joined_content(parts)
