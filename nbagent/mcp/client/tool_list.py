"""Keeps a registry of a server's tools in sync with the server's list."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from nbagent.core.threads import run_in_thread
from nbagent.errors import ConfigurationError
from nbagent.functions.registry import MAX_NAME, FunctionDefinition, FunctionRegistry
from nbagent.functions.toolset import CallElsewhere
from nbagent.functions.validation import check_parameters
from nbagent.mcp.client.names import fitting_names
from nbagent.mcp.client.resources import pages
from nbagent.text import shortened

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

logger = logging.getLogger("nbagent")

#: Characters of each text from a server, such as a description, an error or a question.
MAX_TEXT = 8_000

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


class ToolList:
    """A server's tools. `registry` contains them under names that providers accept.

    `changed` is set when the server reports a change. `approve` decides which calls need approval: None means calls to
    tools that the server does not mark as read-only, True all calls, False none. Once a tool needs approval, it always
    does, whatever the server says later. A tool whose description or schema changes counts as new, so its approvals for
    the session no longer apply.
    """

    def __init__(self, server: str, *, approve: bool | None, timeout: float | None) -> None:
        self.registry = FunctionRegistry()
        self.changed = asyncio.Event()
        self._server, self._approve, self._timeout = server, approve, timeout
        #: The server's names of tools that need approval.
        self._need_approval: set[str] = set()
        #: The tool of each registered name. Removed tools keep theirs, so a name never passes to another tool.
        self._names: dict[str, str] = {}

    async def update(self, client: Client, call: Call) -> None:
        """Read the server's list of tools."""
        listed: dict[str, Tool] = {}
        if client.server_capabilities.tools is not None:
            async for page in pages(client.list_tools):
                listed |= {f"{self._server}_{tool.name}": tool for tool in page.tools}
        self._names = fitting_names(listed, MAX_NAME, self._names)
        tools = [(name, listed[original]) for name, original in self._names.items() if original in listed]
        # checking a schema takes milliseconds, and a server may list hundreds
        found = await run_in_thread(lambda: [self._definition(name, tool, call) for name, tool in tools])
        self.registry.set_tools(filter(None, found))

    def _definition(self, name: str, tool: Tool, call: Call) -> FunctionDefinition | None:
        hints = tool.annotations
        if self._approve or (self._approve is None and not (hints and hints.read_only_hint)):
            self._need_approval.add(tool.name)
        try:
            definition = FunctionDefinition(
                name,
                shortened(tool.description or tool.title or tool.name, MAX_TEXT),
                tool.input_schema,
                CallElsewhere(tool.name, call),
                approve=tool.name in self._need_approval,
                timeout=self._timeout,
                source=f"mcp:{self._server}",
            )
            check_parameters(definition)
        except ConfigurationError as error:  # one bad tool must not affect the others
            logger.warning("the tool %s of the MCP server %s is omitted: %s", tool.name, self._server, error)
            return None
        return definition
