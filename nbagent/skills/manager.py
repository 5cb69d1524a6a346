"""`ToolManager`: the tools of a `SkillHost`, or of one behind an address, for programs and for other agents.

>>> manager = ToolManager(SkillHost(builtin=True))                          # doctest: +SKIP
>>> manager.invoke_tool("calculator", {"numbers": [1, 2, 3, 4, 5]}).data    # doctest: +SKIP
{'results': {'mean': 3}, 'count': 5}
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

from nbagent.checks import check_number, check_type
from nbagent.core.current import current
from nbagent.errors import ToolError
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.toolset import Toolset
from nbagent.skills.host import SkillHost
from nbagent.skills.manifest import SkillManifest
from nbagent.skills.remote import RemoteSkills
from nbagent.skills.result import SkillResult
from nbagent.text import did_you_mean

if TYPE_CHECKING:
    from pydantic import SecretStr

#: Seconds for which the tools of a server are not asked for again.
LISTED_S = 60.0
MAX_CACHED = 256

FunctionSchema = dict[str, Any]


class ToolManager(Toolset):
    """The executable skills of a host, or of a server at a URL, as functions that a model can call.

    The server speaks the HTTP API of skills (`GET /skills`, `POST /skills/{id}/invoke`, `GET /healthz`); `token` is
    sent as a bearer token, `timeout` is for each request. With `cache_ttl`, the result of a successful call is given
    again for so many seconds if the same tool is called with the same arguments.

    `agent.use(ToolManager("http://127.0.0.1:8000"))` offers a server's skills to an agent.
    """

    def __init__(
        self,
        host_or_url: SkillHost | str,
        *,
        token: str | SecretStr | None = None,
        timeout: float = 30.0,
        cache_ttl: float | None = None,
    ) -> None:
        check_type("host_or_url", host_or_url, SkillHost, str, fix="Pass a SkillHost or the URL of a server.")
        check_number("cache_ttl", cache_ttl, above=0, optional=True, fix="Pass seconds.")
        self.cache_ttl = cache_ttl
        self._host = host_or_url if isinstance(host_or_url, SkillHost) else None
        self._remote = None
        if isinstance(host_or_url, str):
            from pydantic import SecretStr

            secret = SecretStr(token) if isinstance(token, str) else token
            self._remote = RemoteSkills(host_or_url, secret, timeout)
        self.tools = FunctionRegistry() if self._host is None else self._host.tools
        #: The ids of a server's skills by the names of their tools, and when they were listed.
        self._ids: dict[str, str] = {}
        self._listed = float("-inf")
        self._results: dict[str, tuple[float, SkillResult]] = {}

    # -- what there is ------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """See `Toolset`."""
        from nbagent.core.threads import run_in_thread

        await run_in_thread(self._look)

    def refresh(self) -> None:
        """Look for new and changed skills now, and forget cached results."""
        self._listed = float("-inf")
        self._results.clear()
        if self._host is not None:
            self._host.reload()
        self._look()

    def get_available_tools(self) -> list[FunctionSchema]:
        """`{name, description, parameters}` of each tool. Raises `ToolError` if the server does not answer."""
        self._look()
        return [definition.to_dict() for definition in self._definitions()]

    def skill_to_function_schema(self, manifest: SkillManifest) -> FunctionSchema:
        """`{name, description, parameters}` of one executable skill of the host.

        The description is the manifest's, else the docstring's, else the document's.
        """
        definition = self.tools.get_function(manifest.tool_name)
        if definition is None:
            raise ToolError(f"{manifest.name!r} is not a tool of this manager{_hint(manifest.name, self._names())}")
        return definition.to_dict()

    def get_all_tools_for_openai(self) -> list[dict[str, Any]]:
        """The tools in the form of OpenAI's API."""
        return [{"type": "function", "function": schema} for schema in self.get_available_tools()]

    def describe(self) -> str:
        """A document of all tools, in Markdown."""
        return "\n\n".join(["# Tools", *map(_described, self.get_available_tools())]) + "\n"

    def health(self) -> dict[str, Any]:
        """`{"status": "ok", "tools": …}`; of a server, what it says. Never raises."""
        try:
            answer = self._remote.health() if self._remote is not None else {"status": "ok"}
            return {**answer, "tools": len(self.get_available_tools())}
        except ToolError as error:
            return {"status": "unavailable", "error": str(error)}

    # -- calls --------------------------------------------------------------------------------------------------------

    def invoke_tool(self, name: str, arguments: dict[str, Any] | None = None) -> SkillResult:
        """Call a tool. Whatever happens, the answer is a `SkillResult`. Blocks."""
        arguments = arguments or {}
        key = json.dumps([name, arguments], sort_keys=True, default=repr)
        kept = self._results.get(key)
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        began = time.perf_counter()
        try:
            result = self._invoke(name, arguments)
        except ToolError as error:
            milliseconds = (time.perf_counter() - began) * 1_000
            return SkillResult(False, None, str(error), current.get().call.run_id or "", milliseconds)
        if result.success and self.cache_ttl is not None:
            self._results[key] = (time.monotonic() + self.cache_ttl, result)
            while len(self._results) > MAX_CACHED:
                del self._results[next(iter(self._results))]
        return result

    def execute_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool and return its data. Raises `ToolError` if it fails. Blocks."""
        result = self.invoke_tool(name, arguments)
        if not result.success:
            raise ToolError(result.error or f"{name} failed.", tool=name)
        return result.data

    def _invoke(self, name: str, arguments: dict[str, Any]) -> SkillResult:
        if self._host is not None:
            return self._host.invoke_sync(name, arguments)
        assert self._remote is not None
        self._look()
        skill_id = self._ids.get(name, name)
        if skill_id not in self._ids.values():
            raise ToolError(f"There is no tool {name!r}{_hint(name, self._names())}")
        return self._remote.invoke(skill_id, arguments)

    def _names(self) -> list[str]:
        return [definition.name for definition in self._definitions()]

    def _definitions(self) -> list[FunctionDefinition]:
        """The tools that are skills; a host has others, which disclose its instructions."""
        found = [self.tools.get_function(name) for name in self.tools.names()]
        return [each for each in found if each is not None and isinstance(each.source, str)]

    def _look(self) -> None:
        """List a server's skills, if that was not done lately."""
        if self._remote is None or time.monotonic() < self._listed + LISTED_S:
            return
        skills = self._remote.list()
        self._ids = {}
        for skill in skills:
            name = re.sub(r"[^a-zA-Z0-9_]", "_", skill["id"])[:64]
            if self._ids.setdefault(name, skill["id"]) == skill["id"]:
                self.tools.add(
                    FunctionDefinition(
                        name,
                        skill["description"] or skill["id"],
                        skill["parameters"],
                        self._tool(name),
                        source=f"skill:{skill['id']}",
                    )
                )
        for name in self.tools.names():
            if name not in self._ids:
                self.tools.unregister(name)
        self._listed = time.monotonic()

    def _tool(self, name: str) -> Any:
        known = self.tools.get_function(name)
        if known is not None:  # the same function, so that what a person allowed is found again
            return known.func

        def call_skill(**arguments: Any) -> dict[str, Any]:
            return {"success": True, "data": self.execute_tool(name, arguments)}

        return call_skill


def _hint(name: str, known: list[str]) -> str:
    return did_you_mean(name, known) or f". There are: {', '.join(known) or 'none'}."


def _described(schema: FunctionSchema) -> str:
    parameters = schema["parameters"]
    required = parameters.get("required", ())
    lines = []
    for name, each in parameters.get("properties", {}).items():
        about = _type(each) + ("" if name in required else ", optional")
        lines.append(f"- `{name}` ({about}): {each.get('description', '')}".rstrip(": "))
    return "\n\n".join(filter(None, [f"## {schema['name']}", schema["description"], "\n".join(lines)]))


def _type(schema: dict[str, Any]) -> str:
    kinds = schema.get("type") or [each.get("type", "any") for each in schema.get("anyOf", ())] or "any"
    return kinds if isinstance(kinds, str) else " or ".join(map(str, kinds))
