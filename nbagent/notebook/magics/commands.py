"""The commands of `%agent`. Each command's function receives the shell, the agent, and the words after the name."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.display import display

from nbagent.agent.agent import Agent
from nbagent.core.background import run_sync
from nbagent.core.history.branches import Branch
from nbagent.core.render import markdown as render
from nbagent.core.render.control_chars import show_control_chars
from nbagent.functions.live import as_tool
from nbagent.functions.provider_tools import provider_tool
from nbagent.functions.registry import FunctionDefinition
from nbagent.functions.schema.introspection import signature_of, underlying
from nbagent.notebook.document.modes import MODES
from nbagent.notebook.document.tools import NOTEBOOK_TOOLS, notebook_tools, notebook_tools_of
from nbagent.notebook.kernel_tools.kernel_tools import KERNEL_TOOLS, kernel_tools
from nbagent.notebook.magics import nesting
from nbagent.notebook.magics.analyst_commands import ANALYST_USAGE, analyst
from nbagent.notebook.magics.cell_errors import last_error
from nbagent.notebook.magics.keeping import keep, restore
from nbagent.notebook.magics.mcp_commands import MCP_USAGE, mcp
from nbagent.notebook.magics.options import suggestion
from nbagent.notebook.magics.serve import USAGE as SERVE_USAGE
from nbagent.notebook.magics.serve import serve, stop_calls
from nbagent.notebook.magics.skill_commands import SKILLS_USAGE, skills
from nbagent.providers import provider_names
from nbagent.providers.catalog import with_keys
from nbagent.text import did_you_mean, shortened

if TYPE_CHECKING:
    import pandas as pd

#: The name of all kernel tools together.
KERNEL = "kernel"
#: The name of all notebook tools together, and their modes.
NOTEBOOK, MODE_USAGE = "notebook", " | ".join(MODES)
TOOLS_USAGE = "[add NAME … | drop NAME … | ask NAME …]"

#: Names of groups of tools.
GROUPS = {KERNEL: KERNEL_TOOLS, NOTEBOOK: NOTEBOOK_TOOLS}
#: Names that `%agent tools add` accepts in addition to the notebook's functions.
OUR_TOOLS = (KERNEL, *KERNEL_TOOLS, NOTEBOOK)

#: The option of `panel`.
DOCK = "--dock"
#: Characters of a question that `undo` shows.
QUESTION_CHARS = 60

_ON, _OFF = "● on", "○ off"
#: An annotation that was written as a string, or under `from __future__ import annotations`.
_QUOTED = re.compile(r"(: |-> )'([^']*)'")
_NO_TOOLS = "No tools: decorate a function with @tool, or %agent tools add NAME."


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `usage` describes its arguments, and `help` its effect."""

    run: Callable[[Any, Agent, Sequence[str]], Any]
    usage: str
    help: str


def models(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Show all models that the agent's provider offers, newest first."""
    import pandas as pd

    with pd.option_context("display.max_rows", None):  # a table of more than 60 rows shows ten
        display(pd.DataFrame(run_sync(agent.provider.model_list())))


def model(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """Switch the agent to another model."""
    if len(words) != 1:
        raise UsageError(f"%agent model PROVIDER[:MODEL], where PROVIDER is one of {', '.join(provider_names())}")
    agent.provider = words[0]
    return agent


def key(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Prompt for a provider's key without echo, and keep the key in this process only."""
    rows = with_keys()
    if len(words) != 1 or words[0] not in rows:
        raise UsageError(f"%agent key PROVIDER, where PROVIDER is one of {', '.join(rows)}")
    variable = rows[words[0]].key_variable()
    try:
        secret = getpass.getpass(f"{variable}: ").strip()
    except StdinNotImplementedError:
        raise UsageError(f"%agent key: no input is possible here; set {variable}, or add it to the file .env") from None
    if not secret:
        print(f"Nothing was typed: {variable} is unchanged.")
        return
    rows[words[0]].keep_key(secret)
    print(f"{variable} is known to this kernel: %agent model {words[0]} uses it.")


def panel(shell: Any, agent: Agent, words: Sequence[str]) -> Any:
    """Open the conversation in a panel: below the cell, or docked next to the notebook."""
    from nbagent.notebook.panel.panel import ChatPanel

    if words not in ([], [DOCK]):
        raise UsageError(f"%agent panel [{DOCK}]{suggestion(words[0], [DOCK])}")
    return ChatPanel(agent, dock=words == [DOCK])


def new(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Start another conversation."""
    before = agent.context.here
    agent.context.new_conversation()
    stays = f" This one stays in %agent conversations: {_title(before)}." if before.questions else ""
    print(f"A new conversation.{stays}")


def conversations(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """List this agent's conversations, or continue one of them."""
    context = agent.context
    listed = context.conversations
    if words:
        chosen = {str(number): each for number, each in enumerate(listed, 1)}.get(" ".join(words))
        if chosen is None:
            raise UsageError(f"%agent conversations [N], where N is from 1 to {len(listed)}")
        context.switch(chosen)
    for number, each in enumerate(listed, 1):
        print(f"{number} {'●' if each is context.here else ' '} {_title(each)}")


def _title(branch: Branch) -> str:
    return show_control_chars(branch.title)


def undo(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Undo the last turn."""
    if not (turn := agent.undo()):
        print("Nothing to undo.")
        return
    question, count = shortened(" ".join(turn[0].text.split()), QUESTION_CHARS), len(agent.conversation_history)
    print(f"Undone: {show_control_chars(question)!r}. {count} message{'s' * (count != 1)} left.")


def save(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Save the conversation in a file."""
    agent.save(_file(words, "save"))


def load(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """Continue a conversation that was saved in a file. The agent keeps its provider and tools."""
    loaded = Agent.load(_file(words, "load"))
    agent.context.new_conversation()
    agent.context.replace_history(loaded.conversation_history)
    return agent


def _file(words: Sequence[str], command: str) -> str:
    """The name of a file, which may contain spaces and may be quoted."""
    if not (name := " ".join(words).strip("\"'")):
        raise UsageError(f"%agent {command} FILE")
    return name


def fix(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Ask the agent to explain the last error, and show its correction of the cell."""
    run_sync(shell.magics_manager.registry["AgentMagics"].fixing())


def mode(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Show or set the agent's mode, which determines what it may do in the notebook without approval."""
    tools = notebook_tools_of(agent.function_registry)
    if tools is None:
        raise UsageError(f"%agent mode: the agent has no notebook tools. %agent tools add {NOTEBOOK} adds them.")
    match words:
        case ["ask" | "auto-edit" | "auto" as chosen]:
            tools.mode = chosen
        case [word, *_]:
            raise UsageError(f"%agent mode [{MODE_USAGE}]{suggestion(word, MODES)}")
    for name, about in MODES.items():
        print(f"{'●' if name == tools.mode else '○'} {name:10}{about}")


def hints(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Switch the hint below failed cells on or off."""
    match words:
        case ["on" | "off" as state]:
            last_error.offers_fix = state == "on"
            print(f"Failed cells {'name' if last_error.offers_fix else 'do not name'} %agent fix.")
        case _:
            raise UsageError(f"%agent hints on | off; they are {'on' if last_error.offers_fix else 'off'}")


def nest(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Allow blocking asyncio calls inside the kernel's loop. Only a kernel restart undoes this."""
    match words:
        case ["on"]:
            nesting.nest_on(shell)
        case ["off"]:
            if nesting.is_nested():
                raise UsageError("%agent nest off: restart the kernel. nest-asyncio can't be undone.")
        case _:
            raise UsageError(f"%agent nest on | off; it is {'on' if nesting.is_nested() else 'off'}")


def stop(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Stop the runs of panels and background tasks, for all agents in the notebook or for the named agents.

    Without names, clients' calls and runs are also stopped.
    """
    from nbagent.notebook.panel.conversation import agents_in_panels

    named = agents_of(shell)
    if unknown := [name for name in words if name not in named]:
        raise UsageError(f"%agent stop: there is no agent {unknown[0]}{suggestion(unknown[0], named)}")
    chosen = [named[name] for name in words] if words else {*named.values(), *agents_in_panels()}
    count = sum(each.stop() for each in chosen) + (0 if words else stop_calls())
    print(f"{count} {'run' if count == 1 else 'runs'} stopped." if count else "Nothing to stop.")


def agents_of(shell: Any) -> dict[str, Agent]:
    """The notebook's agents by the names of their variables."""
    found = {name: value for name, value in list(shell.user_ns.items()) if isinstance(value, Agent)}
    return {name: value for name, value in found.items() if not name.startswith("_")}


def show_help(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Print all commands."""
    usages = {f"%agent {name} {command.usage}": command.help for name, command in COMMANDS.items()}
    lines = [f"{usage:42}{text}" if len(usage) < 42 else f"{usage}\n{'':42}{text}" for usage, text in usages.items()]
    print("\n".join([*lines, "", "%%agent? explains the options of a cell."]))


def tools(shell: Any, agent: Agent, words: Sequence[str]) -> ToolTable | None:
    """Return the agent's tools as a table, switch tools on or off, or revoke the approvals for this session."""
    match words:
        case []:
            return tool_table(shell, agent)
        case ["add", *names] if names:
            definitions = [each for name in names for each in _definitions(shell.user_ns, agent, name)]
            for definition in definitions:
                _switch_on(agent, definition)
            changed, state = [each.name for each in definitions], "on"
        case ["drop", *names] if names:
            changed, state = [known for name in names for known in _registered(agent, name)], "off"
            agent.tools_off.update(changed)
        case ["ask", *names] if names:
            asked = [known for name in names for known in _registered(agent, name)]
            for tool in filter(None, map(agent.function_registry.get_function, asked)):
                agent.tool_executor.allowances.revoke(tool.func)
            print(f"{', '.join(asked)}: your approvals for this session are revoked.")
            return None
        case _:
            raise UsageError(f"%agent tools {TOOLS_USAGE}, where NAME is a function, obj.method, {' or '.join(GROUPS)}")
    offered, known_tools = len(agent.offered_tools()), len(agent.function_registry.names())
    print(f"{', '.join(changed)}: {state}. {offered} of {known_tools} tools are on.")
    return None


def _definitions(namespace: Mapping[str, Any], agent: Agent, name: str) -> list[FunctionDefinition]:
    """The tools that `add NAME` names: a function or method of the notebook, a tool of the agent or the provider, or
    built-in ones.
    """
    first, *attributes = name.split(".")
    known = agent.function_registry.get_function(name)
    is_tool = known is not None or name in OUR_TOOLS
    if own := provider_tool(namespace.get(name, name)):
        return [known or own]
    if first in namespace and (callable(namespace[first]) or not is_tool):  # data may have a tool's name
        found = namespace[first]
        for attribute in attributes:
            if not hasattr(found, attribute):
                raise UsageError(f"{name}: {type(found).__name__} has no attribute {attribute}")
            found = getattr(found, attribute)
        if not callable(found):
            raise UsageError(f"{name}: expected a function, got {type(found).__name__}")
        return [as_tool(found, _tool_name(name))]
    if known:
        return [known]
    if name in (KERNEL, *KERNEL_TOOLS):
        return [tool for tool in kernel_tools() if name in (KERNEL, tool.name)]
    if name == NOTEBOOK:  # earlier ones know what the model has read, and have a mode
        before = notebook_tools_of(agent.function_registry)
        return notebook_tools() if before is None else before.definitions()
    functions = [key for key, value in namespace.items() if callable(value)]
    hint = did_you_mean(name, [*OUR_TOOLS, *functions])
    raise UsageError(f"{name} is not defined{hint or f': give {KERNEL}, {NOTEBOOK} or a function of this notebook'}")


def _switch_on(agent: Agent, definition: FunctionDefinition) -> None:
    """Offer a tool, with its current function. A tool that needed approval still needs it."""
    known = agent.function_registry.get_function(definition.name)
    if known is None or known.func != definition.func:
        approve = definition.approve or (known is not None and known.approve)
        agent.function_registry.add(replace(definition, approve=approve))
    agent.tools_off.discard(definition.name)


def _registered(agent: Agent, name: str) -> list[str]:
    """The agent's tools that `NAME` names."""
    names = agent.function_registry.names()
    if name in GROUPS:
        return [tool for tool in GROUPS[name] if tool in names]
    if _tool_name(name) not in names:
        raise UsageError(f"{name} is not a tool of this agent{suggestion(_tool_name(name), names)}")
    return [_tool_name(name)]


def _tool_name(name: str) -> str:
    """The tool name for a name such as `shop.price`."""
    return name.replace(".", "_")


@dataclass(frozen=True, eq=False)
class ToolTable:
    """An agent's tools as a table for a cell. In HTML, text is never cut off, and tools that are off are grey. `frame`
    has the data.

    >>> tools = %agent tools                                                # doctest: +SKIP
    >>> tools.frame.query("not on")                                         # doctest: +SKIP
    """

    frame: pd.DataFrame

    def __repr__(self) -> str:
        if self.frame.empty:
            return _NO_TOOLS
        states = [_ON if on else _OFF for on in self.frame["on"]]
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
    return f'<tr{grey}><td style="white-space: nowrap">{_ON if on else _OFF}</td><td>{tool}</td>{short}</tr>'


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
            "approval": _approval(agent, tool),
            "defined in": _place(shell, tool.func) if tool.provider_options is None else "the provider",
        }
        for name in registry.names()
        if (tool := registry.get_function(name)) is not None
    ]
    columns = ["tool", "on", "signature", "description", "approval", "defined in"]
    return ToolTable(pd.DataFrame(rows, columns=columns).set_index("tool"))


def _approval(agent: Agent, tool: FunctionDefinition) -> str:
    """When a tool needs approval, and its approvals for this session."""
    policy = "depends" if callable(tool.approve) else "always" if tool.approve else "no"
    return "; ".join(filter(None, (policy, agent.tool_executor.allowances.describe(tool.func))))


def _signature(tool: FunctionDefinition) -> str:
    """The function's signature, or the parameters of the user's schema."""
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


COMMANDS: dict[str, Command] = {
    "status": Command(lambda shell, agent, words: agent, "", "show the agent: its model, tools and messages"),
    "tools": Command(
        tools, TOOLS_USAGE, "list its tools, or switch them on or off; kernel and notebook are built-in groups"
    ),
    "skills": Command(skills, SKILLS_USAGE, "list its skills; use more, trust the project's, look for changes"),
    "mcp": Command(
        mcp, MCP_USAGE, "list its MCP servers, resources and prompts; run a prompt; use an mcp.json; close some"
    ),
    "analyst": Command(analyst, ANALYST_USAGE, "switch on or off: it may write, run and fix cells of this notebook"),
    "models": Command(models, "", "list its provider's models"),
    "model": Command(model, "PROVIDER[:MODEL]", "switch to another model; the conversation stays"),
    "key": Command(key, "PROVIDER", "type a provider's key, for this kernel only"),
    "trace": Command(lambda shell, agent, words: agent.trace, "", "show what happened; agent.trace has DataFrames"),
    "panel": Command(
        panel, f"[{DOCK}]", "open the conversation in a panel: below the cell, or docked next to the notebook"
    ),
    "new": Command(new, "", "start another conversation; this one is kept"),
    "conversations": Command(conversations, "[N]", "list the conversations, or continue number N"),
    "undo": Command(undo, "", "undo the last turn"),
    "save": Command(save, "FILE", "write the conversation to a file"),
    "load": Command(load, "FILE", "continue the conversation in a file"),
    "keep": Command(keep, "[off | FILE]", "save conversation and trace next to the notebook after each turn"),
    "restore": Command(restore, "[FILE]", "load what keep saved, in a new kernel"),
    "fix": Command(fix, "", "explain the last error, and show the corrected cell"),
    "mode": Command(mode, f"[{MODE_USAGE}]", "what the agent may do in the notebook without asking you"),
    "hints": Command(hints, "on | off", "offer, below each failed cell, to explain it"),
    "serve": Command(serve, SERVE_USAGE, "serve the agent over HTTP on this machine; or its tools to MCP clients"),
    "stop": Command(stop, "[AGENT …]", "stop panels and background runs; the kernel's button stops cells"),
    "nest": Command(
        nest, "on | off", "allow asyncio.run() in cells until the kernel restarts; only before ipykernel 7"
    ),
    "help": Command(show_help, "", "print this list"),
}
