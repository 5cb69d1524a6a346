"""`ToolManager`: the executable skills of a `SkillHost`, or of a server, for programs and for agents.

A server answers `GET /skills` with a list of skills, or with one under the key `skills`. Each has an `id`, a
`description` and `parameters`, the JSON Schema of its input. `POST /skills/{id}/invoke` with `{"arguments": {…}}` calls
one; its answer has the fields of `SkillResult`.

>>> manager = ToolManager(SkillHost(builtin=True))                          # doctest: +SKIP
>>> manager.invoke_tool("calculator", {"numbers": [1, 2, 3, 4, 5]}).data    # doctest: +SKIP
{'results': {'mean': 3}, 'count': 5}
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from nbagent.checks import check_number, check_type, invalid
from nbagent.core.current import current
from nbagent.core.render.control_chars import show_control_chars
from nbagent.core.threads import run_in_thread
from nbagent.errors import ConfigurationError, ToolError
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.toolset import Toolset
from nbagent.skills.calls import SkillResult
from nbagent.skills.host import SkillHost
from nbagent.skills.manifest import SkillManifest, tool_name
from nbagent.text import did_you_mean, shortened

if TYPE_CHECKING:
    from pydantic import SecretStr

#: Seconds for which the tools of a server are not asked for again.
LISTED_S = 60.0
#: Bytes of an answer, characters of one that an error repeats.
MAX_ANSWER, ERROR_CHARS = 16 * 2**20, 300

FunctionSchema = dict[str, Any]


class ToolManager(Toolset):
    """The executable skills of a host, or of a server at a URL, as functions that a model can call.

    For a server, `token` is sent as a bearer token, `timeout` is for each request, and a run asks before each call, as
    it does for the tools of an `MCPServer`. With `approve=False` it never asks.

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
        check_number("timeout", timeout, above=0, fix="Pass seconds.")
        check_type("approve", approve, bool)
        self._host = host_or_url if isinstance(host_or_url, SkillHost) else None
        self._url, self._token, self._timeout, self._approve = "", token, timeout, approve
        self.tools = FunctionRegistry() if self._host is None else self._host.tools
        if isinstance(host_or_url, str):
            from pydantic import SecretStr

            parts = urlsplit(host_or_url)
            if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
                expected = "an http or https address without a password"
                raise invalid("url", host_or_url, expected, "Pass a key as token=...")
            self._url = host_or_url.rstrip("/")
            self._token = SecretStr(token) if isinstance(token, str) else token
        #: What a server said of its skills, by the names of their tools, and when.
        self._skills: dict[str, dict[str, Any]] = {}
        self._listed = float("-inf")

    async def prepare(self) -> None:
        """See `Toolset`."""
        await run_in_thread(self._look if self._host is None else self._host.reload)

    def get_available_tools(self) -> list[FunctionSchema]:
        """`{name, description, parameters}` of each tool. Raises `ToolError` if the server does not answer."""
        self._look()
        found = map(self.tools.get_function, self.tools.names())
        # a host has others, which disclose its instructions: theirs depends on the arguments
        return [each.to_dict() for each in found if each is not None and isinstance(each.source, str)]

    def skill_to_function_schema(self, manifest: SkillManifest) -> FunctionSchema:
        """`{name, description, parameters}` of one executable skill of the host."""
        definition = self.tools.get_function(manifest.tool_name)
        if definition is None:
            raise ToolError(f"{manifest.name!r} is not a tool of this manager{self._hint(manifest.name)}")
        return definition.to_dict()

    def get_all_tools_for_openai(self) -> list[dict[str, Any]]:
        """The tools in the form of OpenAI's API."""
        return [{"type": "function", "function": schema} for schema in self.get_available_tools()]

    def describe(self) -> str:
        """A document of all tools, in Markdown."""
        return "\n\n".join(["# Tools", *map(_described, self.get_available_tools())]) + "\n"

    def invoke_tool(self, name: str, arguments: dict[str, Any] | None = None) -> SkillResult:
        """Call a tool. Whatever happens, the answer is a `SkillResult`. Blocks."""
        if self._host is not None:
            return self._host.invoke_sync(name, arguments)
        began = time.perf_counter()
        try:
            self._look()
            skill = next((each for key, each in self._skills.items() if name in (key, each["id"])), None)
            if skill is None:
                raise ToolError(f"There is no tool {name!r}{self._hint(name)}")
            body = {"arguments": arguments or {}}
            answer = self._request("POST", f"/skills/{quote(skill['id'], safe='')}/invoke", body)
            if not isinstance(answer, dict) or not isinstance(answer.get("success"), bool):
                raise ToolError(f"{self._url}: expected a result with success, got {_short(answer)}.")
            wrong, taken = answer.get("error"), answer.get("duration_ms")
            return SkillResult(
                answer["success"],
                answer.get("data"),
                None if wrong is None else show_control_chars(str(wrong)),
                str(answer.get("trace_id") or ""),
                taken if isinstance(taken, float | int) else 0.0,
            )
        except ToolError as error:
            milliseconds = (time.perf_counter() - began) * 1_000
            return SkillResult(False, None, str(error), current.get().call.run_id or "", milliseconds)

    def _hint(self, name: str) -> str:
        known = [each["name"] for each in self.get_available_tools()]
        return did_you_mean(name, known) or f". There are: {', '.join(known) or 'none'}."

    def _look(self) -> None:
        """List a server's skills, if that was not done lately. One that has changed is another tool."""
        if self._host is not None or time.monotonic() < self._listed + LISTED_S:
            return
        answer = self._request("GET", "/skills")
        listed = answer.get("skills") if isinstance(answer, dict) else answer
        if not isinstance(listed, list) or not all(isinstance(each, dict) and each.get("id") for each in listed):
            raise ToolError(f"{self._url}/skills: expected a list of skills with ids, got {_short(answer)}.")
        skills = {tool_name(str(each["id"])): {**each, "id": str(each["id"])} for each in listed}
        for name in set(self.tools.names()) - set(skills):
            self.tools.unregister(name)
        for name, skill in skills.items():
            if skill != self._skills.get(name):
                description = show_control_chars(str(skill.get("description") or skill["id"]))
                about = (name, description, skill.get("parameters") or {}, self._tool(name))
                try:
                    self.tools.add(FunctionDefinition(*about, approve=self._approve, source=f"skills:{self._url}"))
                except ConfigurationError as error:
                    raise ToolError(f"{self._url}/skills: {error}") from None
        self._skills, self._listed = skills, time.monotonic()

    def _tool(self, name: str) -> Callable[..., Any]:
        def call_skill(**arguments: Any) -> dict[str, Any]:
            result = self.invoke_tool(name, arguments)
            if not result.success:
                raise ToolError(result.error or f"{name} failed.", tool=name)
            return {"success": True, "data": result.data}

        return call_skill

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        """The server's answer as JSON data. Raises `ToolError` if there is none."""
        import httpx2
        from pydantic import SecretStr

        headers = {}
        if isinstance(self._token, SecretStr):
            headers = {"Authorization": f"Bearer {self._token.get_secret_value()}"}
        url, data = self._url + path, bytearray()
        try:
            with httpx2.stream(method, url, headers=headers, json=body, timeout=self._timeout) as response:
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > MAX_ANSWER:
                        raise ToolError(f"{url} answered with more than {MAX_ANSWER:,} bytes.")
            if not response.is_success:
                text = _short(data.decode("utf-8", "replace"))
                raise ToolError(f"{method} {url}: status {response.status_code}: {text}")
            return json.loads(data)
        except httpx2.HTTPError as error:
            raise ToolError(f"{self._url} did not answer: {type(error).__name__}: {error}") from None
        except (ValueError, RecursionError):
            raise ToolError(f"{method} {url}: expected JSON, got {_short(bytes(data))}.") from None


def _short(value: Any) -> str:
    return shortened(repr(value), ERROR_CHARS)


def _described(schema: FunctionSchema) -> str:
    parameters = schema["parameters"]
    required = parameters.get("required", ())
    lines = []
    for name, each in parameters.get("properties", {}).items():
        kinds = each.get("type") or " or ".join(str(one.get("type", "any")) for one in each.get("anyOf", ())) or "any"
        about = kinds if name in required else f"{kinds}, optional"
        lines.append(f"- `{name}` ({about}): {each.get('description', '')}".rstrip(": "))
    return "\n\n".join(filter(None, [f"## {schema['name']}", schema["description"], "\n".join(lines)]))
