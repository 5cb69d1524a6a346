"""What `%agent COMMAND` does, one function for each. They get the shell, the agent and the words that follow."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from IPython.core.error import StdinNotImplementedError, UsageError

from nbagent.agent import Agent
from nbagent.core.background import run_sync
from nbagent.notebook.magics import nesting
from nbagent.notebook.magics.last_error import last_error
from nbagent.notebook.magics.options import instead
from nbagent.notebook.magics.tool_commands import USAGE, tools
from nbagent.providers import provider_names
from nbagent.providers.catalog import with_keys
from nbagent.providers.keys import keys


@dataclass(frozen=True, slots=True)
class Command:
    """`usage` is what stands after the command's name."""

    run: Callable[[Any, Agent, Sequence[str]], Any]
    usage: str
    help: str


def status(shell: Any, agent: Agent, words: Sequence[str]) -> Agent:
    """The agent shows itself."""
    return agent


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
    """Ask for a vendor's key, without echo, and keep it in this process only: not even in its environment."""
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


def trace(shell: Any, agent: Agent, words: Sequence[str]) -> Any:
    """What happened."""
    return agent.trace


def panel(shell: Any, agent: Agent, words: Sequence[str]) -> Any:
    """The conversation in a panel."""
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
    """Go on with the conversation in a file; provider and tools stay."""
    agent.context.replace_history(Agent.load(_file(words, "load")).conversation_history)
    return agent


def _file(words: Sequence[str], command: str) -> str:
    """The name of a file, with or without quotation marks; it may have spaces."""
    if not (name := " ".join(words).strip("\"'")):
        raise UsageError(f"%agent {command} FILE")
    return name


def fix(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Let the agent explain the last error. A model that is only told of tools would call one rather than explain."""
    if (text := last_error.text()) is None:
        raise UsageError("%agent fix: no cell has failed yet")
    line = "--raw" if agent.provider.supports_function_calling() else "--raw --no-tools"
    shell.run_cell_magic("agent", line, f"{text}\n\nExplain this error briefly and show the corrected code.")


def nest(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Let blocking calls of asyncio run inside the kernel's loop, where the kernel can take it."""
    match words:
        case ["on"]:
            nesting.nest_on(shell)
        case ["off"]:
            nesting.nest_off()
        case _:
            raise UsageError(f"%agent nest on | off; it is {'on' if nesting.is_nested() else 'off'}")


def stop(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Stop what panels and background tasks asked: all agents of the notebook, or those named."""
    from nbagent.notebook.panel.conversation import agents_in_panels

    named = agents_of(shell)
    if unknown := [name for name in words if name not in named]:
        raise UsageError(f"%agent stop: {unknown[0]} is no agent{instead(unknown[0], named)}")
    chosen = [named[name] for name in words] if words else {*named.values(), *agents_in_panels()}
    count = sum(each.stop() for each in chosen)
    print(f"{count} {'run' if count == 1 else 'runs'} stopped." if count else "Nothing to stop.")


def agents_of(shell: Any) -> dict[str, Agent]:
    """The notebook's agents by the names of their variables."""
    found = {name: value for name, value in list(shell.user_ns.items()) if isinstance(value, Agent)}
    return {name: value for name, value in found.items() if not name.startswith("_")}


def show_help(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """All commands."""
    lines = [f"%agent {name} {command.usage}".ljust(42) + command.help for name, command in COMMANDS.items()]
    print("\n".join([*lines, "", "%%agent? explains the options of a cell."]))


COMMANDS: dict[str, Command] = {
    "status": Command(status, "", "the agent: its model, how many tools and messages"),
    "tools": Command(tools, USAGE, "its tools, switched on and off; kernel is the set that looks at variables"),
    "models": Command(models, "", "the models that its vendor offers"),
    "model": Command(model, "VENDOR[:MODEL]", "switch to another model; the conversation stays"),
    "key": Command(key, "VENDOR", "type a vendor's key, for this kernel only"),
    "trace": Command(trace, "", "what happened, summed up; agent.trace has it as DataFrames"),
    "panel": Command(panel, "", "talk to it in a panel, beside the cells"),
    "new": Command(new, "", "forget the conversation"),
    "undo": Command(undo, "", "take back the last turn"),
    "save": Command(save, "FILE", "write the conversation to a file"),
    "load": Command(load, "FILE", "go on with the conversation in a file"),
    "fix": Command(fix, "", "let the agent explain the last error"),
    "stop": Command(stop, "[AGENT …]", "stop panels and background runs; the kernel's button stops cells"),
    "nest": Command(nest, "on | off", "asyncio.run() inside cells; on kernels before ipykernel 7 only"),
    "help": Command(show_help, "", "this list"),
}
