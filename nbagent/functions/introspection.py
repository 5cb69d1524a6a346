"""What can be known of a callable without calling it: the function behind it, its annotations, schema and version."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
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
        elif not isinstance(func, FunctionType) and isinstance(_call_of(func), FunctionType):
            func = _call_of(func)
        else:
            return func


def _call_of(thing: Any) -> Any:
    """What runs when an object is called; None for what is not callable."""
    return next((vars(base)["__call__"] for base in type(thing).__mro__ if "__call__" in vars(base)), None)


def signature_of(func: Callable[..., Any]) -> inspect.Signature:
    """The signature, annotations as they are. Raises ValueError or TypeError where there is none."""
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


_VERSIONS: dict[int, tuple[weakref.ref[CodeType], str]] = {}


def function_version(func: Callable[..., Any]) -> str:
    """The first 12 hex digits of the SHA-256 of the function's source: it changes when the function is redefined."""
    target = underlying(func)
    code = getattr(target, "__code__", None)
    if code is None:
        return _digest(f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', type(target))}")
    kept = _VERSIONS.get(id(code))
    if kept is None or kept[0]() is not code:
        # by identity: code objects of two cells compare equal where only defaults or annotations differ
        key = id(code)
        kept = (weakref.ref(code, lambda _: _VERSIONS.pop(key, None)), _digest(_source(target, code)))
        _VERSIONS[key] = kept
    return kept[1]


def _source(target: Any, code: CodeType) -> str:
    try:
        return inspect.getsource(target)
    except (OSError, TypeError):
        constants = [item for item in code.co_consts if not isinstance(item, CodeType)]
        return repr((code.co_code, code.co_names, code.co_varnames, constants, target.__defaults__))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
