"""Finds the functions of objects, classes and modules, and registers them.

What is registered: public methods and functions, `exclude` left out; of a module, those that it defines. A function
marked with `agent_callable` goes with the mark's settings, even where its name is private or excluded. Properties are
never evaluated. Each function returns the list of registered names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any, TypeVar, overload

from nbagent.errors import ConfigurationError
from nbagent.functions.registry import OPTIONS, FunctionRegistry

#: Internal methods of a data access object, which are no tools.
DEFAULT_EXCLUDE = frozenset({"get_session", "create_tables", "drop_tables"})

_MARK = "__agent_callable__"
_METHODS = (FunctionType, staticmethod, classmethod, functools.partialmethod, functools._lru_cache_wrapper)
F = TypeVar("F", bound=Callable[..., Any])


@overload
def agent_callable(fn: F) -> F: ...
@overload
def agent_callable(
    fn: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: dict[str, Any] | None = None,
    **options: Any,
) -> Callable[[F], F]: ...
def agent_callable(
    fn: Any = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Mark a function for discovery, with or without settings. Registers nothing and changes nothing else.

    >>> @agent_callable(description="Look a customer up.")
    ... def get_customer(name: str) -> dict: ...
    """
    for option in options:
        if option not in OPTIONS:
            raise ConfigurationError(f"agent_callable: no option {option!r}; there are {', '.join(OPTIONS)}.")

    def mark(function: F) -> F:
        settings = {"name": name, "description": description, "parameters": parameters, **options}
        setattr(function, _MARK, settings)
        return function

    return mark if fn is None else mark(fn)


def settings_of(function: Any) -> dict[str, Any] | None:
    """The settings of an `agent_callable` mark, or None where there is no mark."""
    settings = getattr(function, _MARK, None)
    return settings if isinstance(settings, dict) else None


def register_instance_methods(
    registry: FunctionRegistry, instance: Any, prefix: str = "", exclude: Collection[str] = DEFAULT_EXCLUDE
) -> list[str]:
    """Register the methods of an object as `prefix` + name: those of its class and of the classes that it inherits.

    >>> class Shop:
    ...     def price(self, item: str) -> float: ...
    >>> register_instance_methods(FunctionRegistry(), Shop(), prefix="shop_")
    ['shop_price']
    """
    if isinstance(instance, type):
        raise ConfigurationError(
            f"{instance.__qualname__} is a class: pass an object, {instance.__qualname__}(...), or use "
            "register_class_methods for its static and class methods"
        )
    return _register_all(registry, _methods(type(instance), instance), prefix, exclude)


def register_class_methods(
    registry: FunctionRegistry,
    cls: type,
    prefix: str = "",
    instance: Any = None,
    exclude: Collection[str] = DEFAULT_EXCLUDE,
) -> list[str]:
    """Register the methods of a class, bound to `instance`; without one, its static and class methods only."""
    if not isinstance(cls, type):
        raise ConfigurationError(f"{cls!r} is no class: for an object's methods there is register_instance_methods")
    if instance is not None:
        found = _methods(cls, instance)
    else:
        found = (method for method in _methods(cls, cls) if isinstance(method[2], (staticmethod, classmethod)))
    return _register_all(registry, found, prefix, exclude)


def register_module_functions(
    registry: FunctionRegistry,
    module: ModuleType,
    prefix: str = "",
    filter_func: Callable[[Callable[..., Any]], bool] | None = None,
    exclude: Collection[str] = DEFAULT_EXCLUDE,
) -> list[str]:
    """Register the functions that a module defines itself; `filter_func(function)` False leaves one out."""
    if not isinstance(module, ModuleType):
        raise ConfigurationError(f"{module!r} is no module: import it, and pass it without quotes")
    found = [
        (name, function, function)
        for name, function in vars(module).items()
        if isinstance(function, (FunctionType, functools._lru_cache_wrapper))
        and function.__module__ == module.__name__
        and (filter_func is None or filter_func(function))
    ]
    return _register_all(registry, found, prefix, exclude)


def auto_discover_and_register(
    registry: FunctionRegistry, targets: Iterable[Any], exclude: Collection[str] = DEFAULT_EXCLUDE
) -> list[str]:
    """Register whatever the targets are: functions, modules, classes, other objects; or `(target, prefix)`.

    A function that is named here is registered even where its name is private.
    """
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise ConfigurationError(
            f"{targets!r} is no list of targets: auto_discover_and_register(registry, [target, ...])"
        )
    registered = []
    for target in targets:
        thing, prefix = target if isinstance(target, tuple) else (target, "")
        if isinstance(thing, str):
            raise ConfigurationError(f"{thing!r} is a name: pass the function, module, class or object itself")
        if isinstance(thing, ModuleType):
            registered += register_module_functions(registry, thing, prefix, exclude=exclude)
        elif isinstance(thing, type):
            registered += register_class_methods(registry, thing, prefix, exclude=exclude)
        elif inspect.isroutine(thing) or isinstance(thing, (functools.partial, functools._lru_cache_wrapper)):
            registered.append(_register(registry, getattr(thing, "__name__", ""), thing, prefix, settings_of(thing)))
        else:
            registered += register_instance_methods(registry, thing, prefix, exclude)
    return registered


def _methods(cls: type, owner: Any) -> Iterator[tuple[str, Any, Any]]:
    """`(name, bound method, raw attribute)` of what `owner` has for a class's methods, base classes first."""
    names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
    for name in names:
        static = inspect.getattr_static(owner, name)
        if isinstance(static, _METHODS):
            yield name, getattr(owner, name), static


def _register_all(
    registry: FunctionRegistry, found: Iterable[tuple[str, Any, Any]], prefix: str, exclude: Collection[str]
) -> list[str]:
    registered = []
    for name, function, static in found:
        settings = settings_of(static) or settings_of(function)
        if settings is not None or not (name.startswith("_") or name in exclude):
            registered.append(_register(registry, name, function, prefix, settings))
    return registered


def _register(
    registry: FunctionRegistry, name: str, function: Any, prefix: str, settings: dict[str, Any] | None
) -> str:
    chosen = dict(settings or {})
    full = f"{prefix}{chosen.pop('name', None) or name}"
    registry.register(full, chosen.pop("description", None) or "", function, **chosen)
    return full
