"""A notebook's variables in a line each, whatever they are: nothing is computed, and no code of theirs is trusted.

A `repr` may raise, may take an hour (a lazy query runs), and may be as long as the data. So only plain values are
shown; of the rest, what is known without asking them, or asked in a way that is known to be cheap.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Mapping
from typing import Any

#: Names that sound like secrets are listed without their values, and never described.
SECRET = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)

PREVIEW = 80
#: A longer number is told by its size: writing it in decimals takes its time.
_BITS = 1_000
_FEW = 3
#: Levels of containers inside each other: three items on each of many are more than a line, and take for ever.
_LEVELS = 3
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
_NUMBERS = (bool, float, complex, type(None))
_ROUTINES = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
#: Where a `repr` is cheap and short.
_HARMLESS = {"datetime", "decimal", "fractions", "pathlib", "uuid", "zoneinfo"}
#: Libraries whose `shape` is at hand.
_SHAPED = {"numpy", "pandas", "polars", "scipy", "torch", "jax", "jaxlib", "xarray", "h5py", "geopandas", "pyarrow"}


def brief(name: str, value: Any) -> str:
    """A variable in a few words: its type, and its value where that is short, else its size.

    >>> brief("answer", 42), brief("numbers", range(5)), brief("api_key", "sk-123")
    ('int 42', 'range', 'str (hidden)')
    """
    kind = type(value)
    if SECRET.search(name):
        return f"{kind.__name__} (hidden)"
    try:
        said = _said(kind, value)
    except Exception:  # noqa: BLE001  the value's own code: what it is can be told without it
        said = ""
    return f"{kind.__name__} {said}".rstrip()


def _said(kind: type, value: Any) -> str:
    if issubclass(kind, types.ModuleType):
        return str(vars(value).get("__name__", ""))
    if issubclass(kind, _ROUTINES):
        return signature_text(value)
    if _is_plain(value):
        return _cut(repr(value))
    sized = next((base for base in _SIZED if issubclass(kind, base)), None)
    if sized is not None:
        return f"of length {sized.__len__(value)}"
    if kind is int:
        return f"of {value.bit_length()} bits"
    if _SHAPED.isdisjoint(base.__module__.partition(".")[0] for base in kind.__mro__):
        return ""
    shape = getattr(value, "shape", None)
    return f"of shape {shape}" if isinstance(shape, tuple) and all(type(size) is int for size in shape) else ""


def _is_plain(value: Any, levels: int = _LEVELS) -> bool:
    """Whether its `repr` is short and runs no code of the user's; containers may have `levels` of containers."""
    kind = type(value)
    if kind is int:
        return bool(value.bit_length() <= _BITS)
    if kind in (str, bytes):
        return len(value) <= PREVIEW
    if kind in (list, tuple, set, frozenset, dict):
        items = (*value.keys(), *value.values()) if kind is dict and len(value) <= _FEW else value
        return levels > 0 and len(value) <= _FEW and all(_is_plain(item, levels - 1) for item in items)
    return kind in _NUMBERS or kind.__module__.partition(".")[0] in _HARMLESS


def _cut(text: str) -> str:
    return text if len(text) <= PREVIEW else f"{text[:PREVIEW]}…"


def signature_text(value: Any) -> str:
    """The signature of a function or class; defaults that are not plain are left out, since they may be anything."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    shown = [
        parameter if parameter.default is parameter.empty or _is_plain(parameter.default) else _undefaulted(parameter)
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=shown))


def _undefaulted(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(default=_LEFT_OUT)


class _LeftOut:
    def __repr__(self) -> str:
        return "…"


_LEFT_OUT = _LeftOut()


def names_of(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> list[str]:
    """The user's own names, in the order in which they were defined; `hidden` are those that IPython brought."""
    return [
        name
        for name, value in list(namespace.items())
        if not name.startswith("_") and name not in _OWN and hidden.get(name, namespace) is not value
    ]


#: What IPython itself keeps in the namespace.
_OWN = {"In", "Out", "exit", "quit", "open", "get_ipython"}
