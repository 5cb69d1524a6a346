"""What an empty panel greets with: the agent's tools, and questions to begin with, made of the notebook's variables."""

from __future__ import annotations

from typing import Any

from nbagent.agent.agent import Agent
from nbagent.core.render import markdown as render
from nbagent.functions.vendor_tools import vendor_tool
from nbagent.notebook.panel.patch import State

#: Tools that are listed, and variables that questions are made from.
MAX_TOOLS, MAX_FRAMES = 8, 3


def greeting(agent: Agent, shell: Any) -> State:
    """The offered tools, each with the first line of its description, how many more there are, and `prompts`."""
    offered = agent.offered_tools()
    tools = [[render.printable(name), _first_line(agent, name)] for name in offered[:MAX_TOOLS]]
    prompts = [f"What is in @{name}?" for name in _frames(shell)]
    return {"tools": tools, "more_tools": len(offered) - len(tools), "prompts": [*prompts, "What can you do here?"]}


def _first_line(agent: Agent, name: str) -> str:
    tool = agent.function_registry.get_function(name) or vendor_tool(name)
    return render.printable(tool.description.strip().partition("\n")[0]) if tool else ""


def _frames(shell: Any) -> list[str]:
    """The notebook's newest tables."""
    hidden = getattr(shell, "user_ns_hidden", {})
    variables = [] if shell is None else list(shell.user_ns.items())
    frames = [
        name
        for name, value in variables
        if not name.startswith("_") and name not in hidden and type(value).__name__ == "DataFrame"
    ]
    return frames[: -MAX_FRAMES - 1 : -1]
