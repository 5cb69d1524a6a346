"""Finds the functions of objects, classes and modules, and registers them as tools.

Public methods and functions are registered, except those in `exclude` and functions that a module imports. A function
marked with `agent_callable` is registered with the mark's settings, even if its name is private or excluded. Properties
are never evaluated. Functions that register tools return the list of registered names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any, TypeVar, Unpack, overload

from nbagent.checks import check_type, invalid
from nbagent.functions.registry import FunctionDefinition, FunctionRegistry, ToolOptions, check_options

#: Common methods of data access objects that are not meant as tools.
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
    **options: Unpack[ToolOptions],
) -> Callable[[F], F]: ...
def agent_callable(
    fn: Any = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Mark a function for discovery, optionally with settings. Registers nothing and returns the function unchanged.

    `options` are the same as for `nbagent.tool`. An unknown option raises ConfigurationError.

    >>> @agent_callable(description="Look a customer up.")
    ... def get_customer(name: str) -> dict: ...
    """
    check_options("agent_callable", options)

    def mark(function: F) -> F:
        settings = {"name": name, "description": description, "parameters": parameters, **options}
        setattr(function, _MARK, settings)
        return function

    return mark if fn is None else mark(fn)


def settings_of(function: Any) -> dict[str, Any] | None:
    """The settings of an `agent_callable` mark, or None if there is no mark."""
    settings = getattr(function, _MARK, None)
    return settings if isinstance(settings, dict) else None


def register_instance_methods(
    registry: FunctionRegistry, instance: Any, prefix: str = "", exclude: Collection[str] = DEFAULT_EXCLUDE
) -> list[str]:
    """Register an object's methods, including inherited ones. Each tool's name is `prefix` + the method's name.

    >>> class Shop:
    ...     def price(self, item: str) -> float: ...
    >>> register_instance_methods(FunctionRegistry(), Shop(), prefix="shop_")
    ['shop_price']
    """
    if isinstance(instance, type):
        fix = f"Pass {instance.__qualname__}(...), or use register_class_methods for static and class methods."
        raise invalid("instance", instance, "an object, not a class", fix)
    return _register_all(registry, _methods(type(instance), instance), prefix, exclude)


def register_class_methods(
    registry: FunctionRegistry,
    cls: type,
    prefix: str = "",
    instance: Any = None,
    exclude: Collection[str] = DEFAULT_EXCLUDE,
) -> list[str]:
    """Register a class's methods, bound to `instance`. Without an instance, register only static and class methods."""
    if not isinstance(cls, type):
        raise invalid("cls", cls, "a class", "For the methods of an object, use register_instance_methods.")
    found = _methods(cls, cls if instance is None else instance)
    if instance is None:
        found = (method for method in found if isinstance(method[2], (staticmethod, classmethod)))
    return _register_all(registry, found, prefix, exclude)


def register_module_functions(
    registry: FunctionRegistry,
    module: ModuleType,
    prefix: str = "",
    filter_func: Callable[[Callable[..., Any]], bool] | None = None,
    exclude: Collection[str] = DEFAULT_EXCLUDE,
) -> list[str]:
    """Register the functions that a module defines itself, except those for which `filter_func(function)` is false."""
    check_type("module", module, ModuleType, fix="Import the module and pass it without quotes.")
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
    """Register the functions of several targets: functions, modules, classes and other objects, or `(target, prefix)`
    tuples.

    A function that is itself a target is registered even if its name is private.
    """
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise invalid("targets", targets, "a list", "Call auto_discover_and_register(registry, [target, ...]).")
    registered = []
    for target in targets:
        thing, prefix = target if isinstance(target, tuple) else (target, "")
        if isinstance(thing, str):
            expected = "a function, module, class or other object"
            raise invalid("targets", thing, expected, "Pass the object itself, without quotes.")
        if isinstance(thing, ModuleType):
            registered += register_module_functions(registry, thing, prefix, exclude=exclude)
        elif isinstance(thing, type):
            registered += register_class_methods(registry, thing, prefix, exclude=exclude)
        elif inspect.isroutine(thing) or isinstance(thing, (functools.partial, functools._lru_cache_wrapper)):
            registered.append(_add(registry, marked_tool(thing, settings_of(thing), prefix=prefix)))
        else:
            registered += register_instance_methods(registry, thing, prefix, exclude)
    return registered


def _methods(cls: type, owner: Any) -> Iterator[tuple[str, Any, Any]]:
    """`(name, method bound to owner, raw attribute)` for each method of a class, base classes first."""
    for name in dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)):
        static = inspect.getattr_static(owner, name)
        if isinstance(static, _METHODS):
            yield name, getattr(owner, name), static


def _register_all(
    registry: FunctionRegistry, found: Iterable[tuple[str, Any, Any]], prefix: str, exclude: Collection[str]
) -> list[str]:
    registered = []
    for name, function, raw in found:
        settings = settings_of(raw) or settings_of(function)
        if settings is not None or not (name.startswith("_") or name in exclude):
            registered.append(_add(registry, marked_tool(function, settings, name, prefix)))
    return registered


def _add(registry: FunctionRegistry, definition: FunctionDefinition) -> str:
    registry.add(definition)
    return definition.name


def marked_tool(
    function: Any, settings: dict[str, Any] | None, name: str | None = None, prefix: str = ""
) -> FunctionDefinition:
    """Create a tool named `prefix` + the function's name, with the settings of the function's mark, if any."""
    options = dict(settings or {})
    full_name = f"{prefix}{options.pop('name', None) or name or getattr(function, '__name__', '')}"
    description, parameters = options.pop("description", None) or "", options.pop("parameters", None)
    return FunctionDefinition(full_name, description, parameters, function, **options)
