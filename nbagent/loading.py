"""Loads the agent that a command names: a Python file, `file.py:name`, `module:name`, or none.

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

#: The default variable of a file.
_VARIABLE = "agent"
#: Prefix of the file's `__name__`, so code below `if __name__ == "__main__":` does not run.
_MODULE_NAME = "nbagent_served"


def load_agent(target: str | None = None) -> Agent:
    """The agent that `target` names. If it names a function, the function is called and returns the agent.

    - `app.py`, `app.py:agent`, `package.module:make_agent`: a variable of a file or a module, by default `agent`
    - None: `Agent()`

    Raises ConfigurationError, and whatever the file raises.
    """
    if target is None:
        return Agent()
    place, name = _split(target)
    return _agent_in(_module(place), place, name)


def load_agents(targets: Sequence[str]) -> dict[str, Agent]:
    """Load the agents that `targets` name, keyed by variable: `app.py:one` has the key `one`, and `app.py` has `app`.

    A single agent has the key "". Each file runs once.
    """
    if len(targets) <= 1:
        return {"": load_agent(*targets)}
    modules: dict[str, ModuleType] = {}
    named: dict[str, Agent] = {}
    for target in targets:
        place, variable = _split(target)
        name = variable if variable != _VARIABLE else Path(place.removesuffix(".py")).name.rpartition(".")[2]
        if name in named:
            raise ConfigurationError(f"Two agents have the name {name!r}. Name their variables: {place}:NAME.")
        modules[place] = modules.get(place) or _module(place)
        named[name] = _agent_in(modules[place], place, variable)
    return named


def _agent_in(module: ModuleType, place: str, name: str) -> Agent:
    made: Agent | Callable[[], Any] | None = getattr(module, name, None)
    if made is None:
        known = [each for each in vars(module) if not each.startswith("_")]
        raise ConfigurationError(
            f"{place} has no {name!r}{did_you_mean(name, known) or '.'} Name its agent: {place}:NAME."
        )
    agent = made() if callable(made) and not isinstance(made, Agent) else made
    fix = "Name a variable that holds an Agent, or a function that returns one."
    check_type(f"{place}:{name}", agent, Agent, fix=fix)
    assert isinstance(agent, Agent)
    return agent


def run_file(path: str) -> ModuleType:
    """Run a Python file as a module. Raises ConfigurationError if there is none."""
    file = Path(path).resolve()
    name = f"{_MODULE_NAME}_{file.stem}"
    spec = spec_from_file_location(name, file) if file.is_file() else None
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"expected a Python file, got {path!r}. Name one that ends in .py.")
    sys.path.insert(0, str(file.parent))
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _split(target: str) -> tuple[str, str]:
    place, colon, name = target.rpartition(":")
    if colon and name.isidentifier():
        return place, name
    return target, _VARIABLE


def _module(name: str) -> ModuleType:
    if name.endswith(".py"):
        return run_file(name)
    sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{name}.".startswith(f"{error.name}."):  # one that it imports
            raise
        fix = "Write `agent = Agent(...)` in a file and name it: app.py:agent."
        raise ConfigurationError(f"expected a Python file or a module, got {name!r}. {fix}") from None
