"""A function -> what a model is told about it and what checks the model's arguments. Cached, and live.

The cache goes by the function's code, defaults, docstring and annotations, and by the objects that the names in these
stand for now. So a schema is renewed after a redefinition, after an in-place patch by `%autoreload`, and
after the redefinition of a type in another cell.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbagent.functions.schema.introspection import FunctionSchema, annotations_of, underlying
from nbagent.functions.source import rewritten_annotations


@dataclass(frozen=True, slots=True)
class _Kept:
    ref: weakref.ref[Any]
    names: tuple[str, ...]
    fingerprint: tuple[Any, ...]
    schema: FunctionSchema


_CACHE: dict[int, _Kept] = {}


def schema_of(func: Callable[..., Any]) -> FunctionSchema:
    """The schema of any callable. A type that can't be resolved or described becomes "anything"; it never raises.

    >>> def area(width: float, height: float = 1.0): "Area of a rectangle."
    >>> schema_of(area).parameters["required"]
    ['width']
    """
    kept = _CACHE.get(id(func))
    target = underlying(func)
    if kept is not None and kept.ref() is func:
        now = _fingerprint(target, kept.names)
        if len(now) == len(kept.fingerprint) and all(map(operator.is_, now, kept.fingerprint)):
            return kept.schema
    return _renew(func, target)


def _renew(func: Callable[..., Any], target: Any) -> FunctionSchema:
    from nbagent.functions.schema.signature_model import build_schema, names_in

    rewritten = rewritten_annotations(target)
    annotations = {**annotations_of(target), **rewritten} if hasattr(target, "__code__") else {}
    names = names_in(annotations.values(), target.__globals__) if annotations else ()
    # taken before building: a change in between makes the entry stale, not wrong
    fingerprint = _fingerprint(target, names)
    schema = build_schema(func, target, rewritten)
    key = id(func)
    _CACHE.pop(key, None)
    if schema.resolved:
        try:
            ref = weakref.ref(func, lambda _: _CACHE.pop(key, None))
        except TypeError:  # an object with slots: described anew each time
            return schema
        _CACHE[key] = _Kept(ref, names, fingerprint, schema)
    return schema


def _fingerprint(target: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    """All that a schema is made of, to be compared by identity."""
    if not hasattr(target, "__code__"):
        return ()
    annotations = annotations_of(target)
    marks = (target.__code__, target.__defaults__, target.__kwdefaults__, target.__doc__)
    found = map(target.__globals__.get, names) if names else ()
    return (*marks, *annotations, *annotations.values(), *found)
