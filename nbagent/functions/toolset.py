"""`Toolset`: a group of tools, such as an MCP server's or a skill folder's.

`agent.use(toolset)` offers them in addition to the agent's own tools.

>>> class Clock(Toolset):
...     def __init__(self):
...         self.tools = FunctionRegistry()
...         self.tools.register("now", "The time.", lambda: "12:00")
>>> agent.use(Clock())                                                      # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nbagent.checks import check_type
from nbagent.errors import ConfigurationError
from nbagent.functions.registry import FunctionRegistry, JoinedRegistry


class Toolset:
    """A group of tools for an agent, with set-up and clean-up. Subclass this and set `tools`."""

    #: The tools. They are looked up at each request, so they may change at any time.
    tools: FunctionRegistry
    #: The prefix of the tools' names, which distinguishes an agent's toolsets, or "".
    name: str = ""

    def begin(self) -> None:
        """Called by `agent.use`, to start slow work without waiting for it."""

    async def prepare(self) -> None:
        """Called before each run of an agent that uses the toolset, to connect or check for changes.

        An error ends the run.
        """

    def instructions(self) -> str:
        """Instructions about these tools for the model. They follow the system prompt and are not stored."""
        return ""

    def reminder(self) -> str:
        """Return a reminder for the model, such as the state of a plan. Called before each request.

        The reminder is sent last, after the cached prefix, and is not stored.
        """
        return ""

    async def aclose(self) -> None:
        """Free the resources that `prepare` opened. The next run prepares the toolset again."""


@dataclass(frozen=True, slots=True)
class CallElsewhere:
    """The function of a tool that runs elsewhere: it calls `call(name, arguments)`.

    Two instances with the same `name` and `call` are equal, so a tool that is listed again without a change remains the
    same tool.
    """

    name: str
    call: Callable[[str, dict[str, Any]], Awaitable[Any]]

    async def __call__(self, **arguments: Any) -> Any:
        """Call the tool."""
        return await self.call(self.name, arguments)


class Toolsets:
    """An agent's toolsets, in the order in which `use` added them."""

    def __init__(self, toolsets: Iterable[Toolset] = ()) -> None:
        self._toolsets = list(toolsets)

    def add(self, toolsets: Iterable[Toolset], own: FunctionRegistry) -> FunctionRegistry:
        """Add the toolsets that are new. Returns `own` joined with the tools of the new toolsets."""
        new: list[Toolset] = []
        for toolset in toolsets:
            check_type("use()", toolset, Toolset, fix="Pass a Toolset; functions go into Agent(tools=[...]).")
            known = (*self._toolsets, *new)
            if toolset in known:
                continue
            if toolset.name and toolset.name in (other.name for other in known):
                text = f"use(): there is already a toolset named {toolset.name!r}. Pass another name=…."
                raise ConfigurationError(text)
            new.append(toolset)
        self._toolsets += new
        for toolset in new:
            toolset.begin()
        return JoinedRegistry(own, *(toolset.tools for toolset in new)) if new else own

    async def prepare(self) -> None:
        """Prepare all toolsets at the same time."""
        await asyncio.gather(*(toolset.prepare() for toolset in self._toolsets))

    def instructions(self, offered: FunctionRegistry) -> str:
        """The instructions of the toolsets that have tools in `offered` or have none at all."""
        return "\n\n".join(filter(None, (toolset.instructions() for toolset in self._used(offered))))

    def reminder(self, offered: FunctionRegistry) -> str:
        """The reminders from the toolsets that have tools in `offered` or have none at all."""
        return "\n\n".join(filter(None, (toolset.reminder() for toolset in self._used(offered))))

    def _used(self, offered: FunctionRegistry) -> list[Toolset]:
        names = set(offered.names()) if self._toolsets else set()
        return [item for item in self._toolsets if not (own := item.tools.names()) or not names.isdisjoint(own)]

    async def aclose(self) -> None:
        """Close all toolsets."""
        for toolset in self._toolsets:
            await toolset.aclose()

    def __iter__(self) -> Iterator[Toolset]:
        return iter(self._toolsets)

    def __len__(self) -> int:
        return len(self._toolsets)
