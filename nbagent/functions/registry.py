"""The functions that a model may call, each with its options.

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
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from nbagent.checks import check_choice, check_number, check_type, invalid
from nbagent.core.results import ToolOutcome
from nbagent.errors import ConfigurationError
from nbagent.functions.schema.introspection import signature_of
from nbagent.text import did_you_mean

if TYPE_CHECKING:
    from nbagent.functions.schema.function_schema import FunctionSchema  # loads pydantic

#: The longest tool name, in characters, that all providers accept.
MAX_NAME = 64
#: Annotations that can be described to every model, including as text.
_PLAIN = (inspect.Parameter.empty, str, "str", int, "int", float, "float", bool, "bool", list, "list", dict, "dict")


class ToolOptions(TypedDict, total=False):
    """The options of a tool; `nbagent.tool` describes them."""

    approve: bool | Callable[..., Any]
    parallel: bool
    main_thread: bool
    timeout: float | None
    retries: int
    cache_ttl: float | None


def check_options(owner: str, options: Iterable[str]) -> None:
    """Raise `ConfigurationError` for an unknown option."""
    for option in options:
        check_choice(f"{owner}: option", option, ToolOptions.__annotations__)


@dataclass
class FunctionDefinition:
    """A tool: its description for the model, the function, and options.

    `parameters` is a JSON Schema of type object, or None to derive it from the function's signature. If `description`
    is empty, the docstring is used. `nbagent.tool` describes the fields from `approve` to `cache_ttl`. The registry
    sets `schema` if the parameters come from the signature. `source` names the skill or MCP server that the tool comes
    from, as in "mcp:files"; it may be a function of the arguments that returns the name. A `pinned` tool's results are
    not cut, and are kept when a long conversation is trimmed. `native` is the neutral name of a tool that is built into
    some providers' models, such as "memory"; those models receive that tool, without a schema. `provider_options` are
    the options of a tool that the provider runs (see `functions.provider_tools`), else None. `preview`, sync or async,
    receives the arguments and returns a `functions.preview.Preview` for the person who approves the call. If it raises
    a `ToolError`, that error is the call's result, and nobody is asked.
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
    source: str | Callable[..., str] = ""
    pinned: bool = False
    native: str = ""
    provider_options: Mapping[str, Any] | None = None
    preview: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        tool = f"tool {self.name!r}"
        if not callable(self.func):
            raise invalid(f"{tool}: func", self.func, "a function", "Pass the function itself, not its name or result.")
        if not isinstance(self.name, str) or not 0 < len(self.name) <= MAX_NAME or not is_name(self.name):
            raise _invalid_name(self.name, self.func)
        if self.parameters is not None:
            if not isinstance(self.parameters, dict) or self.parameters.get("type", "object") != "object":
                example = 'An example: {"type": "object", "properties": {"city": {"type": "string"}}}'
                raise invalid(f"{tool}: parameters", self.parameters, "a JSON Schema of type object", example)
            self.parameters = {"type": "object", "properties": {}} | self.parameters
        check_type(f"{tool}: description", self.description, str)
        if not callable(self.approve) and not isinstance(self.approve, bool):
            raise invalid(f"{tool}: approve", self.approve, "True, False or a function of the tool's arguments")
        check_choice(f"{tool}: parallel", self.parallel, (True, False))
        check_choice(f"{tool}: main_thread", self.main_thread, (True, False))
        check_number(f"{tool}: timeout", self.timeout, above=0, optional=True, fix="Pass seconds.")
        check_number(f"{tool}: cache_ttl", self.cache_ttl, above=0, optional=True, fix="Pass seconds.")
        check_type(f"{tool}: retries", self.retries, int)
        check_number(f"{tool}: retries", self.retries, minimum=0)

    def to_dict(self) -> dict[str, Any]:
        """The definition for a provider: `{name, description, parameters}`, plus `native` and `provider_options` if
        set.
        """
        declared: dict[str, Any] = {"name": self.name, "description": self.description, "parameters": self.parameters}
        declared |= {"native": self.native} if self.native else {}
        return declared | ({} if self.provider_options is None else {"provider_options": dict(self.provider_options)})


def is_name(text: str) -> bool:
    """Whether a text consists only of letters and marks of any script, digits, _ and -.

    >>> is_name("मौसम-2"), is_name("read.all")
    (True, False)
    """
    return f"_{text.replace('-', '_')}".isidentifier()


def clean_name(name: str) -> str:
    """Put an underscore in place of each run of characters that `is_name` rejects.

    >>> clean_name("मौसम (दिल्ली)"), clean_name("notes.delete/all")
    ('मौसम_दिल्ली_', 'notes_delete_all')
    """
    return re.sub(r"\s+", "_", "".join(char if is_name(char) else " " for char in name))


def _check_signature(func: Any, name: str, given: Mapping[str, Any] | None) -> None:
    """Raise `ConfigurationError` if the parameters can't be described to a model or passed to the function."""
    owner, _, own_name = getattr(func, "__qualname__", "").rpartition(".")
    try:
        parameters = list(signature_of(func).parameters.values())
    except (ValueError, TypeError):  # a builtin without a signature
        return
    first = [p.name for p in parameters[:1] if p.kind is not p.POSITIONAL_ONLY]  # such as `self` of `str.upper`
    if owner and not owner.endswith("<locals>") and first in (["self"], ["cls"]):
        raise ConfigurationError(
            f"{owner}.{own_name} is a method without an object to call it on. Create the object and pass its method, "
            f"as in tool(my_object.{own_name}). Or mark methods in the class with agent_callable, and register them "
            "with register_instance_methods."
        )
    if given is not None:
        taken = {p.name for p in parameters if p.kind is not p.VAR_POSITIONAL}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters) and (unknown := given.keys() - taken):
            fix = "Name parameters as the function does; make *args a list."
            raise invalid(f"tool {name!r}: parameters", sorted(unknown), f"any of {sorted(taken)}", fix)
        return
    if all(p.annotation in _PLAIN and p.kind is not p.VAR_POSITIONAL for p in parameters):
        return  # without loading pydantic
    from nbagent.functions.schema.function_schema import schema_of

    if problems := schema_of(func).problems:
        raise ConfigurationError(
            f"tool {name!r}: {'; '.join(problems)}. Change the annotation, or give the parameter a default "
            "to hide it from the model. To accept any JSON, annotate it with Annotated[..., SkipJsonSchema()]. To have "
            "nbagent fill it in, annotate it with RunContext."
        )


def _invalid_name(name: object, func: object) -> ConfigurationError:
    if name in ("", "<lambda>"):
        kind = "lambda" if name else type(func).__name__
        example = 'tool(name="double")(lambda x: 2 * x)'
        return ConfigurationError(f"a {kind} has no name to use as the tool's name. Pass name=..., as in {example}.")
    return invalid("the tool's name", name, "1 to 64 letters, digits, _ or -", "Pass another one as name=...")


class FunctionRegistry:
    """A set of tools, by name. Override `before_call` and `after_call` for permissions, statistics or caching."""

    def __init__(self) -> None:
        self._entries: dict[str, FunctionDefinition] = {}
        #: The latest results of `get_function`, with description and parameters filled in.
        self._completed: dict[str, FunctionDefinition] = {}

    def register(
        self,
        name: str,
        description: str,
        func: Callable[..., Any],
        parameters: dict[str, Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        """Add a function, or replace the one with that name.

        `options` are the same as for `nbagent.tool`. Raises ConfigurationError for a name that providers don't accept,
        a value that is not callable, an unknown option, or a parameter that can't be described to a model.
        """
        check_options(f"tool {name!r}", options)
        self.add(FunctionDefinition(name, description or "", parameters, func, **options))

    def add(self, definition: FunctionDefinition) -> None:
        """Add a tool, or replace the one with that name. All other methods that register tools use this one."""
        if definition.schema is not None:  # its parameters come from the signature, which may change
            definition = dataclasses.replace(definition, parameters=None, schema=None)
        _check_signature(definition.func, definition.name, (definition.parameters or {}).get("properties"))
        self._entries[definition.name] = definition
        self._completed.pop(definition.name, None)

    def set_tools(self, definitions: Iterable[FunctionDefinition]) -> None:
        """Replace all tools. An unchanged tool keeps its approvals for the session."""
        wanted = {definition.name: definition for definition in definitions}
        for name in self.names():
            if name not in wanted:
                self.unregister(name)
        for name, definition in wanted.items():
            if self.get_function(name) != definition:
                self.add(definition)

    def unregister(self, name: str) -> None:
        """Remove a function. A name that is not registered is ignored."""
        self._entries.pop(name, None)
        self._completed.pop(name, None)

    def names(self) -> list[str]:
        """The names of the tools that can be called now, in the order of registration."""
        return [name for name, entry in list(self._entries.items()) if self._current(entry) is not None]

    def get_function(self, name: str) -> FunctionDefinition | None:
        """The definition, with the current function's description and parameters, or None for an unknown name."""
        entry = self._entries.get(name)
        func = self._current(entry) if entry is not None else None
        if entry is None or func is None:
            return None
        if entry.parameters is not None and entry.description:
            return entry if func is entry.func else dataclasses.replace(entry, func=func)
        from nbagent.functions.schema.function_schema import schema_of

        inferred = schema_of(func)
        description = entry.description or inferred.description
        schema = inferred if entry.parameters is None else None
        known = self._completed.get(name)
        if known is None or known.func is not func or known.schema is not schema or known.description != description:
            parameters = inferred.parameters if entry.parameters is None else entry.parameters
            known = dataclasses.replace(entry, func=func, description=description, parameters=parameters, schema=schema)
            self._completed[name] = known
        return known

    def _current(self, entry: FunctionDefinition) -> Callable[..., Any] | None:
        """The function to call for an entry now, or None if it can't be called."""
        return entry.func

    def has_function(self, name: str) -> bool:
        """Whether a function with that name can be called now."""
        entry = self._entries.get(name)
        return entry is not None and self._current(entry) is not None

    def list_functions(self) -> list[dict[str, Any]]:
        """The offered tools: a list of `{name, description, parameters}`."""
        definitions = [self.get_function(name) for name in self.names()]
        return [definition.to_dict() for definition in definitions if definition is not None]

    def only(self, names: Iterable[str]) -> FunctionRegistry:
        """A live view of some of the tools. It follows changes to this registry. A single string counts as one name.

        Raises ConfigurationError for a name that is not registered.
        """
        chosen = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(dict.fromkeys(names))
        for name in chosen:
            if not isinstance(name, str):
                raise invalid("tools", name, "names of registered tools", "Pass names, as in tools=['area'].")
            if not self.has_function(name):
                names = ", ".join(self.names())
                known = f"; the registered tools are {names}." if names else "; no tools are registered."
                raise ConfigurationError(f"no tool {name!r}{did_you_mean(name, self.names(), 3) or known}")
        return JoinedRegistry(self, chosen=chosen)

    def before_call(self, definition: FunctionDefinition, arguments: dict[str, Any]) -> Any:
        """Called before a function runs, with validated arguments. May be `async`.

        Return None to continue, or a value to use as the result without running the function. Raise `ToolDeniedError`
        to refuse.
        """
        return None

    def before_any_call(self, definition: FunctionDefinition) -> None:
        """Called before each call to a function of this or a joined registry. Raise `ToolError` to refuse."""

    def after_call(self, definition: FunctionDefinition, arguments: dict[str, Any], outcome: ToolOutcome) -> Any:
        """Called after each call with valid arguments. May be `async`. Its return value is ignored."""
        return None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.has_function(name)

    def __len__(self) -> int:
        return len(self.names())

    def __bool__(self) -> bool:
        """True even for an empty registry, so `registry or default` keeps it."""
        return True

    def __repr__(self) -> str:
        names = self.names()
        count = "1 function" if len(names) == 1 else f"{len(names)} functions"
        return f"{type(self).__name__}({count}{': ' if names else ''}{', '.join(names)})"


class JoinedRegistry(FunctionRegistry):
    """The tools of several registries, in order. If `chosen` is given, only the tools that it names, in its order.

    Registering a tool here adds it to the first registry. If two tools have the same name, the first is offered.
    """

    def __init__(self, own: FunctionRegistry, *others: FunctionRegistry, chosen: Collection[str] | None = None) -> None:
        super().__init__()
        self.own = own
        self._all = (own, *others)
        self._chosen = chosen

    def add(self, definition: FunctionDefinition) -> None:
        """Add a tool to the first registry."""
        self.own.add(definition)

    def unregister(self, name: str) -> None:
        """Remove a tool from its registry."""
        if owner := self._owner(name):
            owner.unregister(name)

    def names(self) -> list[str]:
        """The names of all tools that can be called now."""
        if self._chosen is not None:
            return list(filter(self.has_function, self._chosen))
        return list(dict.fromkeys(name for registry in self._all for name in registry.names()))

    def get_function(self, name: str) -> FunctionDefinition | None:
        """The definition in the first registry with this name, or None for an unknown name."""
        if self._chosen is not None and name not in self._chosen:
            return None
        found = (registry.get_function(name) for registry in self._all)
        return next((definition for definition in found if definition is not None), None)

    def has_function(self, name: str) -> bool:
        """Whether a function with that name can be called now."""
        return self._owner(name) is not None

    def before_call(self, definition: FunctionDefinition, arguments: dict[str, Any]) -> Any:
        """Call the hook of the tool's registry, unless one of the registries refuses the call."""
        self.before_any_call(definition)
        return (self._owner(definition.name) or self.own).before_call(definition, arguments)

    def before_any_call(self, definition: FunctionDefinition) -> None:
        """Call each registry's hook."""
        for registry in self._all:
            registry.before_any_call(definition)

    def after_call(self, definition: FunctionDefinition, arguments: dict[str, Any], outcome: ToolOutcome) -> Any:
        """Call the hook of the tool's registry."""
        return (self._owner(definition.name) or self.own).after_call(definition, arguments, outcome)

    def _owner(self, name: str) -> FunctionRegistry | None:
        if self._chosen is not None and name not in self._chosen:
            return None
        return next((registry for registry in self._all if registry.has_function(name)), None)
