"""Tab completion for `%%agent` and `%agent`: options and their values, agents, models, tools, commands, file names.

Only what is known on this machine is offered: a press of Tab never waits for a vendor. Inside the braces of a question
Python is completed as anywhere else; the prose around them is left alone.
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

from nbagent.agent import Agent
from nbagent.notebook.kernel_tools.kernel_tools import KERNEL_TOOLS
from nbagent.notebook.magics.commands import COMMANDS, agents_of
from nbagent.notebook.magics.tool_commands import KERNEL
from nbagent.pricing import priced_models
from nbagent.providers import provider_names
from nbagent.providers.catalog import CATALOG, with_keys

_CELL = re.compile(r"\s*%%agent(?P<rest>\s.*|)$")
_LINE = re.compile(r"(?:.*=)?\s*%agent\s(?P<rest>.*)$")
#: The version in a model's name.
_VERSION = re.compile(r"(?<!\d)(\d{1,2})(?![\dkb])(?:[.-](\d{1,2})(?![\dkb]))?", re.IGNORECASE)
#: How many files are offered, and how many models as long as any will do.
MOST_FILES, MOST_MODELS = 100, 12

#: What can stand at the cursor, the part of it that is there already, and what kind of thing it is.
Found = tuple[Iterable[str], str, str]


def matcher(shell: Any, parser: argparse.ArgumentParser) -> Any:
    """A matcher for IPython's completer; `parser` knows the options of `%%agent`."""

    @context_matcher(identifier="nbagent")
    def match(context: Any) -> dict[str, Any]:
        found = _complete(shell, parser, context)
        if found is None:
            return {"completions": []}
        candidates, typed, kind = found
        fitting = [text for text in dict.fromkeys(candidates) if text.startswith(typed)]
        # where nothing fits, what is there already: else Python's names would be offered
        texts = fitting or ([typed] if typed else [])
        completions = [SimpleCompletion(text, type="option" if text.startswith("-") else kind) for text in texts]
        return {"completions": completions, "matched_fragment": typed, "ordered": True, "suppress": True}

    match.__dict__["nbagent"] = True  # how `unload` finds it again
    return match


def _complete(shell: Any, parser: argparse.ArgumentParser, context: Any) -> Found | None:
    """What fits at the cursor; None where that is not ours to say."""
    lines = context.full_text.split("\n")
    before = lines[context.cursor_line][: context.cursor_position]
    if typed := _CELL.match(before):
        return _option(shell, parser, *_words(typed["rest"])) if typed["rest"] else None
    if typed := _LINE.match(before):
        return _command(shell, *_words(typed["rest"]))
    if any(_CELL.match(line) for line in lines[: context.cursor_line]):
        text = "\n".join([*lines[: context.cursor_line], before])
        return None if text.rfind("{") > text.rfind("}") else ((), re.split(r"\s", before)[-1], "text")
    return None


def _words(text: str) -> tuple[list[str], str]:
    """The words before the one at the cursor, and that one as far as it is typed."""
    words = re.split(r"\s+", text)
    return [word for word in words[:-1] if word], words[-1]


# -- %%agent ----------------------------------------------------------------------------------------------------------


def _option(shell: Any, parser: argparse.ArgumentParser, words: list[str], typed: str) -> Found:
    """An option, its value, or the agent's name."""
    actions = {name: action for action in parser._actions for name in action.option_strings}
    name, has_value, value = typed.partition("=")
    if has_value and name in actions:
        return _value(shell, actions[name], words, value)
    if words and words[-1] in actions and actions[words[-1]].nargs is None:
        return _value(shell, actions[words[-1]], words, typed)
    used = {actions[word] for word in words if word in actions}
    options = [name for name, action in actions.items() if action not in used]
    return ([] if _name(words, actions) else [*agents_of(shell)]) + options, typed, "agent"


def _name(words: Sequence[str], actions: dict[str, argparse.Action]) -> str | None:
    """The word that names the agent, if it is there."""
    before = [None, *words]
    for last, word in zip(before, words, strict=False):
        takes_it = last in actions and actions[last].nargs is None
        if not word.startswith("-") and not takes_it:
            return word
    return None


def _value(shell: Any, action: argparse.Action, words: Sequence[str], typed: str) -> Found:
    if (words_meant := action.choices or getattr(action.type, "words", None)) is not None:
        return map(str, words_meant), typed, "value"
    if action.dest == "model":
        return models(typed), typed, "model"
    if action.dest == "tools":
        *given, last = typed.split(",")
        agents = agents_of(shell)
        agent = next((agents[word] for word in words if word in agents), agents.get("agent"))
        known = agent.function_registry.names() if agent is not None else []
        return [name for name in known if name not in given], last, "tool"
    return (), typed, "value"


def models(typed: str) -> list[str]:
    """Vendors, and of the one that is named or left its default; after the colon its models with a known price, too.

    The default comes first, then its family, newer before older, then others, such as other makers' models. Front ends
    may sort by name: so the newest alone are offered until a model's name has begun.
    """
    vendor, colon, begun = typed.partition(":")
    vendors = [name for name in provider_names() if name.startswith(vendor)]
    if colon:
        vendors = [vendor] if vendor in vendors else []
    if len(vendors) != 1:
        return vendors
    default = CATALOG[vendors[0]].model if vendors[0] in CATALOG else ""
    known = sorted(priced_models(vendors[0]), key=lambda model: (_family(model) != _family(default), *_age(model)))
    if not begun:
        family = [model for model in known if _family(model) == _family(default)]
        known = (family[:MOST_MODELS] or known) if colon else []
    return [*vendors, *(f"{vendors[0]}:{model}" for model in [default, *known] if model)]


def _family(model: str) -> str:
    """`claude-sonnet-5` -> `claude`."""
    return re.split(r"[^a-z]", model.lower(), maxsplit=1)[0]


def _age(model: str) -> tuple[str, int, int]:
    """The maker, where the name has one, and less than 0 the more, the higher the version in the name is.

    Names tell no dates. Numbers that are a date or a size are no versions: `gpt-4o-2024-05-13`, `glm-4-32b`.
    """
    maker, _, name = model.rpartition("/")
    found = _VERSION.search(name)
    return (maker, -int(found[1]), -int(found[2] or 0)) if found else (maker, 0, 0)


# -- %agent -----------------------------------------------------------------------------------------------------------


def _command(shell: Any, words: list[str], typed: str) -> Found:
    if not words:
        return COMMANDS, typed, "command"
    kind, complete = _ARGUMENTS.get(words[0], ("value", None))
    return complete(shell, words[1:], typed) if complete is not None else (), typed, kind


def _tools(shell: Any, words: list[str], typed: str) -> list[str]:
    agent = shell.user_ns.get("agent")
    names = agent.function_registry.names() if isinstance(agent, Agent) else []
    off = agent.tools_off if isinstance(agent, Agent) else set()
    match words:
        case []:
            return ["add", "drop"]
        case ["drop", *chosen]:
            kernel = [KERNEL] if set(names) & set(KERNEL_TOOLS) - off else []
            return [name for name in [*names, *kernel] if name not in off and name not in chosen]
        case ["add", *chosen]:
            found = [*_callables(shell, typed), *(name for name in names if name in off), KERNEL, *KERNEL_TOOLS]
            return [name for name in found if name not in chosen and (name not in names or name in off)]
    return []


def _callables(shell: Any, typed: str) -> list[str]:
    """The notebook's own functions, and methods of its objects: `shop.` first, then what it has."""
    hidden = getattr(shell, "user_ns_hidden", {})
    own = {
        name: value for name, value in list(shell.user_ns.items()) if not name.startswith("_") and name not in hidden
    }
    first, dot, _ = typed.partition(".")
    if dot:
        owner = own.get(first)
        methods = [name for name in dir(owner) if not name.startswith("_") and inspect.isroutine(_static(owner, name))]
        return [f"{first}.{name}" for name in methods]
    functions = [name for name, value in own.items() if inspect.isfunction(value) and _is_users(value)]
    return functions + [f"{name}." for name, value in own.items() if type(value).__module__ == "__main__"]


def _static(owner: Any, name: str) -> Any:
    """The attribute, no property being evaluated."""
    found = inspect.getattr_static(owner, name, None)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


def _is_users(function: Any) -> bool:
    return not (getattr(function, "__module__", None) or "").startswith(("nbagent", "IPython", "ipykernel"))


def _files(shell: Any, typed: str) -> list[str]:
    """Folders, and files that may hold a conversation."""
    home = os.path.expanduser("~")
    path = home + typed[1:] if typed.startswith("~") else typed
    found = sorted(glob.glob(f"{glob.escape(path)}*"))[:MOST_FILES]
    shown = [f"{name}{os.sep}" if os.path.isdir(name) else name for name in found]
    kept = [name for name in shown if name.endswith((os.sep, ".json")) and " " not in name]
    return [f"~{name[len(home) :]}" for name in kept] if typed.startswith("~") else kept


def _first(candidates: Callable[[Any, str], Iterable[str]]) -> Callable[[Any, list[str], str], Iterable[str]]:
    """Candidates for a command's only argument."""
    return lambda shell, words, typed: () if words else candidates(shell, typed)


#: What can follow a command: what it is, and a function of the shell, the words after the command, and what is typed.
_ARGUMENTS: dict[str, tuple[str, Callable[[Any, list[str], str], Iterable[str]]]] = {
    "tools": ("tool", _tools),
    "model": ("model", _first(lambda shell, typed: models(typed))),
    "key": ("vendor", _first(lambda shell, typed: with_keys())),
    "save": ("file", _first(_files)),
    "load": ("file", _first(_files)),
    "stop": ("agent", lambda shell, words, typed: [name for name in agents_of(shell) if name not in words]),
    "nest": ("value", _first(lambda shell, typed: ("on", "off"))),
}
