"""What `%agent COMMAND` does, one function for each. They get the shell, the agent and the words that follow."""

from __future__ import annotations

import getpass
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from nbagent.agent import Agent
from nbagent.core.background import run_sync
from nbagent.functions.registry import FunctionDefinition
from nbagent.notebook.kernel_tools import kernel_tools
from nbagent.providers import provider_names
from nbagent.providers.catalog import CATALOG

if TYPE_CHECKING:
    import pandas as pd

#: The name of all kernel tools together.
KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Command:
    """`usage` is what stands after the command's name."""

    run: Callable[[Any, Agent, Sequence[str]], Any]
    usage: str
    help: str


def status(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """The agent shows itself."""
    return agent


def tools(shell: Any, agent: Agent, words: Sequence[str]) -> pd.DataFrame:
    """The agent's tools as a table; `add` and `drop` change them first."""
    match words:
        case []:
            pass
        case ["add", *names] if names:
            definitions = [definition for name in names for definition in _found(shell.user_ns, name)]
            for definition in definitions:
                agent.function_registry.adopt(definition)
        case ["drop", *names] if names:
            dropped = [known for name in names for known in _known(agent, name)]
            for name in dropped:
                agent.function_registry.unregister(name)
        case _:
            raise UsageError("%agent tools [add NAME … | drop NAME …], where NAME is a function, obj.method, or kernel")
    return _table(agent)


def _found(namespace: Mapping[str, Any], name: str) -> list[FunctionDefinition]:
    """What `add NAME` means: a function or method of the notebook, a kernel tool, or all of these."""
    first, *attributes = name.split(".")
    if first in namespace:
        found = namespace[first]
        for attribute in attributes:
            if not hasattr(found, attribute):
                raise UsageError(f"{name}: {type(found).__name__} has no attribute {attribute}")
            found = getattr(found, attribute)
        if not callable(found):
            raise UsageError(f"{name} is a {type(found).__name__}, not a function")
        return [FunctionDefinition(name.replace(".", "_"), "", None, found)]
    definitions = [tool for tool in kernel_tools() if name in (KERNEL, tool.name)]
    if not definitions:
        raise UsageError(f"{name} is not defined: name a function of this notebook, or {KERNEL}")
    return definitions


def _known(agent: Agent, name: str) -> list[str]:
    names = agent.function_registry.names()
    if name == KERNEL:
        return [tool.name for tool in kernel_tools() if tool.name in names]
    if (plain := name.replace(".", "_")) not in names:
        raise UsageError(f"{name} is no tool of this agent; its tools are {', '.join(names) or 'none'}")
    return [plain]


def _table(agent: Agent) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for name in agent.function_registry.names():
        definition = agent.function_registry.get_function(name)
        if definition is not None:
            arguments = ", ".join((definition.parameters or {}).get("properties", {}))
            first_line = definition.description.strip().partition("\n")[0]
            rows.append((name, arguments, first_line, bool(definition.approve), _place(definition.func)))
    return pd.DataFrame(rows, columns=["tool", "arguments", "description", "asks", "defined in"]).set_index("tool")


def _place(func: Any) -> str:
    """Where a function was defined: a cell, or a file."""
    code = getattr(getattr(func, "__func__", func), "__code__", None)
    if code is None:
        return ""
    filename = Path(code.co_filename).name
    return "this notebook" if "ipykernel" in code.co_filename or filename.startswith("<") else filename


def models(shell: Any, agent: Agent, words: Sequence[str]) -> list[str]:
    """The models that the agent's vendor offers."""
    return run_sync(agent.provider.model_list())


def model(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """Switch to another model."""
    if len(words) != 1:
        raise UsageError(f"%agent model VENDOR[:MODEL], where VENDOR is one of {', '.join(provider_names())}")
    agent.provider = words[0]
    return agent


def key(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Ask for a vendor's key, without echo, and keep it in this kernel's environment only."""
    rows = {name: row for name, row in CATALOG.items() if row.key_vars}
    if len(words) != 1 or words[0] not in rows:
        raise UsageError(f"%agent key VENDOR, where VENDOR is one of {', '.join(rows)}")
    variable = rows[words[0]].key_vars[0]
    if secret := getpass.getpass(f"{variable}: ").strip():
        os.environ[variable] = secret


def trace(shell: Any, agent: Agent, words: Sequence[str]) -> Any:
    """What happened."""
    return agent.trace


def panel(shell: Any, agent: Agent, words: Sequence[str]) -> Any:
    """The conversation in a panel."""
    from nbagent.notebook.panel import ChatPanel

    return ChatPanel(agent)


def new(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Forget the conversation."""
    agent.clear_history()


def undo(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Take back the last turn."""
    agent.undo()


def save(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Write the conversation to a file."""
    agent.save(_file(words, "save"))


def load(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """Go on with the conversation in a file; provider and tools stay."""
    agent.context.replace_history(Agent.load(_file(words, "load")).conversation_history)
    return agent


def _file(words: Sequence[str], command: str) -> str:
    if len(words) != 1:
        raise UsageError(f"%agent {command} FILE")
    return words[0]


def fix(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Let the agent explain the last error."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None:
        raise UsageError("%agent fix: no cell has failed yet")
    text = "".join(traceback.format_exception(error))[-6_000:]
    shell.run_cell_magic("agent", "--raw", f"Explain this error briefly and show the corrected code:\n\n{text}")


def show_help(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """All commands."""
    lines = [f"%agent {name} {command.usage}".ljust(42) + command.help for name, command in COMMANDS.items()]
    print("\n".join([*lines, "", "%%agent? explains the options of a cell."]))  # noqa: T201  for the reader of the cell


COMMANDS: dict[str, Command] = {
    "status": Command(status, "", "the agent: its model, how many tools and messages"),
    "tools": Command(tools, "[add NAME … | drop NAME …]", "its tools; kernel is the set that looks at variables"),
    "models": Command(models, "", "the models that its vendor offers"),
    "model": Command(model, "VENDOR[:MODEL]", "switch to another model; the conversation stays"),
    "key": Command(key, "VENDOR", "type a vendor's key, for this kernel only"),
    "trace": Command(trace, "", "what happened"),
    "panel": Command(panel, "", "talk to it in a panel, beside the cells"),
    "new": Command(new, "", "forget the conversation"),
    "undo": Command(undo, "", "take back the last turn"),
    "save": Command(save, "FILE", "write the conversation to a file"),
    "load": Command(load, "FILE", "go on with the conversation in a file"),
    "fix": Command(fix, "", "let the agent explain the last error"),
    "help": Command(show_help, "", "this list"),
}
