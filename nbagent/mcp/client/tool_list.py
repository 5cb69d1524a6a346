"""A server's tools as a registry's tools, kept in step with the server's list."""

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
from nbagent.mcp.client.offers import pages
from nbagent.text import shortened

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

logger = logging.getLogger("nbagent")

#: Characters of each text from a server: a description, an error, a question.
MAX_TEXT = 8_000

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


class ToolList:
    """`registry` has the tools, by names that providers accept. `changed` is set when the server reports a change.

    `approve` says which calls need approval: None for tools that the server does not mark as read-only, else all or
    none. A tool that once needed approval keeps needing it, whatever the server says later. A tool whose description or
    schema changes counts as new: approvals for the session no longer apply.
    """

    def __init__(self, server: str, *, approve: bool | None, timeout: float | None) -> None:
        self.registry = FunctionRegistry()
        self.changed = asyncio.Event()
        self._server, self._approve, self._timeout = server, approve, timeout
        #: The tools that need approval, by the server's names.
        self._approved: set[str] = set()
        #: The tool of each registered name. Names of removed tools are kept: a name never passes to another tool.
        self._names: dict[str, str] = {}

    async def update(self, client: Client, call: Call) -> None:
        """Ask the server for its tools."""
        listed: dict[str, Tool] = {}
        if client.server_capabilities.tools is not None:
            async for page in pages(client.list_tools):
                listed |= {f"{self._server}_{tool.name}": tool for tool in page.tools}
        self._names = fitting_names(listed, MAX_NAME, self._names)
        tools = [(name, listed[each]) for name, each in self._names.items() if each in listed]
        # checking a schema takes milliseconds, and a server may list hundreds
        found = await run_in_thread(lambda: [self._definition(name, tool, call) for name, tool in tools])
        self.registry.set_tools([each for each in found if each is not None])

    def _definition(self, name: str, tool: Tool, call: Call) -> FunctionDefinition | None:
        marks = tool.annotations
        if self._approve or (self._approve is None and not (marks and marks.read_only_hint)):
            self._approved.add(tool.name)
        try:
            definition = FunctionDefinition(
                name,
                shortened(tool.description or tool.title or tool.name, MAX_TEXT),
                tool.input_schema,
                CallElsewhere(tool.name, call),
                approve=tool.name in self._approved,
                timeout=self._timeout,
                source=f"mcp:{self._server}",
            )
            check_parameters(definition)
        except ConfigurationError as error:  # one bad tool must not affect the others
            logger.warning("the tool %s of the MCP server %s is left out: %s", tool.name, self._server, error)
            return None
        return definition
