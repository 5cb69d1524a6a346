"""The registry of functions that a model may call.

>>> registry = FunctionRegistry()
>>> def add(a: int, b: int = 0) -> int:
...     "Add two integers."
...     return a + b
>>> registry.register("add", "", add)
>>> [function["description"] for function in registry.list_functions()]
['Add two integers.']
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbagent.core.limits import is_number
from nbagent.errors import ConfigurationError

if TYPE_CHECKING:
    from nbagent.core.messages import ToolOutcome
    from nbagent.functions.schema.introspection import FunctionSchema

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass
class FunctionDefinition:
    """One tool: what the model is told, the function, and how it is to be called.

    `parameters` is a JSON Schema of type object; None takes it from the function's signature, and an empty
    `description` takes the docstring's. Options: `approve` waits for a person's yes, or is a function of some of the
    arguments that says whether to; `parallel=False` keeps the call apart from others of the same turn; `main_thread`
    calls a sync function on the main thread; `timeout` in seconds (None: the executor's; `math.inf`: no limit);
    `retries` after the function raised; `cache_ttl` keeps results for so many seconds. `schema` is set by the registry
    where parameters come from the signature.
    """

    name: str
    description: str
    parameters: dict[str, Any] | None
    func: Callable[..., Any]
    approve: bool | Callable[..., Any] = False
    parallel: bool = True
    main_thread: bool = False
    timeout: float | None = None
    retries: int = 0
    cache_ttl: float | None = None
    schema: FunctionSchema | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.func):
            raise ConfigurationError(f"tool {self.name!r}: {self.func!r} is not callable. Pass a function.")
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigurationError(_no_name(self.name, self.func))
        if self.parameters is not None:
            self.parameters = _object_schema(self.name, self.parameters)
        is_count = isinstance(self.retries, int) and not isinstance(self.retries, bool) and self.retries >= 0
        for option, is_right, wanted in (
            ("description", isinstance(self.description, str), "a text"),
            ("approve", isinstance(self.approve, bool) or callable(self.approve), "True, False, or a function"),
            ("parallel", isinstance(self.parallel, bool), "True or False"),
            ("main_thread", isinstance(self.main_thread, bool), "True or False"),
            ("timeout", _is_time(self.timeout), "a number of seconds over 0"),
            ("cache_ttl", _is_time(self.cache_ttl), "a number of seconds over 0"),
            ("retries", is_count, "0 or a positive integer"),
        ):
            if not is_right:
                raise ConfigurationError(f"tool {self.name!r}: {option}={getattr(self, option)!r}: pass {wanted}.")

    def to_dict(self) -> dict[str, Any]:
        """What a provider is given: `{name, description, parameters}`."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


#: The names of the options of `register` and `tool`.
OPTIONS = ("approve", "parallel", "main_thread", "timeout", "retries", "cache_ttl")


def _is_time(value: Any) -> bool:
    return value is None or (is_number(value) and value > 0)


def _no_name(name: Any, func: Any) -> str:
    """What is wrong with a tool's name, and how to give it one."""
    if name in ("", "<lambda>"):
        what = "a lambda" if name else f"a {type(func).__name__}"
        return f'{what} has nothing that could be a tool\'s name. Pass name=..., as in tool(name="double")(...).'
    wanted = "use 1 to 64 of the letters a-z and A-Z, digits, _ and -"
    return f"{name!r} can't be a tool's name: {wanted}. Pass name=... to give it one."


def _object_schema(name: str, parameters: Any) -> dict[str, Any]:
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise ConfigurationError(
            f"tool {name!r}: parameters must be a JSON Schema of type object, such as "
            f'{{"type": "object", "properties": {{"city": {{"type": "string"}}}}}}; got {parameters!r}.'
        )
    return {"type": "object", "properties": {}} | parameters


class FunctionRegistry:
    """Functions by name. Subclass it for permission, statistics or caching: `before_call`, `after_call`."""

    def __init__(self) -> None:
        self._entries: dict[str, FunctionDefinition] = {}
        self._described: dict[str, FunctionDefinition] = {}  # as `get_function` gave them last

    def register(
        self,
        name: str,
        description: str,
        func: Callable[..., Any],
        parameters: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Add a function, or replace the one of that name.

        `options` are those of `FunctionDefinition`. Raises ConfigurationError for a name that vendors don't take, for
        what is not callable, and for unknown options.
        """
        for option in options:
            if option not in OPTIONS:
                raise ConfigurationError(f"tool {name!r}: no option {option!r}; there are {', '.join(OPTIONS)}.")
        self._entries[name] = FunctionDefinition(name, description or "", parameters, func, **options)
        self._described.pop(name, None)

    def adopt(self, definition: FunctionDefinition) -> None:
        """Register a definition that was made elsewhere, with its options."""
        parameters = definition.parameters if definition.schema is None else None
        options = {option: getattr(definition, option) for option in OPTIONS}
        self.register(definition.name, definition.description, definition.func, parameters, **options)

    def unregister(self, name: str) -> None:
        """Remove a function; nothing happens where there is none of that name."""
        self._entries.pop(name, None)
        self._described.pop(name, None)

    def names(self) -> list[str]:
        """The names of the functions that can be called now, in the order of registration."""
        return [name for name, entry in list(self._entries.items()) if self._current(entry) is not None]

    def get_function(self, name: str) -> FunctionDefinition | None:
        """The definition, description and parameters filled in from the function as it is now; None if unknown."""
        entry = self._entries.get(name)
        func = self._current(entry) if entry is not None else None
        if entry is None or func is None:
            return None
        if entry.parameters is not None and entry.description:
            return entry if func is entry.func else dataclasses.replace(entry, func=func)
        from nbagent.functions.schema.function_schema import schema_of

        told = schema_of(func)
        description = entry.description or told.description
        schema = told if entry.parameters is None else None
        kept = self._described.get(name)
        if kept is None or kept.func is not func or kept.schema is not schema or kept.description != description:
            parameters = told.parameters if entry.parameters is None else entry.parameters
            kept = dataclasses.replace(entry, func=func, description=description, parameters=parameters, schema=schema)
            self._described[name] = kept
        return kept

    def _current(self, entry: FunctionDefinition) -> Callable[..., Any] | None:
        """The function to call for an entry now; None while it can't be called."""
        return entry.func

    def has_function(self, name: str) -> bool:
        """Whether a function of that name can be called now."""
        entry = self._entries.get(name)
        return entry is not None and self._current(entry) is not None

    def list_functions(self) -> list[dict[str, Any]]:
        """What is offered to a model: a list of `{name, description, parameters}`."""
        definitions = [self.get_function(name) for name in self.names()]
        return [definition.to_dict() for definition in definitions if definition is not None]

    def only(self, names: Iterable[str]) -> FunctionRegistry:
        """A live view of some of the functions: what changes here changes there. A string is one name.

        Raises ConfigurationError for a name that is not registered.
        """
        if not isinstance(names, Iterable):
            raise ConfigurationError(f"tools={names!r}: give a list of tools' names.")
        chosen = [names] if isinstance(names, str) else list(dict.fromkeys(names))
        for name in chosen:
            if not isinstance(name, str):
                raise ConfigurationError(f"{name!r} is no tool's name. Name tools that the agent has, as in ['area'].")
            if not self.has_function(name):
                raise ConfigurationError(f"no tool {name!r}. {_suggestion(name, self.names())}")
        return _View(self, chosen)

    def before_call(self, definition: FunctionDefinition, arguments: dict[str, Any]) -> Any:
        """Called before a function runs, with checked arguments; may be `async`.

        Return None to go on; raise `ToolDeniedError` to refuse; return anything else, and it is the result and the
        function does not run.
        """
        return None

    def after_call(self, definition: FunctionDefinition, arguments: dict[str, Any], outcome: ToolOutcome) -> Any:
        """Called after a call with valid arguments, whatever came of it; may be `async`. What it returns is ignored."""
        return None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.has_function(name)

    def __len__(self) -> int:
        return len(self.names())

    def __bool__(self) -> bool:
        """True even when empty: a registry that was passed is not a missing one."""
        return True

    def __repr__(self) -> str:
        names = self.names()
        count = "1 function" if len(names) == 1 else f"{len(names)} functions"
        return f"{type(self).__name__}({count}{': ' if names else ''}{', '.join(names)})"


class _View(FunctionRegistry):
    """Some functions of another registry, by name. What is registered here stays here."""

    def __init__(self, parent: FunctionRegistry, chosen: list[str]) -> None:
        super().__init__()
        self._parent = parent
        self._chosen = chosen

    def unregister(self, name: str) -> None:
        super().unregister(name)
        self._chosen = [chosen for chosen in self._chosen if chosen != name]

    def names(self) -> list[str]:
        chosen = [name for name in self._chosen if name not in self._entries and self._parent.has_function(name)]
        return chosen + super().names()

    def get_function(self, name: str) -> FunctionDefinition | None:
        if name in self._entries:
            return super().get_function(name)
        return self._parent.get_function(name) if name in self._chosen else None

    def has_function(self, name: str) -> bool:
        return name in self.names()

    def before_call(self, definition: FunctionDefinition, arguments: dict[str, Any]) -> Any:
        return self._parent.before_call(definition, arguments)

    def after_call(self, definition: FunctionDefinition, arguments: dict[str, Any], outcome: ToolOutcome) -> Any:
        return self._parent.after_call(definition, arguments, outcome)


def _suggestion(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        return f"Did you mean {', '.join(near)}?"
    return f"There are {', '.join(names)}." if names else "None is registered."
