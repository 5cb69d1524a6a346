"""Cases for the conformance kit: a provider, its server's dialect, and conversations between the two.

To check your own provider, pass a function that creates it and its server's dialect:

    case = Case("mine", ChatDialect(), lambda url, **options: MyProvider(base_url=url, **options))
    asyncio.run(check_one_tool_call(case))

Your own format is a subclass of `dialects.base.Dialect`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from nbagent import Agent
from nbagent.core.events import Event, Retry, Text, Thinking, ToolCallDelta
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.providers import LLMProvider, create_provider
from nbagent.providers.catalog import CATALOG
from support.dialects.base import Dialect
from support.dialects.providers import DIALECTS, dialect_of
from support.dialects.script import Failure, Reply, call, reply, thought
from support.dialects.server import KEY, ProviderServer, Script
from support.requests import streamed

FIND = {
    "name": "find",
    "description": "Find files.",
    "parameters": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where to look.", "minLength": 1},
            "kind": {"enum": ["file", "folder", None], "default": None, "title": "Kind"},
            "depth": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}], "default": None},
            "filters": {"type": "array", "items": {"$ref": "#/$defs/Filter"}},
            "more": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["path"],
        "additionalProperties": False,
        "$defs": {"Filter": {"type": "object", "properties": {"suffix": {"const": ".py"}}}},
    },
}
NOW = {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}
TOOLS = [FIND, NOW]
#: Names, and schemas of older drafts, that some providers refuse.
ODD_TOOLS = [
    {"name": name, "description": "", "parameters": {"$schema": "http://json-schema.org/draft-07/schema#", **schema}}
    for name, schema in {
        "天气": {"type": "object", "properties": {"城市": {"type": "string"}}, "required": ["城市"]},
        "either": {"properties": {"$filter": {}}, "anyOf": [{"required": ["$filter"]}, {"$ref": "#/definitions/Old"}]},
        "any_of_two": {"oneOf": [{"properties": {"kind": {"const": n}, "n": {"type": "array"}}} for n in "ab"]},
        "tree": {"$ref": "#/definitions/Tree"},
    }.items()
]
_OLD = {"minimum": 0, "exclusiveMinimum": True, "type": "number"}
_TREE = {"left": {"$ref": "#/definitions/Tree", "description": "Left."}, "pair": {"items": [_OLD, {"type": "string"}]}}
for _tool in ODD_TOOLS:
    _tool["parameters"]["definitions"] = {"Old": {"properties": {"old": _OLD}}, "Tree": {"properties": _TREE}}

FINDING = call("find", '{"path": ', '"/', 'tmp"}', id="call_a1")
SECOND = call("find", '{"path": "/ü"}', id="call_a2")
LOOKING = call("now", id="call_a3")
#: A turn with everything in it.
RICH = reply(thought("Let me ", "see: two."), "I look.", FINDING, SECOND, LOOKING)


def user(text: str) -> LLMMessage:
    return LLMMessage("user", text)


def answered(response: LLMResponse) -> LLMMessage:
    calls = response.function_calls
    return LLMMessage("assistant", response.content, tool_calls=calls, provider_extras=response.raw_response)


def results(response: LLMResponse, text: str = "found nothing") -> list[LLMMessage]:
    calls = response.function_calls or []
    return [LLMMessage("tool", text, name=call.name, tool_call_id=call.id) for call in calls]


@dataclass
class Talk:
    provider: LLMProvider
    server: ProviderServer | None = None
    items: list[Event | LLMResponse] = field(default_factory=list)

    async def ask(
        self, messages: str | Sequence[LLMMessage] = "Hi", functions: Any = None, **options: Any
    ) -> LLMResponse:
        """The answer. `items` has what was streamed before it."""
        conversation = [user(messages)] if isinstance(messages, str) else messages
        async with aclosing(streamed(self.provider, conversation, functions, **options)) as stream:
            self.items = [item async for item in stream]
        return self.items[-1]

    async def call_tools(self, **options: Any) -> tuple[LLMResponse, LLMResponse]:
        """An answer with calls, and the answer to their results."""
        first = await self.ask("Look", TOOLS, **options)
        return first, await self.ask([user("Look"), answered(first), *results(first)], TOOLS, **options)

    def agent(self, *tools: Callable[..., Any]) -> Agent:
        return Agent(self.provider, tools=tools)

    @property
    def asked(self) -> Any:
        """The last request that the server accepted."""
        return self.server.asked[-1]

    @property
    def text(self) -> str:
        return self._shown(Text)

    @property
    def thinking(self) -> str:
        return self._shown(Thinking)

    @property
    def arguments(self) -> dict[int, str]:
        """The arguments that were shown, by the call's index in the answer."""
        pieces: defaultdict[int, str] = defaultdict(str)
        for item in self.items:
            if isinstance(item, ToolCallDelta):
                pieces[item.metadata["index"]] += item.content
        return pieces

    @property
    def retries(self) -> list[Retry]:
        return [item for item in self.items if isinstance(item, Retry)]

    def _shown(self, kind: type[Event]) -> str:
        """The pieces that count: a retry withdraws the earlier ones."""
        last = self.items[self.items.index(self.retries[-1]) :] if self.retries else self.items
        return "".join(item.content for item in last if isinstance(item, kind))


@dataclass(frozen=True)
class Case:
    """A provider to check, and its server's dialect.

    `connect(url, **options)` creates it, with the options of every provider (`api_key`, `model`, `streaming`, …).
    """

    name: str
    dialect: Dialect
    connect: Callable[..., LLMProvider]
    streaming: bool = True

    @asynccontextmanager
    async def talk(self, *script: Reply | Failure, **options: Any) -> AsyncIterator[Talk]:
        """A provider and its server, which answers `script`. At the end, checks that the server refused nothing."""
        async with self.talk_by(script, **options) as talk:
            yield talk

    @asynccontextmanager
    async def talk_by(self, script: Script, **options: Any) -> AsyncIterator[Talk]:
        """As `serve`, with a script that may be a function of the request."""
        async with ProviderServer(self.dialect, script) as server:
            provider = self.connect(server.base_url, **{"api_key": KEY, "streaming": self.streaming, **options})
            try:
                yield Talk(provider, server)
            finally:
                await provider.aclose()
        assert server.refusals == []


def catalog_cases() -> list[Case]:
    """A case for each provider in the catalog that uses HTTP, and for each of several ways to reach it."""
    asked = [provider for provider in CATALOG if CATALOG[provider].format]
    ways = [[name for name in DIALECTS if name.split()[0] == provider] or [provider] for provider in asked]
    cases = [_case(name) for names in ways for name in names]
    return [replace(case, streaming=streaming) for case in cases for streaming in (True, False)]


def _case(name: str) -> Case:
    provider_name, _, way = name.partition(" ")
    fixed = {"api": way} if provider_name == "openai" else {}

    def connect(url: str, **options: Any) -> LLMProvider:
        if provider_name != "local":
            return create_provider(provider_name, base_url=url, **{**fixed, **options})
        provider = create_provider("local", function_calling=True, **options)  # as with a model whose template has it

        async def prepare() -> None:
            provider.base_url = url  # another server than its own

        provider.prepare = prepare
        return provider

    return Case(name, dialect_of(name), connect)
