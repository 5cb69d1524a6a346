"""The commands of `%agent`. Each gets the shell, the agent and the words after the command's name."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from IPython.core.error import StdinNotImplementedError, UsageError

from nbagent.agent import Agent
from nbagent.core.background import run_sync
from nbagent.notebook.magics import nesting
from nbagent.notebook.magics.cell_errors import last_error
from nbagent.notebook.magics.options import suggestion
from nbagent.notebook.magics.tool_commands import USAGE, tools
from nbagent.providers import provider_names
from nbagent.providers.catalog import with_keys
from nbagent.providers.keys import keys


@dataclass(frozen=True, slots=True)
class Command:
    """`usage` describes the words after the command's name, `help` what the command does."""

    run: Callable[[Any, Agent, Sequence[str]], Any]
    usage: str
    help: str


def models(shell: Any, agent: Agent, words: Sequence[str]) -> list[str]:
    """List the models that the agent's vendor offers."""
    return run_sync(agent.provider.model_list())


def model(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """Switch the agent to another model."""
    if len(words) != 1:
        raise UsageError(f"%agent model VENDOR[:MODEL], where VENDOR is one of {', '.join(provider_names())}")
    agent.provider = words[0]
    return agent


def key(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Ask for a vendor's key without echo, and keep it in this process only, not even in its environment."""
    rows = with_keys()
    if len(words) != 1 or words[0] not in rows:
        raise UsageError(f"%agent key VENDOR, where VENDOR is one of {', '.join(rows)}")
    variable = rows[words[0]].key_vars[0]
    try:
        secret = getpass.getpass(f"{variable}: ").strip()
    except StdinNotImplementedError:
        raise UsageError(f"%agent key: nobody can type here; set {variable}, or write it into the file .env") from None
    if secret:
        keys.keep(variable, secret)


def panel(shell: Any, agent: Agent, words: Sequence[str]) -> Any:
    """Open the conversation in a panel."""
    from nbagent.notebook.panel.panel import ChatPanel

    return ChatPanel(agent)


def new(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """Forget the conversation."""
    agent.clear_history()
    return agent


def undo(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """Take back the last turn."""
    agent.undo()
    return agent


def save(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Write the conversation to a file."""
    agent.save(_file(words, "save"))


def load(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """Continue the conversation in a file; the agent keeps its provider and tools."""
    agent.context.replace_history(Agent.load(_file(words, "load")).conversation_history)
    return agent


def _file(words: Sequence[str], command: str) -> str:
    """The name of a file, which may contain spaces and may be quoted."""
    if not (name := " ".join(words).strip("\"'")):
        raise UsageError(f"%agent {command} FILE")
    return name


def fix(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Ask the agent to explain the last error."""
    if (text := last_error.text()) is None:
        raise UsageError("%agent fix: no cell has failed yet")
    # a model that reads about tools in its prompt would call one rather than explain
    line = "--raw" if agent.provider.supports_function_calling() else "--raw --no-tools"
    shell.run_cell_magic("agent", line, f"{text}\n\nExplain this error briefly and show the corrected code.")


def nest(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Allow blocking calls of asyncio inside the kernel's loop, or stop allowing them."""
    match words:
        case ["on"]:
            nesting.nest_on(shell)
        case ["off"]:
            nesting.nest_off()
        case _:
            raise UsageError(f"%agent nest on | off; it is {'on' if nesting.is_nested() else 'off'}")


def stop(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Stop the runs of panels and background tasks: of all agents in the notebook, or of the named ones."""
    from nbagent.notebook.panel.conversation import agents_in_panels

    named = agents_of(shell)
    if unknown := [name for name in words if name not in named]:
        raise UsageError(f"%agent stop: there is no agent {unknown[0]}{suggestion(unknown[0], named)}")
    chosen = [named[name] for name in words] if words else {*named.values(), *agents_in_panels()}
    count = sum(each.stop() for each in chosen)
    print(f"{count} {'run' if count == 1 else 'runs'} stopped." if count else "Nothing to stop.")


def agents_of(shell: Any) -> dict[str, Agent]:
    """The notebook's agents by the names of their variables."""
    found = {name: value for name, value in list(shell.user_ns.items()) if isinstance(value, Agent)}
    return {name: value for name, value in found.items() if not name.startswith("_")}


def show_help(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Print all commands."""
    lines = [f"%agent {name} {command.usage}".ljust(42) + command.help for name, command in COMMANDS.items()]
    print("\n".join([*lines, "", "%%agent? explains the options of a cell."]))


COMMANDS: dict[str, Command] = {
    "status": Command(lambda shell, agent, words: agent, "", "show the agent: its model, tools and messages"),
    "tools": Command(tools, USAGE, "list its tools, switch them on or off; kernel: tools that look at variables"),
    "models": Command(models, "", "list the models of its vendor"),
    "model": Command(model, "VENDOR[:MODEL]", "switch to another model; the conversation stays"),
    "key": Command(key, "VENDOR", "type a vendor's key, for this kernel only"),
    "trace": Command(lambda shell, agent, words: agent.trace, "", "show what happened; agent.trace has DataFrames"),
    "panel": Command(panel, "", "open the conversation in a panel"),
    "new": Command(new, "", "forget the conversation"),
    "undo": Command(undo, "", "take back the last turn"),
    "save": Command(save, "FILE", "write the conversation to a file"),
    "load": Command(load, "FILE", "continue the conversation in a file"),
    "fix": Command(fix, "", "explain the last error"),
    "stop": Command(stop, "[AGENT …]", "stop panels and background runs; the kernel's button stops cells"),
    "nest": Command(nest, "on | off", "allow asyncio.run() in cells; only on kernels before ipykernel 7"),
    "help": Command(show_help, "", "print this list"),
}
