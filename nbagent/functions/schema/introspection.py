"""Inspects a callable without calling it: the plain function behind it, its signature, annotations and docstring."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import sys
import typing
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def underlying(func: Any) -> Any:
    """The plain function behind a method, a partial, a wrapper, a class or a callable object, else `func` itself.

    This function has the code, the namespace and the docstring.
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
        elif callable(func) and not isinstance(func, FunctionType) and isinstance(type(func).__call__, FunctionType):
            func = type(func).__call__
        else:
            return func


def closure_of(func: Any) -> dict[str, Any]:
    """A function's closure variables by name, without unassigned ones."""
    found = {}
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def signature_of(func: Callable[..., Any]) -> inspect.Signature:
    """The signature, with unevaluated annotations. Raises ValueError or TypeError if there is none."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(func, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(func)


def annotations_of(function: Any) -> dict[str, Any]:
    """The annotations of a plain function, unevaluated. They are types, strings or forward references."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    return getattr(function, "__annotations__", None) or {}


def docstring_of(func: Callable[..., Any]) -> str:
    """The docstring of the function behind `func`. For a class, its own docstring, not a base class's."""
    if isinstance(func, type):
        return inspect.cleandoc(vars(func).get("__doc__") or "")
    return inspect.getdoc(underlying(func)) or ""


def is_async(func: Any) -> bool:
    """Whether calling `func` returns a coroutine or an async generator, to be run on the event loop."""
    is_object = not (inspect.isroutine(func) or isinstance(func, (functools.partial, type)))
    call = type(func).__call__ if is_object else func
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


# -- functions that %autoreload patched in place ----------------------------------------------------------------------


def patched_annotations(target: Any) -> dict[str, Any]:
    """The annotations, as text, of a function that `%autoreload` patched in place. The dict is empty for other
    functions.

    The value for a parameter without an annotation is `inspect.Parameter.empty`.
    """
    definition = patched_definition(target) if hasattr(target, "__code__") else None
    found = ast.walk(definition.args) if definition else ()
    arguments = {node.arg: node.annotation for node in found if isinstance(node, ast.arg)}
    return {name: ast.unparse(kind) if kind else inspect.Parameter.empty for name, kind in arguments.items()}


def patched_definition(target: Any) -> FunctionNode | None:
    """Read a function's definition from its file if `%autoreload` patched it in place; return None for other functions.

    IPython compiles such a function alone, so its lines are counted from 1, or from 2 in a class. The function keeps
    its earlier annotations. A function that is really in the first lines of its file is also read from there, which is
    harmless.
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
        found = next((node for node in reversed(found.body) if getattr(node, "name", None) == name), None)
        if not isinstance(found, (ast.ClassDef, *typing.get_args(FunctionNode))):
            return None
    return found if isinstance(found, FunctionNode) else None
