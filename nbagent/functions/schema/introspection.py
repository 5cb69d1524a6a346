"""Reads a callable without calling it: the plain function behind it, its name, signature, annotations and docstring."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


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
            init = getattr(func, "__init__", None)
            return init if isinstance(init, FunctionType) else func
        elif "__wrapped__" in getattr(func, "__dict__", ()):
            func = func.__wrapped__
        elif (hidden := _hidden_behind(func)) is not None:
            func = hidden
        elif not isinstance(func, FunctionType) and isinstance(_call_method(func), FunctionType):
            func = _call_method(func)
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
    """The variables that a function closes over, by name; those not assigned yet are left out."""
    found = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def _call_method(thing: Any) -> Any:
    """The `__call__` of an object's class, as it is stored there; None if the object is not callable."""
    return next((vars(base)["__call__"] for base in type(thing).__mro__ if "__call__" in vars(base)), None)


def name_of(func: Any) -> str:
    """The name that a function was defined under, through its decorators; "" for a partial or another object."""
    while (hidden := _hidden_behind(func)) is not None:
        func = hidden
    return str(getattr(func, "__name__", ""))


def signature_of(func: Callable[..., Any]) -> inspect.Signature:
    """The signature, annotations unevaluated. Raises ValueError or TypeError if there is none."""
    while (hidden := _hidden_behind(func)) is not None:
        func = hidden
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(func, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(func)


def annotations_of(function: Any) -> dict[str, Any]:
    """The annotations of a plain function, unevaluated: types, strings, forward references."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    return getattr(function, "__annotations__", None) or {}


def docstring_of(func: Callable[..., Any]) -> str:
    """The docstring of the function behind `func`; of a class its own, not that of a base class."""
    if isinstance(func, type):
        return inspect.cleandoc(vars(func).get("__doc__") or "")
    return inspect.getdoc(underlying(func)) or ""


def is_async(func: Any) -> bool:
    """Whether calling `func` returns a coroutine or an async generator, to be run on the event loop."""
    call = func.func if isinstance(func, functools.partial) else func
    if not inspect.isroutine(call) and not isinstance(call, type):
        call = _call_method(call)
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


# -- functions that %autoreload patched in place ----------------------------------------------------------------------


def patched_annotations(target: Any) -> dict[str, Any]:
    """The annotations, as text, of a function that `%autoreload` patched in place; empty for any other.

    A parameter without an annotation has `inspect.Parameter.empty`.
    """
    node = patched_definition(target) if hasattr(target, "__code__") else None
    if node is None:
        return {}
    empty = inspect.Parameter.empty
    return {arg.arg: ast.unparse(arg.annotation) if arg.annotation else empty for arg in _arguments(node)}


def patched_definition(target: Any) -> FunctionNode | None:
    """The definition, in its file, of a function that `%autoreload` patched in place; None for any other.

    IPython compiles only that function, so its lines count from 1 (from 2 in a class), and keeps the annotations that
    it had before. A function that really stands in the first lines of its file is found too, which does no harm.
    """
    code: CodeType = target.__code__
    if code.co_firstlineno > 2 or not os.path.isfile(code.co_filename):
        return None
    linecache.checkcache(code.co_filename)
    try:
        found: Any = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:  # the file is being edited
        return None
    for name in target.__qualname__.split("."):
        inner = [node for node in found.body if getattr(node, "name", None) == name]
        if not inner:
            return None
        found = inner[-1]
    if not isinstance(found, FunctionNode):
        return None
    names = [arg.arg for arg in _arguments(found)]
    return found if names == list(code.co_varnames[: len(names)]) else None


def _arguments(node: FunctionNode) -> list[ast.arg]:
    """A definition's arguments, in the order of a code object's `co_varnames`."""
    args = node.args
    special = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *special]
