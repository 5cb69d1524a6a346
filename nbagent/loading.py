"""Loads the agent that a command names, as `file.py`, `file.py:name` or `module:name`. Without a name, loads `Agent()`.

>>> load_agent("app.py:agent")                                              # doctest: +SKIP
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from nbagent.agent.agent import Agent
from nbagent.checks import check_type
from nbagent.errors import ConfigurationError
from nbagent.text import did_you_mean

#: The variable that is read by default.
_VARIABLE = "agent"
#: The prefix of a file's `__name__`, so that code below `if __name__ == "__main__":` does not run.
_MODULE_NAME = "nbagent_served"


def load_agent(target: str | None = None) -> Agent:
    """Load the agent that `target` names.

    - `app.py`, `app.py:agent`, `package.module:make_agent`: a variable of a file or module, by default `agent`. If it
      is a function, it is called and must return the agent.
    - None: `Agent()`

    Raises `ConfigurationError`, or any error that the file itself raises.
    """
    if target is None:
        return Agent()
    source, name = _split(target)
    return _agent_in(_module(source), source, name)


def load_agents(targets: Sequence[str]) -> dict[str, Agent]:
    """Load the agents that `targets` name, by key. `app.py:one` has the key `one`, and `app.py` has the key `app`.

    A single agent has the key "". Each file runs once.
    """
    if len(targets) <= 1:
        return {"": load_agent(*targets)}
    modules: dict[str, ModuleType] = {}
    agents: dict[str, Agent] = {}
    for target in targets:
        source, variable = _split(target)
        name = variable if variable != _VARIABLE else Path(source.removesuffix(".py")).name.rpartition(".")[2]
        if name in agents:
            raise ConfigurationError(f"Two agents have the name {name!r}. Name their variables: {source}:NAME.")
        modules[source] = modules.get(source) or _module(source)
        agents[name] = _agent_in(modules[source], source, variable)
    return agents


def _agent_in(module: ModuleType, source: str, name: str) -> Agent:
    found: Agent | Callable[[], Any] | None = getattr(module, name, None)
    if found is None:
        hint = did_you_mean(name, (known for known in vars(module) if not known.startswith("_"))) or "."
        raise ConfigurationError(f"{source} has no variable {name!r}{hint} Name the agent's variable: {source}:NAME.")
    agent = found() if callable(found) and not isinstance(found, Agent) else found
    fix = "Name a variable with an Agent, or a function that returns one."
    check_type(f"{source}:{name}", agent, Agent, fix=fix)
    assert isinstance(agent, Agent)
    return agent


def run_file(path: str) -> ModuleType:
    """Run a Python file as a module. Raises `ConfigurationError` if the file is missing or not a Python file."""
    file = Path(path).resolve()
    name = f"{_MODULE_NAME}_{file.stem}"
    if not file.is_file():
        raise ConfigurationError(f"There is no file {path!r}. Correct the path.")
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"Expected a Python file, got {path!r}. Name a file that ends in .py.")
    sys.path.insert(0, str(file.parent))
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _split(target: str) -> tuple[str, str]:
    source, colon, name = target.rpartition(":")
    if colon and name.isidentifier():
        return source, name
    return target, _VARIABLE


def _module(name: str) -> ModuleType:
    if name.endswith(".py"):
        return run_file(name)
    sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{name}.".startswith(f"{error.name}."):  # the module imports it
            raise
        fix = "Write `agent = Agent(...)` in a file and name it: app.py:agent."
        raise ConfigurationError(f"Expected a Python file or a module, got {name!r}. {fix}") from None
