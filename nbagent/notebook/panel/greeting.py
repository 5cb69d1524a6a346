"""What an empty panel greets with: the agent's tools, the notebook's data, and questions to begin with."""

from __future__ import annotations

import re
from typing import Any

from nbagent.agent.agent import Agent
from nbagent.core.render import markdown as render
from nbagent.functions.vendor_tools import vendor_tool
from nbagent.notebook.kernel_tools.variables import brief, user_names
from nbagent.notebook.panel.attachments import about_value
from nbagent.notebook.panel.patch import State

#: Tools and variables that are listed.
MAX_TOOLS, MAX_VARIABLES = 8, 4


def greeting(agent: Agent, shell: Any) -> State:
    """What can be used here, as `[name, about]`, and `prompts`. The newest variables come first.

    `{"tools": […], "more_tools": 0, "variables": [["@orders", "DataFrame 90×4"]], "prompts": ["What is in @orders?"]}`
    """
    offered = agent.offered_tools()
    tools = [[render.printable(name), _first_line(agent, name)] for name in offered[:MAX_TOOLS]]
    variables = [] if shell is None else _data(shell)[:MAX_VARIABLES]
    return {
        "tools": tools,
        "more_tools": len(offered) - len(tools),
        "variables": [[f"@{name}", render.printable(about_value(name, value))] for name, value in variables],
        "prompts": _prompts(variables),
    }


def _first_line(agent: Agent, name: str) -> str:
    tool = agent.function_registry.get_function(name) or vendor_tool(name)
    return render.printable(tool.description.strip().partition("\n")[0]) if tool else ""


def _data(shell: Any) -> list[tuple[str, Any]]:
    """The notebook's tables and arrays, the newest first; where there are none, its lists and dicts."""
    variables = shell.user_ns
    names = reversed(user_names(variables, getattr(shell, "user_ns_hidden", {})))
    known = [(name, variables[name]) for name in names if name in variables]
    shaped = [each for each in known if re.search(r" of shape \(\d", brief(each[1]))]
    return shaped or [each for each in known if isinstance(each[1], (list, dict)) and each[1]]


def _prompts(variables: list[tuple[str, Any]]) -> list[str]:
    prompts = [f"What is in @{name}?" for name, _ in variables[:2]]
    prompts += [f"Which values are missing in @{name}?" for name, value in variables[:1] if _is_table(value)]
    return [*prompts[:2], "What can you do here?"]


def _is_table(value: Any) -> bool:
    return type(value).__name__ == "DataFrame"
