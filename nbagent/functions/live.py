"""Live tools: functions that are looked up at each request, by name and in the namespace in which they were defined.

If you redefine a function in any cell, the next request uses the new body, signature and docstring; its options stay
the same. If you delete it, or bind its name to something else, it is not offered until the name refers to a function
again. The same applies to methods (`shop.price` is looked up in the variable `shop`), and to lambdas, partials and
callable objects, which are found through their variable. If you remove a function's definition from its cell, the
variable and the tool stay until you `del` the variable.

>>> @tool(approve=True)
... def shout(text: str) -> str:
...     "Write in capitals."
...     return text.upper()
>>> "shout" in live
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MethodType
from typing import Any, TypeVar, Unpack, overload
from weakref import WeakMethod

from nbagent.checks import invalid
from nbagent.errors import ConfigurationError
from nbagent.functions.binding import ToolBinding, is_same
from nbagent.functions.discovery import marked_tool, settings_of
from nbagent.functions.foreign import as_definition
from nbagent.functions.provider_tools import PROVIDER_TOOLS, ProviderToolName, provider_tool
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry, ToolOptions

F = TypeVar("F", bound=Callable[..., Any])
#: The types that a user may pass as tools.
ToolsInput = (
    FunctionRegistry
    | FunctionDefinition
    | Callable[..., Any]
    | ProviderToolName
    | Iterable[FunctionDefinition | Callable[..., Any] | ProviderToolName]
)


class LiveRegistry(FunctionRegistry):
    """A registry that looks up its functions at each request, in the namespaces where they were defined. See
    `ToolBinding`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bindings: dict[str, ToolBinding] = {}

    def add(self, definition: FunctionDefinition) -> None:
        """Add a tool, or replace the one with that name, and follow later redefinitions of its function."""
        super().add(definition)
        if definition.provider_options is None:
            self._bindings[definition.name] = ToolBinding(definition.func, definition.name)

    def unregister(self, name: str) -> None:
        """Remove a tool; later redefinitions don't bring it back."""
        super().unregister(name)
        self._bindings.pop(name, None)

    def _current(self, entry: FunctionDefinition) -> Callable[..., Any] | None:
        binding = self._bindings.get(entry.name)
        return entry.func if binding is None else binding.look_up()

    def definition_of(self, func: Any) -> FunctionDefinition | None:
        """The current definition of this function's tool, with its options; None if it is not registered."""
        for entry in list(self._entries.values()):
            if is_same(self._current(entry), func) or is_same(entry.func, func):
                return entry
        return None


#: The tools of this process, as `tool` registers them.
live = LiveRegistry()
#: The attribute of a function that keeps its options from `tool` after another tool has taken its name.
_OPTIONS = "__nbagent_tool__"
#: The same for bound methods, which can't have attributes.
_method_options: list[tuple[WeakMethod[Any], dict[str, Any]]] = []


@overload
def tool(fn: F) -> F: ...
@overload
def tool(
    fn: None = None, *, name: str | None = None, description: str | None = None, **options: Unpack[ToolOptions]
) -> Callable[[F], F]: ...
def tool(
    fn: Any = None,
    *,
    name: str | None = None,
    description: str | None = None,
    approve: bool | Callable[..., Any] = False,
    parallel: bool = True,
    main_thread: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    cache_ttl: float | None = None,
) -> Any:
    """Offer a function to the agents of this process; returns the function unchanged.

    - `name`, `description`: by default the function's name and docstring.
    - `approve`: True to ask a person before each call, or a function of some of the call's arguments that returns
      whether to ask.
    - `parallel`: if False, never run a call at the same time as another call in the same turn.
    - `main_thread`: if True, call a sync function on the main thread.
    - `timeout`: the time limit for one call, in seconds. None means the executor's timeout, `math.inf` no limit.
    - `retries`: how many times to call the function again if it raises. A call that a person approved is not repeated.
    - `cache_ttl`: the time for which a result is reused, in seconds.

    Raises ConfigurationError for an invalid name, such as a lambda's, and for a method without its object.

    >>> from nbagent import outside
    >>> @tool(approve=outside("data"), timeout=60)
    ... def read(path: str) -> str:
    ...     "Read a file."
    ...     return open(path).read()
    """
    options: ToolOptions = {
        "approve": approve,
        "parallel": parallel,
        "main_thread": main_thread,
        "timeout": timeout,
        "retries": retries,
        "cache_ttl": cache_ttl,
    }

    def register(function: F) -> F:
        settings = {"name": name, "description": description, **options}
        live.add(marked_tool(function, settings))
        try:
            setattr(function, _OPTIONS, settings)
        except (AttributeError, TypeError):
            if isinstance(function, MethodType):
                alive = [each for each in _method_options if each[0]() is not None]
                _method_options[:] = [*alive, (WeakMethod(function), settings)]
        return function

    return register if fn is None else register(fn)


def as_tool(item: Any, name: str | None = None) -> FunctionDefinition:
    """Convert a user's tool: a definition, a function, another package's tool, or a provider tool's name.

    A function keeps its options from `tool` or `agent_callable`. If the options contain no name, the tool has the given
    `name`, or else the function's own name.
    """
    if isinstance(item, FunctionDefinition):
        return item
    if (definition := provider_tool(item) or as_definition(item)) is not None:
        return definition
    if not callable(item):
        expected = "functions, FunctionDefinitions or a FunctionRegistry"
        fix = "Pass functions themselves, not their names or results."
        fix += f" Provider tools have names: {', '.join(PROVIDER_TOOLS)}." if isinstance(item, str) else ""
        raise invalid("tools", item, expected, fix)
    if (definition := live.definition_of(item)) is not None:
        return replace(definition, func=item)
    of_method = (settings for method, settings in reversed(_method_options) if is_same(item, method()))
    settings = getattr(item, _OPTIONS, None) or next(of_method, None) or settings_of(item)
    return marked_tool(item, settings, name)


def as_registry(tools: Any) -> FunctionRegistry:
    """Convert a user's tools to a registry. `tools` is None, a registry, one tool, or a list; see `as_tool`."""
    if isinstance(tools, FunctionRegistry):
        return tools
    registry = LiveRegistry()
    is_one = callable(tools) or isinstance(tools, (FunctionDefinition, str)) or not isinstance(tools, Iterable)
    is_one = is_one or as_definition(tools) is not None
    functions: dict[str, Any] = {}
    for item in () if tools is None else (tools,) if is_one else tools:
        definition = as_tool(item)
        name, func = definition.name, item.func if isinstance(item, FunctionDefinition) else item
        if name in functions and not is_same(functions[name], func):
            raise ConfigurationError(
                f"tools: two have the name {name!r}: {functions[name]!r} and {func!r}. Give each object's methods a "
                'prefix, as in register_instance_methods(registry, shop, prefix="shop_"), and pass the registry.'
            )
        functions[name] = func
        registry.add(definition)
    return registry
