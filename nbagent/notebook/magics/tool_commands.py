"""`%agent tools`: shows the agent's tools as a table, and switches them on and off."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from nbagent.agent import Agent
from nbagent.core.render import markdown as render
from nbagent.functions.discovery import settings_of
from nbagent.functions.live import live
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.schema.introspection import signature_of, underlying
from nbagent.notebook.kernel_tools.kernel_tools import KERNEL_TOOLS, kernel_tools
from nbagent.notebook.magics.options import did_you_mean, suggestion

if TYPE_CHECKING:
    import pandas as pd

#: The name that stands for all kernel tools.
KERNEL = "kernel"
USAGE = "[add NAME … | drop NAME …]"

ON, OFF = "● on", "○ off"
#: An annotation that was written as a string, or under `from __future__ import annotations`.
_QUOTED = re.compile(r"(: |-> )'([^']*)'")
_NO_TOOLS = "No tools: decorate a function with @tool, or %agent tools add NAME."


def tools(shell: Any, agent: Agent, words: Sequence[str]) -> ToolTable:
    """Switch tools on with `add` or off with `drop`, then return the agent's tools as a table."""
    match words:
        case []:
            pass
        case ["add", *names] if names:
            for definition in [each for name in names for each in _definitions(shell.user_ns, agent, name)]:
                _switch_on(agent, definition)
        case ["drop", *names] if names:
            agent.tools_off.update([known for name in names for known in _registered(agent, name)])
        case _:
            raise UsageError(f"%agent tools {USAGE}, where NAME is a function, obj.method, or {KERNEL}")
    return tool_table(shell, agent)


def _definitions(namespace: Mapping[str, Any], agent: Agent, name: str) -> list[FunctionDefinition]:
    """What `add NAME` names: a function or method of the notebook, a tool of the agent, or kernel tools."""
    first, *attributes = name.split(".")
    known = agent.function_registry.get_function(name)
    is_tool = known is not None or name in (KERNEL, *KERNEL_TOOLS)
    if first in namespace and (callable(namespace[first]) or not is_tool):  # data may have a tool's name
        found = namespace[first]
        for attribute in attributes:
            if not hasattr(found, attribute):
                raise UsageError(f"{name}: {type(found).__name__} has no attribute {attribute}")
            found = getattr(found, attribute)
        if not callable(found):
            raise UsageError(f"{name}: expected a function, got {type(found).__name__}")
        return [_definition(_tool_name(name), found)]
    definitions = [known] if known else [tool for tool in kernel_tools() if name in (KERNEL, tool.name)]
    if not definitions:
        functions = [key for key, value in namespace.items() if callable(value)]
        hint = did_you_mean(name, [KERNEL, *KERNEL_TOOLS, *functions])
        raise UsageError(f"{name} is not defined{hint or f': name a function of this notebook, or {KERNEL}'}")
    return definitions


def _definition(name: str, func: Any) -> FunctionDefinition:
    """A function as a tool, with the options that `@tool` or `@agent_callable` gave it."""
    if (definition := live.definition_of(func)) is not None:
        return replace(definition, func=func)
    settings: dict[str, Any] = {"name": name, "description": "", "parameters": None}
    settings |= {key: value for key, value in (settings_of(func) or {}).items() if value is not None}
    return FunctionDefinition(func=func, **settings)


def _switch_on(agent: Agent, definition: FunctionDefinition) -> None:
    """Offer a tool, with the function as it is now. A tool that needed approval still needs it."""
    known = agent.function_registry.get_function(definition.name)
    if known is None or known.func != definition.func:
        approve = definition.approve or (known is not None and known.approve)
        agent.function_registry.adopt(replace(definition, approve=approve))
    agent.tools_off.discard(definition.name)


def _registered(agent: Agent, name: str) -> list[str]:
    """The agent's tools that `drop NAME` names."""
    names = agent.function_registry.names()
    if name == KERNEL:
        return [tool.name for tool in kernel_tools() if tool.name in names]
    if _tool_name(name) not in names:
        raise UsageError(f"{name} is not a tool of this agent{suggestion(_tool_name(name), names)}")
    return [_tool_name(name)]


def _tool_name(name: str) -> str:
    """`shop.price` as the name of a tool."""
    return name.replace(".", "_")


@dataclass(frozen=True, eq=False)
class ToolTable:
    """An agent's tools as a cell shows them: nothing is cut, and tools that are off are grey. `frame` has the data.

    >>> tools = %agent tools                                                # doctest: +SKIP
    >>> tools.frame.query("not on")                                         # doctest: +SKIP
    """

    frame: pd.DataFrame

    def __repr__(self) -> str:
        if self.frame.empty:
            return _NO_TOOLS
        states = [ON if on else OFF for on in self.frame["on"]]
        return str(self.frame.assign(on=states).to_string(max_colwidth=100))

    def _repr_html_(self) -> str:
        if self.frame.empty:
            return render.output_html(render.note_html(_NO_TOOLS))
        names = ("", "tool", "approval", "defined in")
        head = "".join(f'<th style="white-space: nowrap">{name}</th>' for name in names)
        rows = "".join(map(_row_html, self.frame.itertuples(name=None)))
        body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return render.output_html(body, formulas=False)


def _row_html(row: tuple[Any, ...]) -> str:
    """A row of the table, with the description below the signature."""
    name, on, signature, description, approval, place = row
    tool = f"<code>{render.escape(name + signature)}</code>"
    tool += f'<div class="nbagent-quiet">{render.escape(description)}</div>'
    short = "".join(f'<td style="white-space: nowrap">{render.escape(text)}</td>' for text in (approval, place))
    grey = "" if on else ' style="opacity: .55"'
    return f'<tr{grey}><td style="white-space: nowrap">{ON if on else OFF}</td><td>{tool}</td>{short}</tr>'


def tool_table(shell: Any, agent: Agent) -> ToolTable:
    """The tools of an agent, one row each."""
    import pandas as pd

    registry = agent.function_registry
    rows = [
        {
            "tool": tool.name,
            "on": tool.name not in agent.tools_off,
            "signature": _signature(tool),
            "description": tool.description.strip().partition("\n")[0],
            "approval": "depends" if callable(tool.approve) else "always" if tool.approve else "no",
            "defined in": _place(shell, tool.func),
        }
        for name in registry.names()
        if (tool := registry.get_function(name)) is not None
    ]
    columns = ["tool", "on", "signature", "description", "approval", "defined in"]
    return ToolTable(pd.DataFrame(rows, columns=columns).set_index("tool"))


def _signature(tool: FunctionDefinition) -> str:
    """The signature of the function, or the parameters of the schema that the user gave for it."""
    if tool.schema is None:
        return f"({', '.join((tool.parameters or {}).get('properties', {}))})"
    try:
        return _QUOTED.sub(r"\1\2", str(signature_of(tool.func)).replace("typing.", ""))
    except (TypeError, ValueError):  # some functions written in C have none
        return "(…)"


def _place(shell: Any, func: Any) -> str:
    """Where a function was defined: `In[5]`, or a file."""
    code = getattr(underlying(func), "__code__", None)
    if code is None:
        return ""
    cell = shell.compile.format_code_name(code.co_filename)
    return cell[1] if cell else Path(code.co_filename).name
