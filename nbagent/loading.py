"""The agent that a command names: a Python file, `file.py:name`, `module:name`, a configuration file, or none.

>>> load_agent("app.py:agent")                                              # doctest: +SKIP
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from nbagent.agent.agent import Agent
from nbagent.checks import check_type
from nbagent.config import AgentConfig
from nbagent.errors import ConfigurationError
from nbagent.skills.host import SkillHost
from nbagent.text import did_you_mean

#: The file's `__name__`: what stands below `if __name__ == "__main__":` does not run.
MODULE_NAME = "nbagent_served_file"
_FORMATS = (".json", ".toml", ".yaml", ".yml")
_SKILLS = ("skills", "builtin_skills")


def load_agent(target: str | None = None) -> Agent:
    """The agent that `target` names. A function that it names is called, and returns the agent.

    - `app.py`, `app.py:agent`, `package.module:make_agent`: a variable of a file or a module, by default `agent`
    - `agent.toml`, `agent.yaml` or `agent.json`: the fields of `AgentConfig` but for the key, which stays in the
      environment; `skills`, a list of folders; and `builtin_skills = true`
    - None: `Agent()`

    Raises ConfigurationError, and whatever the file raises.
    """
    if target is None:
        return Agent()
    place, name = _split(target)
    if place.endswith(_FORMATS):
        return _configured(Path(place))
    module = run_file(place, MODULE_NAME) if place.endswith(".py") else _module(place)
    made: Agent | Callable[[], Any] | None = getattr(module, name, None)
    if made is None:
        known = [each for each in vars(module) if not each.startswith("_")]
        raise ConfigurationError(
            f"{place} has no {name!r}{did_you_mean(name, known) or '.'} Name its agent: {place}:NAME."
        )
    agent = made() if callable(made) and not isinstance(made, Agent) else made
    check_type(target, agent, Agent, fix="Name a variable that holds an Agent, or a function that returns one.")
    assert isinstance(agent, Agent)
    return agent


def run_file(path: str, name: str) -> ModuleType:
    """Run a Python file as a module of this name. Raises ConfigurationError if there is none."""
    file = Path(path).resolve()
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
    return target, "agent"


def _module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{name}.".startswith(f"{error.name}."):  # one that it imports
            raise
        expected = "a Python file, a module, or a .toml, .yaml or .json file"
        raise ConfigurationError(f"expected {expected}, got {name!r}.") from None


def _configured(file: Path) -> Agent:
    settings = _read(file)
    known = [f.name for f in fields(AgentConfig) if f.name != "api_key"]
    for name in settings:
        if name == "api_key":
            raise ConfigurationError(f"{file}: a key does not belong into it. Set the vendor's environment variable.")
        if name not in (*known, *_SKILLS):
            raise ConfigurationError(
                f"{file}: there is no setting {name!r}{did_you_mean(name, (*known, *_SKILLS)) or '.'}"
            )
    skills = {name: settings.pop(name) for name in _SKILLS if name in settings}
    config = AgentConfig(**settings)
    agent = Agent(config)
    if config.provider is None and not config.base_url:
        agent.provider = config.model or None  # `vendor:model`, or what `Agent()` chooses
    if skills:
        folders = [file.parent / folder for folder in skills.get("skills", ())]
        agent.use(SkillHost(*folders, builtin=skills.get("builtin_skills", False), discover=False))
    return agent


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text("utf-8")
        if file.suffix == ".toml":
            return tomllib.loads(text)
        if file.suffix == ".json":
            data: Any = json.loads(text)
        else:
            data = yaml.safe_load(text)
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r} can't be read: {error.strerror or error}.") from None
    except (ValueError, yaml.YAMLError) as error:  # those of TOML, JSON and Unicode are ValueErrors
        raise ConfigurationError(f"{str(file)!r} can't be read: {error}") from None
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"{str(file)!r}: expected settings by name, got {type(data).__name__}.")
    return dict(data)
