"""Tab completion for `%%agent` and `%agent`: options and their values, agents, models, tools, commands, file names.

Only names that are known locally are offered, so Tab never waits for a provider. Inside the braces of a prompt, Python
is completed as usual. At the start of a prompt, skills are offered after `/`. In the rest of the prompt, nothing is
offered.
"""

from __future__ import annotations

import argparse
import glob
import inspect
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from nbagent.agent.agent import Agent
from nbagent.notebook.document.modes import MODES
from nbagent.notebook.known_models import known_models
from nbagent.notebook.magics.commands import COMMANDS, GROUPS, OUR_TOOLS, agents_of
from nbagent.notebook.panel.mentions import servers_of
from nbagent.notebook.panel.skill_mentions import skills_of
from nbagent.providers import provider_names
from nbagent.providers.catalog import with_keys

_CELL = re.compile(r"\s*%%agent(?P<rest>\s.*|)$")
_LINE = re.compile(r"(?:.*=)?\s*%agent\s(?P<rest>.*)$")
#: A prompt that has only names of skills so far.
_SKILL = re.compile(r"^\s*%%agent\b(?P<line>.*)\n\s*(?:/[^\s/]+\s+)*(?P<name>/[^\s/]*)$", re.MULTILINE)
MAX_FILES = 100

#: The candidates at the cursor, the part already typed, and their kind.
Candidates = tuple[Iterable[str], str, str]


def matcher(shell: Any, parser: argparse.ArgumentParser) -> Any:
    """Create a matcher for IPython's completer. `parser` has the options of `%%agent`."""

    @context_matcher(identifier="nbagent")
    def match(context: Any) -> dict[str, Any]:
        found = _complete(shell, parser, context)
        if found is None:
            return {"completions": []}
        candidates, typed, kind = found
        # if nothing matches, offer the typed text itself, or else IPython would offer Python names
        texts = [text for text in dict.fromkeys(candidates) if text.startswith(typed)] or [typed] * bool(typed)
        completions = [SimpleCompletion(text, type="option" if text.startswith("-") else kind) for text in texts]
        return {"completions": completions, "matched_fragment": typed, "ordered": True, "suppress": True}

    return match


def _complete(shell: Any, parser: argparse.ArgumentParser, context: Any) -> Candidates | None:
    """The candidates at the cursor, or None to leave completion to IPython."""
    lines = context.full_text.split("\n")
    before = lines[context.cursor_line][: context.cursor_position]
    if typed := _CELL.match(before):
        return _option(shell, parser, *_words(typed["rest"])) if typed["rest"] else None
    if typed := _LINE.match(before):
        return _command(shell, *_words(typed["rest"]))
    if any(_CELL.match(line) for line in lines[: context.cursor_line]):
        text = "\n".join([*lines[: context.cursor_line], before])
        if found := _skill(shell, text):
            return found
        return None if text.rfind("{") > text.rfind("}") else ((), re.split(r"\s", before)[-1], "text")
    return None


def _skill(shell: Any, text: str) -> Candidates | None:
    """The skills of the cell's agent, while `/name` is typed at the start of the prompt."""
    if (typed := _SKILL.search(text)) is None:
        return None
    agents = agents_of(shell)
    named = next((agents[word] for word in typed["line"].split() if word in agents), agents.get("agent"))
    return [f"/{name}" for name in skills_of(named)] if named is not None else (), typed["name"], "skill"


def _words(text: str) -> tuple[list[str], str]:
    """The complete words before the cursor, and the current one."""
    words = re.split(r"\s+", text)
    return [word for word in words[:-1] if word], words[-1]


def _option(shell: Any, parser: argparse.ArgumentParser, words: list[str], typed: str) -> Candidates:
    """Options and agents, or the values of the option before the cursor."""
    actions = {name: action for action in parser._actions for name in action.option_strings}
    name, has_value, value = typed.partition("=")
    if has_value and name in actions:
        return _value(shell, actions[name], words, value)
    takes_value = [word in actions and actions[word].nargs is None for word in words]
    if words and takes_value[-1]:
        return _value(shell, actions[words[-1]], words, typed)
    used = {actions[word] for word in words if word in actions}
    options = [name for name, action in actions.items() if action not in used]
    has_agent = any(
        not word.startswith("-") and not is_value for word, is_value in zip(words, [False, *takes_value], strict=False)
    )
    return [*(() if has_agent else agents_of(shell)), *options], typed, "agent"


def _value(shell: Any, action: argparse.Action, words: Sequence[str], typed: str) -> Candidates:
    if (values := action.choices or getattr(action.type, "words", None)) is not None:
        return map(str, values), typed, "value"
    if action.dest == "model":
        return models(typed), typed, "model"
    if action.dest == "tools":
        *given, last = typed.split(",")
        agents = agents_of(shell)
        agent = next((agents[word] for word in words if word in agents), agents.get("agent"))
        names = agent.function_registry.names() if agent is not None else []
        return [name for name in names if name not in given], last, "tool"
    if action.dest in _VARIABLES:
        return [name for name, value in _variables(shell).items() if _VARIABLES[action.dest](value)], typed, "variable"
    return (), typed, "value"


#: Whether a variable fits an option.
_VARIABLES: dict[str, Callable[[Any], bool]] = {
    "map": lambda value: type(value).__name__ in ("DataFrame", "Series"),
    "shape": lambda value: isinstance(value, type) and hasattr(value, "model_json_schema"),
}


def models(typed: str) -> list[str]:
    """The matching providers. If only one matches, its default model follows or, if a colon has been typed, all its
    known models.

    >>> models("cla")
    ['claude', 'claude:claude-sonnet-5']
    """
    provider, colon, _ = typed.partition(":")
    providers = [name for name in provider_names() if (name == provider if colon else name.startswith(provider))]
    if len(providers) != 1:
        return providers
    known = known_models(providers[0])
    return [*providers, *(f"{providers[0]}:{model}" for model in (known if colon else known[:1]))]


def _command(shell: Any, words: list[str], typed: str) -> Candidates:
    if not words:
        return COMMANDS, typed, "command"
    kind, candidates = _ARGUMENTS.get(words[0], ("value", None))
    return candidates(shell, words[1:], typed) if candidates is not None else (), typed, kind


def _tools(shell: Any, words: list[str], typed: str) -> list[str]:
    agent = shell.user_ns.get("agent")
    names = agent.function_registry.names() if isinstance(agent, Agent) else []
    off = agent.tools_off if isinstance(agent, Agent) else set()
    match words:
        case []:
            return ["add", "drop", "ask"]
        case ["drop", *chosen]:
            groups = [group for group, tools in GROUPS.items() if set(names) & set(tools) - off]
            return [name for name in [*names, *groups] if name not in off and name not in chosen]
        case ["ask", *chosen]:
            return [name for name in names if name not in chosen]
        case ["add", *chosen]:
            found = [*_callables(shell, typed), *(name for name in names if name in off), *OUR_TOOLS]
            return [name for name in found if name not in chosen and (name not in names or name in off)]
    return []


def _callables(shell: Any, typed: str) -> list[str]:
    """The user's functions, and objects as `shop.`; after the dot, the object's methods."""
    variables = _variables(shell)
    owner, dot, _ = typed.partition(".")
    if dot:
        return [f"{owner}.{name}" for name in dir(variables.get(owner)) if _is_method(variables.get(owner), name)]
    functions = [name for name, value in variables.items() if inspect.isfunction(value) and _is_users(value)]
    return functions + [f"{name}." for name, value in variables.items() if type(value).__module__ == "__main__"]


def _variables(shell: Any) -> dict[str, Any]:
    hidden = getattr(shell, "user_ns_hidden", {})
    return {
        name: value for name, value in list(shell.user_ns.items()) if not name.startswith("_") and name not in hidden
    }


def _is_method(owner: Any, name: str) -> bool:
    """Whether it is a public method. Properties are not evaluated."""
    found = inspect.getattr_static(owner, name, None)
    found = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    return not name.startswith("_") and inspect.isroutine(found)


def _is_users(function: Any) -> bool:
    return not (getattr(function, "__module__", None) or "").startswith(("nbagent", "IPython", "ipykernel"))


def _files(typed: str) -> list[str]:
    """Folders, and JSON files, which may be conversations."""
    home = os.path.expanduser("~")
    path = home + typed[1:] if typed.startswith("~") else typed
    found = sorted(glob.glob(f"{glob.escape(path)}*"))[:MAX_FILES]
    shown = [f"{name}{os.sep}" if os.path.isdir(name) else name for name in found]
    kept = [name for name in shown if name.endswith((os.sep, ".json")) and " " not in name]
    return [f"~{name[len(home) :]}" for name in kept] if typed.startswith("~") else kept


def _mcp(shell: Any, words: list[str], typed: str) -> list[str]:
    agent = shell.user_ns.get("agent")
    match words:
        case []:
            return ["resources", "prompts", "prompt", "use", "close"]
        case ["use"]:
            return _files(typed)
        case ["close", *chosen] if isinstance(agent, Agent):
            return [name for name in servers_of(agent) if name not in chosen]
    return []


def _only_argument(candidates: Callable[[str], Iterable[str]]) -> Callable[[Any, list[str], str], Iterable[str]]:
    return lambda shell, words, typed: () if words else candidates(typed)


#: Candidates after a command: their kind, and a function of the shell, the earlier arguments and the typed text.
_ARGUMENTS: dict[str, tuple[str, Callable[[Any, list[str], str], Iterable[str]]]] = {
    "tools": ("tool", _tools),
    "mcp": ("server", _mcp),
    "skills": ("value", _only_argument(lambda typed: ("use", "trust", "distrust", "reload"))),
    "model": ("model", _only_argument(models)),
    "key": ("provider", _only_argument(lambda typed: with_keys())),
    "save": ("file", _only_argument(_files)),
    "load": ("file", _only_argument(_files)),
    "keep": ("file", _only_argument(lambda typed: ["off", *_files(typed)])),
    "restore": ("file", _only_argument(_files)),
    "stop": ("agent", lambda shell, words, typed: [name for name in agents_of(shell) if name not in words]),
    "nest": ("value", _only_argument(lambda typed: ("on", "off"))),
    "mode": ("value", _only_argument(lambda typed: MODES)),
    "hints": ("value", _only_argument(lambda typed: ("on", "off"))),
}
