"""`MCPServer`: an MCP server whose tools an agent uses.

>>> agent.use(MCPServer("npx", "-y", "@modelcontextprotocol/server-filesystem", "/data"))       # doctest: +SKIP
>>> agent.use(MCPServer("https://tickets.example.com/mcp", headers={"Authorization": "…"}))     # doctest: +SKIP
>>> agent.use(*MCPServer.from_config("mcp.json"))                                               # doctest: +SKIP
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from nbagent.checks import check_choice, check_number, check_type, invalid
from nbagent.core.browser import check_possible
from nbagent.core.content.marks import without_marks
from nbagent.core.messages import Content
from nbagent.core.render.control_chars import show_control_chars
from nbagent.errors import ConfigurationError, missing_extra
from nbagent.functions.registry import clean_name
from nbagent.functions.toolset import Toolset
from nbagent.mcp.client.address import Address
from nbagent.mcp.client.config import read_config
from nbagent.mcp.client.connection import Connection
from nbagent.mcp.client.names import fitting_names, name_of_command, name_of_url
from nbagent.mcp.client.resources import Prompt, Resource, fill_prompt, list_prompts, list_resources, read_resource
from nbagent.mcp.client.tool_list import MAX_TEXT, ToolList
from nbagent.text import shortened

#: Characters of a server's name, the prefix of its tools' names.
MAX_NAME = 32


class MCPServer(Toolset):
    """The tools of an MCP server, which is given by a command that starts it or by a URL (streamable HTTP).

    - `env`: variables for the process, which otherwise has only PATH, HOME and a few others; `cwd`: its working folder
    - `headers`, `auth` (an `httpx2.Auth`, such as the OAuth providers of the `mcp` package): only with a URL
    - `name`: the prefix of the tools' names; by default derived from the command or URL
    - `approve`: None asks before calls to tools that the server does not mark as read-only; True asks before all calls,
      False before none
    - `timeout`: the time limit for a call, in seconds; None means the agent's limit

    `agent.use(server)` starts connecting immediately, and a run waits for the connection. The connection ends when
    `agent.aclose()` is called, when this process ends, or when this object is garbage-collected. A dead server is
    restarted once. Revision 2026-07-28 of the protocol and the earlier revisions, which start with a handshake, are
    supported.

    Raises ConfigurationError for wrong arguments. A run raises MCPServerError if the server can't be used.

    >>> MCPServer("uvx", "mcp-server-time", env={"TOKEN": "abc"})
    <MCPServer time: uvx mcp-server-time, env TOKEN, not connected, 0 tools>
    """

    name: str

    def __init__(
        self,
        *command_or_url: str,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: Any = None,
        name: str | None = None,
        approve: bool | None = None,
        timeout: float | None = 60.0,
    ) -> None:
        address = _address(command_or_url, env, cwd, headers, auth)
        check_type("name", name, str, optional=True)
        check_choice("approve", approve, (None, True, False))
        check_number("timeout", timeout, above=0, optional=True, fix="Pass seconds.")
        check_possible("An MCP server", "threads and other processes", "Register Python functions as tools.")
        if find_spec("mcp_types") is None:
            raise missing_extra("MCP", "mcp")
        derived = name_of_url(address.url) if address.url else name_of_command(address.command)
        self.name = clean_name(name)[:MAX_NAME] if name else derived
        self.address = address
        tools = ToolList(self.name, approve=approve, timeout=timeout)
        self.tools = tools.registry
        self.connection = Connection(self.name, address, tools)
        weakref.finalize(self, self.connection.stop).atexit = False

    @classmethod
    def from_config(
        cls, path: str | os.PathLike[str], *names: str, inputs: Mapping[str, str] | None = None
    ) -> list[MCPServer]:
        """Create the servers listed in an editor's or coding agent's `mcp.json`, or only those with the given names.

        `${VAR}` and `${VAR:-default}` are replaced by environment variables. `${workspaceFolder}` is the file's folder
        or, if that folder is hidden (such as `.vscode`), its parent. The value of `${input:key}` comes from `inputs`;
        if it is missing there, you are asked for it. A server with an error is omitted with a warning. Raises
        ConfigurationError if a server in `names` has an error, or if every enabled server has an error. The message
        names the file, the server and the error.
        """
        read = read_config(path, names, inputs)
        names_by_key = {key: name for name, key in fitting_names(read, MAX_NAME).items()}
        return [cls(*options.pop("command"), name=names_by_key[key], **options) for key, options in read.items()]

    def begin(self) -> None:
        """Start connecting in the background."""
        self.connection.begin()

    async def prepare(self) -> None:
        """Wait until the server has listed its tools. Raises MCPServerError if the server can't be used."""
        await self.connection.ready()

    def instructions(self) -> str:
        """The server's instructions for its tools."""
        text = shortened(self.connection.instructions.strip(), MAX_TEXT)
        if not text:
            return ""
        text = without_marks(show_control_chars(text), "mcp_")
        title = f"The server's instructions for its tools {self.name}_…:"
        return f'<mcp_server name="{self.name}">\n{title}\n{text}\n</mcp_server>'

    async def resources(self) -> list[Resource]:
        """The server's resources. Like `read`, `prompts` and `prompt`, raises MCPServerError if the server reports an
        error.
        """
        return await self.connection.ask(list_resources)

    async def read(self, uri: str) -> Content:
        """A resource's content: a string, or parts with images.

        >>> await agent.chat(await server.read("notes://today"))                        # doctest: +SKIP
        """
        return await self.connection.ask(lambda client: read_resource(client, uri))

    async def prompts(self) -> list[Prompt]:
        """The server's prompts."""
        return await self.connection.ask(list_prompts)

    async def prompt(self, name: str, /, **arguments: str) -> Content:
        """A server's prompt as a message.

        >>> await agent.chat(await server.prompt("review", language="Python"))          # doctest: +SKIP
        """
        return await self.connection.ask(lambda client: fill_prompt(client, name, arguments))

    async def aclose(self) -> None:
        """End the connection and the server's process. The next run of an agent that uses the server reconnects."""
        await self.connection.aclose()

    def __repr__(self) -> str:
        names = [("env", self.address.env), ("headers", self.address.headers)]
        given = "".join(f", {kind} {' '.join(values)}" for kind, values in names if values)
        count = len(self.tools)
        tools = f"{count} tool{'' if count == 1 else 's'}"
        return f"<MCPServer {self.name}: {self.address.shown()}{given}, {self.connection.state}, {tools}>"


def _address(
    words: tuple[str, ...],
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
    headers: Mapping[str, str] | None,
    auth: Any,
) -> Address:
    if not words or not words[0] or not all(isinstance(word, str) for word in words):
        example = 'MCPServer("npx", "-y", "some-server") or MCPServer("https://example.com/mcp")'
        raise ConfigurationError(f"MCPServer() expects a URL, or a command as separate words, as in {example}.")
    is_url = words[0].startswith(("https://", "http://"))
    if is_url and len(words) > 1:
        raise ConfigurationError("MCPServer(): expected either a single URL or the words of a command.")
    for name, value, belongs in (("env", env, not is_url), ("headers", headers, is_url)):
        check_type(name, value, Mapping, optional=True)
        if value and not belongs:
            raise ConfigurationError(f"MCPServer(): {name} can't be used with {'a URL' if is_url else 'a command'}.")
        if not all(isinstance(text, str) for pair in (value or {}).items() for text in pair):
            raise invalid(name, value, "a dict of strings", secret=True)
    if is_url:
        return Address(url=words[0], headers=dict(headers or {}), auth=auth)
    return Address(command=words, env=dict(env or {}), cwd=None if cwd is None else os.fspath(cwd))
