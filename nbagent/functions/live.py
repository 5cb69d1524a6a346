"""Live tools: functions looked up by name, where they were defined, at each request.

Redefine a function in any cell, and the next request sees the new body, signature and docstring; its options stay.
Delete it, or bind its name to something else, and it is no longer offered, until the name is a function again.

>>> @tool(approve=True)
... def shout(text: str) -> str:
...     "Write in capitals."
...     return text.upper()
>>> "shout" in live
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from nbagent.errors import ConfigurationError
from nbagent.functions.discovery import settings_of
from nbagent.functions.introspection import underlying
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class _Place:
    """A name in a namespace. `bound` turns True when the name is first seen to be a function there.

    Only a function that was defined in this namespace stands for the tool: a name that was bound to something else, be
    it `os.system`, is not offered. A decorator runs before its function's name is bound; until then the function itself
    stands for the name.
    """

    namespace: dict[str, Any]
    name: str
    bound: bool = False

    def look_up(self, original: Callable[..., Any]) -> Callable[..., Any] | None:
        """What the name means now, or None."""
        found = self.namespace.get(self.name)
        if found is not original and getattr(underlying(found), "__globals__", None) is not self.namespace:
            found = None
        self.bound = self.bound or found is not None
        return found if self.bound else original


class LiveRegistry(FunctionRegistry):
    """A registry whose functions are looked up by name where they have one; methods, closures and lambdas are kept."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, _Place] = {}

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
        self._places.pop(name, None)
        place = _place_of(func)
        if place is not None:
            self._places[name] = place

    def unregister(self, name: str) -> None:
        """Remove a tool, redefinitions to come included."""
        super().unregister(name)
        self._places.pop(name, None)

    def _current(self, entry: FunctionDefinition) -> Callable[..., Any] | None:
        place = self._places.get(entry.name)
        return entry.func if place is None else place.look_up(entry.func)

    def entry_of(self, func: Any) -> FunctionDefinition | None:
        """The entry that stands for this function now, options and all; None where it is not registered."""
        for entry in list(self._entries.values()):
            if self._current(entry) is func or entry.func is func:
                return entry
        return None


def _place_of(func: Any) -> _Place | None:
    """Where the function was defined, if it was at the top level of a module, script or cell under a name."""
    target = underlying(func)
    name = getattr(func, "__name__", "")
    if isinstance(func, type) or getattr(func, "__self__", None) is not None or not hasattr(target, "__globals__"):
        return None
    if target.__qualname__ != name or not name.isidentifier():
        return None
    place = _Place(target.__globals__, name)
    place.look_up(func)
    return place


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
    Raises ConfigurationError for what can't be a tool's name, such as a lambda's.
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
        live.register(name or str(getattr(function, "__name__", "")), description or "", function, **options)
        return function

    return register if fn is None else register(fn)


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
        elif callable(item) and (entry := live.entry_of(item)):
            registry.adopt(entry)
        elif callable(item):
            settings = dict(settings_of(item) or {})
            name: str = settings.pop("name", None) or getattr(item, "__name__", "")
            registry.register(name, settings.pop("description", None) or "", item, **settings)
        else:
            raise ConfigurationError(
                f"{item!r} is no tool: pass functions, FunctionDefinitions, or a FunctionRegistry."
            )
    return registry


def _items(tools: Any) -> Iterable[Any]:
    if tools is None:
        return ()
    return (tools,) if callable(tools) or isinstance(tools, (FunctionDefinition, str)) else tools
