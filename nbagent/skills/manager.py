"""`ToolManager`: the executable skills of a `SkillHost` or of a server, for programs and agents.

A server responds to `GET /skills` with `{"skills": […]}`. Each skill has an `id`, a `description` and `parameters`, the
JSON Schema of its input. `POST /skills/{id}/invoke` with `{"arguments": {…}}` calls a skill; the response has the
fields of `SkillResult`.

>>> manager = ToolManager(SkillHost(builtin=True))                          # doctest: +SKIP
>>> manager.invoke_tool("calculator", {"numbers": [1, 2, 3, 4, 5]}).data    # doctest: +SKIP
{'results': {'mean': 3}, 'count': 5}
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
from pydantic import SecretStr, TypeAdapter, ValidationError

from nbagent.checks import check_type, invalid, problem_in
from nbagent.core.background import run_sync
from nbagent.core.render.control_chars import show_control_chars
from nbagent.errors import ConfigurationError, ToolError
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.schema.json_schema import kinds
from nbagent.functions.toolset import CallElsewhere, Toolset
from nbagent.functions.validation import check_parameters, unknown_tool
from nbagent.skills.host import SkillHost
from nbagent.skills.manifest import SkillManifest, tool_name
from nbagent.skills.wire import Skill, SkillResult, Skills
from nbagent.text import shortened


class ToolManager(Toolset):
    """The executable skills of a host, or of a server at a URL, as functions that a model can call.

    For a server, `token` is sent as a bearer token, and `timeout` is the time limit for each request, in seconds. Calls
    need approval, as for the tools of an `MCPServer`; `approve=False` trusts the server.

    `agent.use(ToolManager("http://127.0.0.1:8000"))` offers a server's skills to an agent.
    """

    def __init__(
        self,
        host_or_url: SkillHost | str,
        *,
        token: str | SecretStr | None = None,
        timeout: float = 30.0,
        approve: bool = True,
    ) -> None:
        check_type("host_or_url", host_or_url, SkillHost, str, fix="Pass a SkillHost or the URL of a server.")
        self._host = host_or_url if isinstance(host_or_url, SkillHost) else None
        self._url = "" if isinstance(host_or_url, SkillHost) else host_or_url.rstrip("/")
        parts = urlsplit(self._url)
        if self._host is None and (parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc):
            raise invalid("url", host_or_url, "an http or https address without a password", "Pass a key as token=...")
        self._token = SecretStr(token) if isinstance(token, str) else token
        self._timeout, self._approve = timeout, approve
        self.tools = FunctionRegistry() if self._host is None else self._host.tools
        #: The ids of a server's skills, by the names of their tools.
        self._ids: dict[str, str] = {}

    async def prepare(self) -> None:
        """Get the skills from the server; see `Toolset`. A changed skill becomes a new tool."""
        if self._host is not None:
            await self._host.prepare()
            return
        listed: Skills = await self._request(Skills, "GET", "/skills")
        try:
            self.tools.set_tools([self._tool(skill) for skill in listed.skills])
        except ConfigurationError as error:
            raise ToolError(f"{self._url}/skills: {error}") from None
        self._ids = {tool_name(skill.id): skill.id for skill in listed.skills}

    def _tool(self, skill: Skill) -> FunctionDefinition:
        """Make a server's skill a tool. Raises `ConfigurationError` if it can't be one."""
        name, description = tool_name(skill.id), show_control_chars(skill.description or skill.id)
        call, source = CallElsewhere(skill.id, self._call), f"skills:{self._url}"
        tool = FunctionDefinition(name, description, skill.parameters, call, approve=self._approve, source=source)
        check_parameters(tool)
        return tool

    def get_available_tools(self) -> list[dict[str, Any]]:
        """`{name, description, parameters}` for each tool. Raises `ToolError` if the server does not respond."""
        if self._host is None:
            run_sync(self.prepare())
        found = map(self.tools.get_function, self.tools.names())
        # a host's tools for instructions are not skills; their source depends on the arguments
        return [tool.to_dict() for tool in found if tool is not None and isinstance(tool.source, str)]

    def skill_to_function_schema(self, manifest: SkillManifest) -> dict[str, Any]:
        """`{name, description, parameters}` for one of the host's executable skills."""
        definition = self.tools.get_function(manifest.tool_name)
        if definition is None:
            raise unknown_tool(manifest.name, self.tools.names())
        return definition.to_dict()

    def get_all_tools_for_openai(self) -> list[dict[str, Any]]:
        """The tools in the format of OpenAI's API."""
        return [{"type": "function", "function": schema} for schema in self.get_available_tools()]

    def describe(self) -> str:
        """A Markdown document about all tools."""
        return "\n\n".join(["# Tools", *map(_described, self.get_available_tools())]) + "\n"

    def invoke_tool(self, name: str, arguments: dict[str, Any] | None = None) -> SkillResult:
        """Call a tool. Always returns a `SkillResult`, even for an error. Blocks."""
        if self._host is not None:
            return self._host.invoke_sync(name, arguments)
        return run_sync(self._invoke(name, arguments))

    async def _invoke(self, name: str, arguments: dict[str, Any] | None) -> SkillResult:
        try:
            if tool_name(name) not in self._ids:
                await self.prepare()
            if (skill_id := self._ids.get(tool_name(name))) is None:
                raise unknown_tool(name, self._ids)
            path = f"/skills/{quote(skill_id, safe='')}/invoke"
            found: SkillResult = await self._request(SkillResult, "POST", path, {"arguments": arguments or {}})
        except ToolError as error:
            return SkillResult(False, error=str(error))
        return replace(found, error=found.error and show_control_chars(found.error))

    async def _call(self, skill_id: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self._invoke(skill_id, arguments)
        if not result.success:
            raise ToolError(result.error or f"{skill_id} failed.")
        return {"success": True, "data": result.data}

    async def _request(self, kind: type[Any], method: str, path: str, body: Any = None) -> Any:
        """Send a request and parse the response. Raises `ToolError` if there is no valid response."""
        headers = {"Authorization": f"Bearer {self._token.get_secret_value()}"} if self._token else {}
        try:
            async with asyncio.timeout(self._timeout), httpx2.AsyncClient(headers=headers, timeout=None) as client:
                response = await client.request(method, self._url + path, json=body)
            if response.is_success:
                return TypeAdapter(kind).validate_json(response.content)
            reason = f"status {response.status_code}: {shortened(repr(response.text), 300)}"
        except TimeoutError:
            reason = f"the response did not end within {self._timeout:g} s"
        except httpx2.HTTPError as error:
            reason = f"the server did not respond: {type(error).__name__}: {error}"
        except ValidationError as error:
            reason = f"the response is invalid: {problem_in(error)}"
        raise ToolError(f"{method} {self._url}{path}: {reason}")


def _described(schema: dict[str, Any]) -> str:
    parameters = schema["parameters"]
    lines = []
    for name, value in parameters.get("properties", {}).items():
        kind = " or ".join(kinds(value, parameters)) + ("" if name in parameters.get("required", ()) else ", optional")
        description = value.get("description", "") if isinstance(value, dict) else ""
        lines.append(f"- `{name}` ({kind}): {description}".rstrip(": "))
    text = "\n\n".join(filter(None, [f"## {schema['name']}", schema["description"], "\n".join(lines)]))
    return show_control_chars(text)
