"""The greeting of an empty conversation: the agent's tools, data to mention, and suggested prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbagent.agent.agent import Agent
from nbagent.chat.patch import State
from nbagent.core.render import markdown as render
from nbagent.functions.provider_tools import provider_tool

#: Tools in the list.
MAX_TOOLS = 8


def greeting(agent: Agent, about: str, data: Sequence[tuple[str, str]] = ()) -> State:
    """The greeting as JSON data, in which each tool and variable is a pair `[name, about]`. `about` is a sentence that
    explains how to chat here. `data` has the names and descriptions of variables.

    `{"about": …, "tools": […], "more_tools": 0, "variables": [["@orders", "DataFrame 90×4"]], "prompts": ["…"]}`
    """
    offered = agent.offered_tools()
    tools = [[render.printable(name), about_tool(agent, name)["about"]] for name in offered[:MAX_TOOLS]]
    prompts = [f"What is in @{name}?" for name, _ in data[:2]]
    prompts += [f"What do the columns of @{name} hold?" for name, kind in data[:1] if kind.startswith("DataFrame")]
    prompts += [f"What does {name} do?" for name, _ in tools[:2]]
    return {
        "about": about,
        "tools": tools,
        "more_tools": len(offered) - len(tools),
        "variables": [[f"@{name}", render.printable(kind)] for name, kind in data],
        "prompts": [*prompts[:2], "What can you do here?"],
    }


def about_tool(agent: Agent, name: str) -> dict[str, Any]:
    """The first line of a tool's description, and whether it needs approval."""
    tool = agent.function_registry.get_function(name) or provider_tool(name)
    line = tool.description.strip().partition("\n")[0] if tool else ""
    return {"about": render.printable(line), "asks": bool(tool and tool.approve)}
