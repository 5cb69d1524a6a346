"""Where a function was defined: its source, the version that is a hash of it, and the notebook cell it came from."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import os
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from nbagent.functions.schema.introspection import underlying

_Definition = ast.FunctionDef | ast.AsyncFunctionDef

_VERSIONS: dict[int, tuple[weakref.ref[CodeType], str]] = {}

#: Cells by the file name that their code was compiled under, as the notebook tells them.
_CELLS: dict[str, str] = {}


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
    if (node := _patched(target)) is not None:
        return ast.unparse(node)
    try:
        return inspect.getsource(target)
    except (OSError, TypeError):
        constants = [item for item in code.co_consts if not isinstance(item, CodeType)]
        return repr((code.co_code, code.co_names, code.co_varnames, constants, target.__defaults__))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]


# -- cells ------------------------------------------------------------------------------------------------------------


def cell_runs(cell_id: str, filename: str) -> None:
    """Take note that a cell of a notebook runs, its code being compiled under this file name."""
    _CELLS[filename] = cell_id


def cell_of(func: Callable[..., Any]) -> str | None:
    """The id of the cell that defined a function; None where no cell did, or the front end gives its cells no ids."""
    code = getattr(underlying(func), "__code__", None)
    return None if code is None else _CELLS.get(code.co_filename)


# -- functions that were patched in place -----------------------------------------------------------------------------


def rewritten_annotations(target: Any) -> dict[str, Any]:
    """The annotations, as text, of a function that `%autoreload` patched in place; nothing for any other.

    A parameter without one has `inspect.Parameter.empty`.
    """
    node = _patched(target) if hasattr(target, "__code__") else None
    if node is None:
        return {}
    empty = inspect.Parameter.empty
    return {arg.arg: ast.unparse(arg.annotation) if arg.annotation else empty for arg in _arguments(node)}


def _patched(target: Any) -> _Definition | None:
    """The definition, in its file, of a function that `%autoreload` patched in place; None for any other.

    IPython compiles such a function alone, so that its lines count from 1 (from 2 in a class), and leaves it the
    annotations that it had. One that really stands in the first lines of its file is found too, which does no harm.
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
    if not isinstance(found, _Definition):
        return None
    names = [arg.arg for arg in _arguments(found)]
    return found if names == list(code.co_varnames[: len(names)]) else None


def _arguments(node: _Definition) -> list[ast.arg]:
    """In the order of a code object's `co_varnames`."""
    args = node.args
    special = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *special]
