"""Looks up a tool's function at each request, through a variable and its attributes (`shop.price`)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from nbagent.functions.schema.introspection import underlying

logger = logging.getLogger("nbagent")

#: A namespace, and a name in it with the attributes to follow.
_Location = tuple[dict[str, Any], tuple[str, ...]]

#: How often to search for a nameless function's variable: when it becomes a tool, and once afterwards.
_MAX_SEARCHES = 2


class ToolBinding:
    """Binds a tool to its function's original name, or else to a variable that refers to the function.

    A decorator runs before its function's name is assigned. Until then, and for functions without a name, the binding
    refers to the function itself. Later, the name may refer to the same function or to another one from the same
    namespace. If it refers to anything else, such as `os.system`, the tool is not offered.
    """

    def __init__(self, original: Callable[..., Any], name: str) -> None:
        self._original = original
        self._latest = original
        self._name = name
        self._searches = 0
        self._is_unbound = False
        self._location = self._search()

    def look_up(self) -> Callable[..., Any] | None:
        """The function that the name refers to now, or None if it no longer refers to a suitable one."""
        if self._location is None and not self._is_unbound:
            self._location = self._search() or self._redefined()
        if self._location is None:
            return self._original
        found = _value_at(self._location)
        if is_same(found, self._latest):
            return self._latest  # the same object while the function is unchanged: schemas are cached by identity
        if not self._accepts(found, self._location):
            return None
        self._latest = found
        return self._latest

    def _search(self) -> _Location | None:
        """Find the location that the function is bound to."""
        own = _definition_location(self._original)
        if own is not None and is_same(_value_at(own), self._original):
            return own
        if self._searches == _MAX_SEARCHES:
            self._is_unbound = own is None  # a local function, for example, is never bound
            return None
        self._searches += 1
        if isinstance(self._original, MethodType):
            for namespace, path in _variables(self._original.__self__, ""):
                return namespace, (*path, self._original.__name__)
        return next(_variables(self._original, self._name), None)

    def _redefined(self) -> _Location | None:
        """The location of a function that was redefined before its first look-up."""
        own = _definition_location(self._original) if underlying(self._original) is self._original else None
        return own if own is not None and self._accepts(_value_at(own), own) else None

    def _accepts(self, found: Any, location: _Location) -> bool:
        if is_same(found, self._original):
            return True
        if not callable(found) or isinstance(found, type) is not isinstance(self._original, type):
            return False
        return _home_of(found) is location[0] or _full_name(found) == _full_name(self._original)


def is_same(found: Any, func: Any) -> bool:
    """Whether `found` is the function `func`. Bound methods are compared by value, since each access creates a new
    object.
    """
    return found is func or (isinstance(found, MethodType) and found == func)


def _definition_location(func: Any) -> _Location | None:
    """The location of a function or class by its original name, or None for a local one."""
    defined = func if isinstance(func, type) else underlying(func)
    home, path = _home_of(func), getattr(defined, "__qualname__", "").split(".")
    return (home, tuple(path)) if home is not None and all(map(str.isidentifier, path)) else None


def _variables(thing: Any, preferred: str) -> Iterator[_Location]:
    """The variables that refer to an object, in its defining namespace and in `__main__`, with `preferred` first."""
    main = sys.modules.get("__main__")
    for namespace in (_home_of(thing), getattr(main, "__dict__", None)):
        if namespace is not None:
            names = [name for name, value in list(namespace.items()) if value is thing and not name.startswith("_")]
            yield from ((namespace, (name,)) for name in sorted(names, key=lambda name: name != preferred))


def _value_at(location: _Location) -> Any:
    """The location's current value, or None."""
    namespace, (name, *attributes) = location
    found = namespace.get(name)
    for attribute in attributes:
        try:
            found = getattr(found, attribute, None)
        except Exception:  # a property is the user's code and may raise anything
            logger.debug("%s of a %s can't be read", attribute, type(found).__name__, exc_info=True)
            return None
    return found


def _home_of(thing: Any) -> dict[str, Any] | None:
    """The namespace in which a function, a class, or an object's class was defined."""
    namespace = None if isinstance(thing, type) else getattr(underlying(thing), "__globals__", None)
    if namespace is not None:
        return namespace if isinstance(namespace, dict) else None
    defined = thing if isinstance(thing, type) else type(thing)
    return getattr(sys.modules.get(defined.__module__), "__dict__", None)


def _full_name(func: Any) -> tuple[Any, Any]:
    defined = underlying(func)
    return getattr(defined, "__module__", None), getattr(defined, "__qualname__", id(defined))
