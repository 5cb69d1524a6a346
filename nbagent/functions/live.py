"""Live tools: functions looked up by name, where they were defined, at each request.

Redefine a function in any cell, and the next request sees the new body, signature and docstring; its options stay.
Delete it, or bind its name to something else, and it is no longer offered, until the name is a function again. So it
is with methods (`shop.price` is looked up in the variable `shop`), and with lambdas, partials and callable objects,
which go by the variable that holds them. A name that an edited cell no longer defines stays a tool as it stays a
variable: `del` it.

>>> @tool(approve=True)
... def shout(text: str) -> str:
...     "Write in capitals."
...     return text.upper()
>>> "shout" in live
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from nbagent.errors import ConfigurationError
from nbagent.functions.binding import ToolBinding, is_same
from nbagent.functions.discovery import settings_of
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry
from nbagent.functions.schema.introspection import name_of

F = TypeVar("F", bound=Callable[..., Any])


class LiveRegistry(FunctionRegistry):
    """A registry whose functions are looked up at each request where they were defined; see `ToolBinding`."""

    def __init__(self) -> None:
        super().__init__()
        self._bindings: dict[str, ToolBinding] = {}

    def register(
        self,
        name: str,
        description: str,
        func: Callable[..., Any],
        parameters: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """As in any registry; `func` is followed through its later redefinitions."""
        super().register(name, description, func, parameters, **options)
        self._bindings[name] = ToolBinding(func, name)

    def unregister(self, name: str) -> None:
        """Remove a tool, redefinitions to come included."""
        super().unregister(name)
        self._bindings.pop(name, None)

    def _current(self, entry: FunctionDefinition) -> Callable[..., Any] | None:
        place = self._bindings.get(entry.name)
        return entry.func if place is None else place.look_up()

    def definition_of(self, func: Any) -> FunctionDefinition | None:
        """The entry that stands for this function now, options and all; None where it is not registered."""
        for entry in list(self._entries.values()):
            if is_same(self._current(entry), func) or is_same(entry.func, func):
                return entry
        return None


#: The tools of this process, as `tool` registers them.
live = LiveRegistry()


@overload
def tool(fn: F) -> F: ...
@overload
def tool(
    fn: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    approve: bool | Callable[..., Any] = False,
    parallel: bool = True,
    main_thread: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    cache_ttl: float | None = None,
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
    """Offer a function to the agents of this process; it is returned unchanged.

    `name` and `description` are the function's name and docstring unless given. `approve`: ask before each call,
    or a function of some of the arguments that says whether to ask (`approve=lambda path: path.startswith("/")`).
    `parallel=False`: not beside other calls. `main_thread`: call it on the main thread. `timeout`: seconds.
    `retries`: how often to try again after it raised. `cache_ttl`: seconds for which a result is kept.
    Raises ConfigurationError for what can't be a tool's name, such as a lambda's, and for a method without its object.
    """
    options: dict[str, Any] = {
        "approve": approve,
        "parallel": parallel,
        "main_thread": main_thread,
        "timeout": timeout,
        "retries": retries,
        "cache_ttl": cache_ttl,
    }

    def register(function: F) -> F:
        _refuse_method(function)
        live.register(name or name_of(function), description or "", function, **options)
        return function

    return register if fn is None else register(fn)


def _refuse_method(function: Any) -> None:
    """A method in the body of its class has no object to be called on."""
    owner, _, name = getattr(function, "__qualname__", "").rpartition(".")
    arguments = getattr(getattr(function, "__code__", None), "co_varnames", ())[:1]
    is_bound = getattr(function, "__self__", None) is not None
    if owner and not owner.endswith("<locals>") and arguments in (("self",), ("cls",)) and not is_bound:
        raise ConfigurationError(
            f"{owner}.{name} is a method, and there is no object to call it on yet: make one, then tool(that.{name}). "
            "To mark methods in the class itself there is agent_callable, for register_instance_methods"
        )


def as_registry(tools: Any) -> FunctionRegistry:
    """What a user may pass as tools -> a registry: None, a registry, a function, a definition, or a list of these two.

    A function that `tool` or `agent_callable` has given options keeps them.
    """
    if isinstance(tools, FunctionRegistry):
        return tools
    registry = LiveRegistry()
    for item in _items(tools):
        if isinstance(item, FunctionDefinition):
            registry.adopt(item)
        elif callable(item) and (entry := live.definition_of(item)):
            registry.adopt(entry)
        elif callable(item):
            settings = dict(settings_of(item) or {})
            name = settings.pop("name", None) or name_of(item)
            registry.register(name, settings.pop("description", None) or "", item, **settings)
        else:
            raise ConfigurationError(
                f"{item!r} is no tool: pass functions, FunctionDefinitions, or a FunctionRegistry."
            )
    return registry


def _items(tools: Any) -> Iterable[Any]:
    if tools is None:
        return ()
    alone = callable(tools) or isinstance(tools, (FunctionDefinition, str)) or not isinstance(tools, Iterable)
    return (tools,) if alone else tools
