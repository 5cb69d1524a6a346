"""What can be known of a callable without calling it: the function behind it, its name, annotations and schema."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """Description, JSON Schema and pydantic model of a function's parameters.

    `fields` maps the model's field names to the parameters' names (a parameter may be called `json` or `_x`, which
    pydantic does not take as a field's name); `positional` names those that can only be passed by position, `filled`
    those whose default, if any, only the model knows (`Field(20)`).
    `resolved` is False where a type could not be found (yet): such a parameter takes anything.
    """

    description: str
    parameters: dict[str, Any]
    model: Any
    fields: dict[str, str]
    positional: tuple[str, ...] = ()
    filled: frozenset[str] = frozenset()
    resolved: bool = True

    def values(self, instance: Any) -> dict[str, Any]:
        """A validated instance of `model` -> the arguments. What was not given is left to the function's default."""
        given = instance.model_fields_set
        items = self.fields.items()
        values = {name: getattr(instance, key) for key, name in items if key in given or name in self.filled}
        return values | (instance.model_extra or {})


def underlying(func: Any) -> Any:
    """The plain function behind a method, a partial, a wrapper, a class or a callable object; else `func` itself.

    It is the one that has the code, the namespace and the docstring.
    """
    while True:
        if isinstance(func, functools.partial):
            func = func.func
        elif isinstance(func, MethodType):
            func = func.__func__
        elif isinstance(func, type):
            made_by = getattr(func, "__init__", None)
            return made_by if isinstance(made_by, FunctionType) else func
        elif "__wrapped__" in getattr(func, "__dict__", ()):
            func = func.__wrapped__
        elif (hidden := _hidden_behind(func)) is not None:
            func = hidden
        elif not isinstance(func, FunctionType) and isinstance(_call_of(func), FunctionType):
            func = _call_of(func)
        else:
            return func


def _hidden_behind(func: Any) -> FunctionType | None:
    """The function that a decorator without `functools.wraps` hides: the only one that its wrapper closes over.

    Such a wrapper has no docstring and takes nothing but `*args, **kwargs`.
    """
    if not isinstance(func, FunctionType) or func.__doc__ or not func.__closure__:
        return None
    code, takes_all = func.__code__, inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if code.co_flags & takes_all != takes_all or code.co_argcount or code.co_kwonlyargcount:
        return None
    held = [value for value in closure_of(func).values() if isinstance(value, FunctionType)]
    return held[0] if len(held) == 1 else None


def closure_of(func: Any) -> dict[str, Any]:
    """What a function closes over, by name; what is not assigned yet is left out."""
    found = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def name_of(func: Any) -> str:
    """The name that a function was defined under, through what decorates it; "" for a partial or another object."""
    while (hidden := _hidden_behind(func)) is not None:
        func = hidden
    return str(getattr(func, "__name__", ""))


def _call_of(thing: Any) -> Any:
    """What runs when an object is called; None for what is not callable."""
    return next((vars(base)["__call__"] for base in type(thing).__mro__ if "__call__" in vars(base)), None)


def signature_of(func: Callable[..., Any]) -> inspect.Signature:
    """The signature, annotations as they are. Raises ValueError or TypeError where there is none."""
    while (hidden := _hidden_behind(func)) is not None:
        func = hidden
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(func, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(func)


def annotations_of(function: Any) -> dict[str, Any]:
    """The annotations of a plain function as they are: types, strings, forward references."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    return getattr(function, "__annotations__", None) or {}


def docstring_of(func: Callable[..., Any]) -> str:
    """The docstring of the function behind `func`; of a class or a callable object its own, where it has one."""
    target = func if isinstance(func, type) else underlying(func)
    return inspect.getdoc(target) or ""


def is_async(func: Any) -> bool:
    """Whether calling `func` gives a coroutine or an async generator, to be run on the event loop."""
    call = func.func if isinstance(func, functools.partial) else func
    if not inspect.isroutine(call) and not isinstance(call, type):
        call = _call_of(call)
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
