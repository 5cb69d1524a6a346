"""`%agent tools`: the agent's tools as a table, and switching them on and off."""

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
from nbagent.notebook.magics.options import instead, meant

if TYPE_CHECKING:
    import pandas as pd

#: The name of all kernel tools together.
KERNEL = "kernel"

USAGE = "[add NAME … | drop NAME …]"

COLUMNS = ("tool", "on", "signature", "description", "asks", "defined in")
#: An annotation that was written as a string, or under `from __future__ import annotations`.
_QUOTED = re.compile(r"(: |-> )'([^']*)'")
ON, OFF = "● on", "○ off"
_NONE = "No tools: decorate a function with @tool, or %agent tools add NAME."


def tools(shell: Any, agent: Agent, words: Sequence[str]) -> ToolTable:
    """The agent's tools as a table; `add` and `drop` switch them on and off first."""
    match words:
        case []:
            pass
        case ["add", *names] if names:
            wanted = [definition for name in names for definition in _found(shell.user_ns, agent, name)]
            for definition in wanted:
                _add(agent, definition)
        case ["drop", *names] if names:
            agent.tools_off.update([known for name in names for known in _known(agent, name)])
        case _:
            raise UsageError(f"%agent tools {USAGE}, where NAME is a function, obj.method, or {KERNEL}")
    return table(shell, agent)


def _found(namespace: Mapping[str, Any], agent: Agent, name: str) -> list[FunctionDefinition]:
    """What `add NAME` means: a function or method of the notebook, a tool that the agent has, or kernel tools."""
    first, *attributes = name.split(".")
    known = agent.function_registry.get_function(name)
    is_tool = known is not None or name in (KERNEL, *KERNEL_TOOLS)  # it may be the name of some data, too
    if first in namespace and (not is_tool or callable(namespace[first])):
        found = namespace[first]
        for attribute in attributes:
            if not hasattr(found, attribute):
                raise UsageError(f"{name}: {type(found).__name__} has no attribute {attribute}")
            found = getattr(found, attribute)
        if not callable(found):
            raise UsageError(f"{name} is no function but of type {type(found).__name__}")
        return [_definition(_plain(name), found)]
    definitions = [known] if known else [tool for tool in kernel_tools() if name in (KERNEL, tool.name)]
    if not definitions:
        near = meant(name, [KERNEL, *KERNEL_TOOLS, *(key for key, value in namespace.items() if callable(value))])
        raise UsageError(f"{name} is not defined{near or f': name a function of this notebook, or {KERNEL}'}")
    return definitions


def _definition(name: str, func: Any) -> FunctionDefinition:
    """A function as a tool, with what `@tool` or `@agent_callable` said of it."""
    if (entry := live.definition_of(func)) is not None:
        return replace(entry, func=func)
    settings: dict[str, Any] = {"name": name, "description": "", "parameters": None}
    settings |= {key: value for key, value in (settings_of(func) or {}).items() if value is not None}
    return FunctionDefinition(func=func, **settings)


def _add(agent: Agent, definition: FunctionDefinition) -> None:
    """Switch a tool on, with the function as it is now. What has to be asked about goes on being asked about."""
    known = agent.function_registry.get_function(definition.name)
    if known is None or known.func != definition.func:
        approve = definition.approve or (known is not None and known.approve)
        agent.function_registry.adopt(replace(definition, approve=approve))
    agent.tools_off.discard(definition.name)


def _known(agent: Agent, name: str) -> list[str]:
    names = agent.function_registry.names()
    if name == KERNEL:
        return [tool.name for tool in kernel_tools() if tool.name in names]
    if (plain := _plain(name)) not in names:
        raise UsageError(f"{name} is no tool of this agent{instead(plain, names)}")
    return [plain]


def _plain(name: str) -> str:
    """`shop.price` as a tool's name."""
    return name.replace(".", "_")


@dataclass(frozen=True, eq=False)
class ToolTable:
    """An agent's tools as a cell shows them: nothing cut off, what is off in grey. `frame` is the DataFrame behind it.

    >>> tools = %agent tools                                                # doctest: +SKIP
    >>> tools.frame.query("not on")                                         # doctest: +SKIP
    """

    frame: pd.DataFrame

    def __repr__(self) -> str:
        if self.frame.empty:
            return _NONE
        return str(self.frame.assign(on=_on_or_off(self.frame)).to_string(max_colwidth=100))

    def _repr_html_(self) -> str:
        if self.frame.empty:
            return render.output_html(f'<div class="nbagent-quiet">{render.escape(_NONE)}</div>')
        head = "".join(f'<th style="white-space: nowrap">{name}</th>' for name in ("", "tool", "asks", "defined in"))
        rows = "".join(map(_row, self.frame.itertuples(name=None)))
        body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return render.output_html(body, formulas=False)


def _on_or_off(frame: pd.DataFrame) -> list[str]:
    return [ON if on else OFF for on in frame["on"]]


def _row(row: tuple[Any, ...]) -> str:
    """A row of the table in HTML; the description stands below the signature."""
    name, on, signature, description, asks, place = row
    call, said = render.escape(f"{name}{signature}"), render.escape(description)
    tool = f'<code>{call}</code><div class="nbagent-quiet">{said}</div>'
    short = "".join(f'<td style="white-space: nowrap">{render.escape(text)}</td>' for text in (asks, place))
    grey = "" if on else ' style="opacity: .55"'
    return f'<tr{grey}><td style="white-space: nowrap">{ON if on else OFF}</td><td>{tool}</td>{short}</tr>'


def table(shell: Any, agent: Agent) -> ToolTable:
    """The tools of an agent, one row each: whether it is offered, what it takes, whether it asks, where it is from."""
    import pandas as pd

    registry = agent.function_registry
    definitions = [tool for name in registry.names() if (tool := registry.get_function(name)) is not None]
    rows = [
        (
            tool.name,
            tool.name not in agent.tools_off,
            _signature(tool),
            tool.description.strip().partition("\n")[0],
            "depends" if callable(tool.approve) else "always" if tool.approve else "no",
            _place(shell, tool.func),
        )
        for tool in definitions
    ]
    return ToolTable(pd.DataFrame(rows, columns=list(COLUMNS)).set_index("tool"))


def _signature(tool: FunctionDefinition) -> str:
    """What it takes: from the function, or from the schema that was given for it."""
    if tool.schema is not None:
        try:
            return _QUOTED.sub(r"\1\2", str(signature_of(tool.func)).replace("typing.", ""))
        except (TypeError, ValueError):  # some functions that are written in C
            return "(…)"
    return f"({', '.join((tool.parameters or {}).get('properties', {}))})"


def _place(shell: Any, func: Any) -> str:
    """Where a function was defined: `In[5]`, or a file."""
    code = getattr(underlying(func), "__code__", None)
    if code is None:
        return ""
    cell = shell.compile.format_code_name(code.co_filename)
    return cell[1] if cell else Path(code.co_filename).name
