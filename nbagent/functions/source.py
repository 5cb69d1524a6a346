"""Identifies a function's definition for the trace: its version (a hash of its source) and its notebook cell."""

from __future__ import annotations

import ast
import hashlib
import inspect
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

from nbagent.functions.schema.introspection import patched_definition, underlying

_VERSIONS: dict[int, tuple[weakref.ref[CodeType], str]] = {}

#: Cell ids by the file name under which the cell's code was compiled; the notebook records them.
_CELLS: dict[str, str] = {}


def function_version(func: Callable[..., Any]) -> str:
    """The first 12 hex digits of the source's SHA-256 hash. They change whenever the source does."""
    target = underlying(func)
    code = getattr(target, "__code__", None)
    if code is None:
        return _digest(f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', type(target))}")
    cached = _VERSIONS.get(id(code))
    if cached is None or cached[0]() is not code:
        # by identity: code objects of two cells compare equal if only defaults or annotations differ
        key = id(code)
        cached = (weakref.ref(code, lambda _: _VERSIONS.pop(key, None)), _digest(_source(target, code)))
        _VERSIONS[key] = cached
    return cached[1]


def _source(target: Any, code: CodeType) -> str:
    if (node := patched_definition(target)) is not None:
        return ast.unparse(node)
    try:
        return inspect.getsource(target)
    except (OSError, TypeError):
        constants = [item for item in code.co_consts if not isinstance(item, CodeType)]
        return repr((code.co_code, code.co_names, code.co_varnames, constants, target.__defaults__))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def record_cell(cell_id: str, filename: str) -> None:
    """Record the file name under which a notebook cell's code is compiled."""
    _CELLS[filename] = cell_id


def cell_of(func: Callable[..., Any]) -> str | None:
    """The id of the cell that defined a function. None if it was not defined in a cell, or if the frontend has no cell
    ids.
    """
    code = getattr(underlying(func), "__code__", None)
    return None if code is None else _CELLS.get(code.co_filename)
