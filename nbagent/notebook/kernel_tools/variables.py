"""Describes a variable in one line, without computing anything or running code of the value's class.

A `repr` may raise an error, may be as long as the data, and may take an hour, for example if it runs a lazy query. Only
simple values are therefore shown. For other values, the line contains only facts that are cheap to compute.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from typing import Any

from nbagent.text import shortened

_PREVIEW_CHARS = 80
#: Containers that are longer, or nested deeper, are described by their length.
_MAX_ITEMS = 3
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
_NUMBERS = (bool, int, float, complex, type(None))
_ROUTINES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
#: Modules whose classes have a cheap and short `repr`.
_CHEAP_REPR = {"datetime", "decimal", "fractions", "pathlib", "uuid", "zoneinfo"}
#: Libraries whose `shape` is already computed.
_SHAPED = {"numpy", "pandas", "polars", "scipy", "torch", "jax", "jaxlib", "xarray", "h5py", "geopandas", "pyarrow"}
#: IPython's own variables in the namespace.
_IPYTHON_NAMES = {"In", "Out", "exit", "quit", "open", "get_ipython"}


def user_names(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> list[str]:
    """The names that the user defined, in order. `hidden` maps names that IPython defined to their values."""
    return [
        name
        for name, value in list(namespace.items())
        if not name.startswith("_") and name not in _IPYTHON_NAMES and hidden.get(name, namespace) is not value
    ]


def brief(value: Any) -> str:
    """A short description of a value: its type, and the value itself if it is short, its signature or its size.

    >>> brief(42), brief(range(5))
    ('int 42', 'range')
    """
    kind = type(value)
    try:
        description = _value_or_size(kind, value)
    except Exception:  # noqa: BLE001  the user's class may raise anything; its name is shown
        description = ""
    return f"{kind.__name__} {description}".rstrip()


def _value_or_size(kind: type, value: Any) -> str:
    if issubclass(kind, types.ModuleType):
        return str(vars(value).get("__name__", ""))
    if issubclass(kind, _ROUTINES):
        return signature_text(value)
    if _is_plain(value):
        return shortened(repr(value), _PREVIEW_CHARS)
    if isinstance(value, _SIZED):
        return f"of length {len(value)}"
    if _SHAPED.isdisjoint(base.__module__.partition(".")[0] for base in kind.__mro__):
        return ""
    shape = getattr(value, "shape", None)
    return f"of shape {shape}" if isinstance(shape, tuple) and all(type(size) is int for size in shape) else ""


def _is_plain(value: Any, levels: int = _MAX_ITEMS) -> bool:
    """Whether `repr(value)` is short and runs no user code. Containers may be nested `levels` deep."""
    kind = type(value)
    if kind in (str, bytes):
        return len(value) <= _PREVIEW_CHARS
    if kind in (list, tuple, set, frozenset, dict):
        items = (*value.keys(), *value.values()) if kind is dict and len(value) <= _MAX_ITEMS else value
        return levels > 0 and len(value) <= _MAX_ITEMS and all(_is_plain(item, levels - 1) for item in items)
    return kind in _NUMBERS or kind.__module__.partition(".")[0] in _CHEAP_REPR


def is_imported(value: Any) -> bool:
    """Whether the value is a module, or a function or class from a module, rather than data or the user's own code."""
    kind = type(value)
    if not issubclass(kind, (types.ModuleType, *_ROUTINES)):
        return False
    return issubclass(kind, types.ModuleType) or getattr(value, "__module__", "") != "__main__"


class _Ellipsis:
    def __repr__(self) -> str:
        return "…"


def signature_text(value: Any) -> str:
    """The signature of a function or class. A default that is not a simple value is shown as `…`."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    shown = [
        each if each.default is each.empty or _is_plain(each.default) else each.replace(default=_Ellipsis())
        for each in signature.parameters.values()
    ]
    return str(signature.replace(parameters=shown))
