"""Where a tool's function is to be found at each request: a variable, and attributes to follow (`shop.price`)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from nbagent.functions.schema.introspection import underlying

logger = logging.getLogger("nbagent")

_Spot = tuple[dict[str, Any], tuple[str, ...]]

#: How often the variable of a function without a name is looked for: as it becomes a tool, and once when that is over.
_SEARCHES = 2


class ToolBinding:
    """The place of one function: the name that it was defined under, or else the variable that holds it.

    A decorator runs before its function's name is bound; until then, and where there is no such place, the function
    itself stands for it. Afterwards only what was defined in the same namespace does, or what is the same function: a
    name that was bound to something else, be it `os.system`, is not offered.
    """

    def __init__(self, original: Callable[..., Any], name: str) -> None:
        self._original = original
        self._last = original
        self._name = name
        self._searches = 0
        self._is_nowhere = False
        self._spot = self._search()

    def look_up(self) -> Callable[..., Any] | None:
        """What the place holds now, or None."""
        if self._spot is None and not self._is_nowhere:
            self._spot = self._search() or self._redefined()
        if self._spot is None:
            return self._original
        found = _held(self._spot)
        if is_same(found, self._last):
            return self._last  # one object for as long as it is one function: schemas are cached by it
        if not self._may_be(found, self._spot):
            return None
        self._last = found
        return self._last

    def _search(self) -> _Spot | None:
        """Where the function is bound."""
        own = _own_spot(self._original)
        if own is not None and is_same(_held(own), self._original):
            return own
        if self._searches == _SEARCHES:
            self._is_nowhere = own is None  # a local function, say: it will never have a place
            return None
        self._searches += 1
        return _spot_of_method(self._original) or next(_variables(self._original, self._name), None)

    def _redefined(self) -> _Spot | None:
        """The place of a function that another definition replaced before anybody looked."""
        own = _own_spot(self._original) if underlying(self._original) is self._original else None
        return own if own is not None and self._may_be(_held(own), own) else None

    def _may_be(self, found: Any, spot: _Spot) -> bool:
        if is_same(found, self._original):
            return True
        if not callable(found) or isinstance(found, type) is not isinstance(self._original, type):
            return False
        return _home_of(found) is spot[0] or _full_name(found) == _full_name(self._original)


def is_same(found: Any, func: Any) -> bool:
    """Whether both are one function. A method is made anew each time that it is asked for."""
    return found is func or (isinstance(found, MethodType) and found == func)


def _spot_of_method(func: Any) -> _Spot | None:
    """A method of what a variable holds."""
    holder = next(_variables(func.__self__, ""), None) if isinstance(func, MethodType) else None
    return None if holder is None else (holder[0], (*holder[1], func.__name__))


def _own_spot(func: Any) -> _Spot | None:
    """Where a function or class stands by the name that it was defined under."""
    defined = func if isinstance(func, type) else underlying(func)
    home, path = _home_of(func), getattr(defined, "__qualname__", "").split(".")
    return (home, tuple(path)) if home is not None and all(map(str.isidentifier, path)) else None


def _variables(thing: Any, preferred: str) -> Iterator[_Spot]:
    """The variables that hold a thing, where its code was defined and in the notebook or script, `preferred` first."""
    main = sys.modules.get("__main__")
    for namespace in (_home_of(thing), getattr(main, "__dict__", None)):
        if namespace is not None:
            names = [name for name, value in list(namespace.items()) if value is thing and not name.startswith("_")]
            yield from ((namespace, (name,)) for name in sorted(names, key=lambda name: name != preferred))


def _held(spot: _Spot) -> Any:
    """What is there now; None for nothing."""
    namespace, (name, *attributes) = spot
    found = namespace.get(name)
    for attribute in attributes:
        try:
            found = getattr(found, attribute, None)
        except Exception:  # of a property, which is the user's code: what can't be reached is not offered
            logger.debug("%s of a %s can't be read", attribute, type(found).__name__, exc_info=True)
            return None
    return found


def _home_of(thing: Any) -> dict[str, Any] | None:
    """The namespace in which the code of a function, a class or an object was defined."""
    namespace = None if isinstance(thing, type) else getattr(underlying(thing), "__globals__", None)
    if namespace is not None:
        return namespace if isinstance(namespace, dict) else None
    defined = thing if isinstance(thing, type) else type(thing)
    return getattr(sys.modules.get(defined.__module__), "__dict__", None)


def _full_name(func: Any) -> tuple[Any, Any]:
    defined = underlying(func)
    return getattr(defined, "__module__", None), getattr(defined, "__qualname__", id(defined))
