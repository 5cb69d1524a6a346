"""Turns a value of an output type into a row of typed columns.

Each field of a pydantic model is a column, and so are nested fields, such as `address.city`. The dtypes are the pandas
string type for text, `Int64` for whole numbers, `Float64` for other numbers, `boolean` for flags, and `datetime64[us,
UTC]` for times. Lists, dicts and unions stay Python objects. A type that is not a model becomes one column, `answer`.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pandas as pd
from pydantic import BaseModel, RootModel

from nbagent.checks import invalid
from nbagent.core.output import output_of
from nbagent.functions.formatting import in_order
from nbagent.trace.columns import COUNT, FLAG, REAL, TEXT, TIME

#: The only column of a type without fields.
ANSWER = "answer"
OBJECT = "object"
_KINDS = {str: TEXT, bool: FLAG, int: COUNT, float: REAL, datetime: TIME}


def row_of(output: Any, value: Any) -> dict[str, Any]:
    """Return a value of the output type as a row: a dict with a value for each column."""
    plain = _plain(value)
    return {ANSWER: plain} if _model(output) is None else _flat(plain, dict(_fields(output)))


def read_row(output: Any, text: str) -> dict[str, Any]:
    """Return the value in the model's text as a row.

    Raises the validators' errors if the type no longer accepts the value.
    """
    return row_of(output, output_of(output).read(text))


def columns_of(
    output: Any, rows: Sequence[Mapping[str, Any] | None], index: pd.Index[Any]
) -> dict[str, pd.Series[Any]]:
    """Return these rows as columns. None becomes NA."""
    return {name: _column([(row or {}).get(name) for row in rows], index, kind) for name, kind in _fields(output)}


def exploded(frame: pd.DataFrame, name: str, output: Any) -> pd.DataFrame:
    """Return a frame with a row for each item of the lists in a column. If the items are models, their fields become
    columns.

    Rows without items are kept, with NA. Items from the same row have the same index.
    """
    item, prefix, kinds = _items(output, name)
    rows = frame.explode(name)
    start = list(frame.columns).index(name)
    values = [None if value is None or value is pd.NA or value != value else value for value in rows.pop(name)]
    for place, (column, kind) in enumerate(kinds.items()):
        inner = values
        if _model(item):
            flat = [_flat(value, dict(_fields(item))) for value in values]
            inner = [row.get(column.removeprefix(prefix)) for row in flat]
        rows.insert(start + place, column, _column(inner, rows.index, kind))
    return rows


def columns_of_items(output: Any, name: str) -> list[str]:
    """Return the names of the columns that replace a column in `exploded`.

    Raises `ConfigurationError` if the column does not contain lists.
    """
    return list(_items(output, name)[2])


def _items(output: Any, name: str) -> tuple[Any, str, dict[str, str]]:
    """Return the item type of a column of lists, the prefix of its columns, and the columns with their dtypes."""
    items = {column: _item(kind) for column, kind in _annotations(output)}
    if items.get(name) is None:
        lists = [column for column, item in items.items() if item is not None]
        raise invalid("explode", name, f"a field that is a list ({', '.join(lists) or 'there is none'})")
    item, prefix = items[name], "" if name == ANSWER else f"{name}."
    kinds = {f"{prefix}{inner}": kind for inner, kind in _fields(item)} if _model(item) else {name: _dtype(item)}
    return item, prefix, kinds


def _fields(output: Any) -> Iterator[tuple[str, str]]:
    """Yield each column with its dtype."""
    return ((name, _dtype(annotation)) for name, annotation in _annotations(output))


def _annotations(output: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each column with its annotation. Models nested deeper than `MAX_DEPTH` stay objects."""
    model = _model(output)
    if model is None:
        yield prefix.rstrip(".") or ANSWER, output
        return
    for name, field in model.model_fields.items():
        inner = _model(field.annotation)
        if inner is None or prefix.count(".") >= MAX_DEPTH:
            yield f"{prefix}{name}", field.annotation
        else:
            yield from _annotations(inner, f"{prefix}{name}.")


#: The depth up to which nested models become columns.
MAX_DEPTH = 5


def _model(annotation: Any) -> type[BaseModel] | None:
    """Return the annotation's model if it has fields, even if the value may be None."""
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, BaseModel) and bare.model_fields else None


def _bare(annotation: Any) -> Any:
    """Return the annotation without `Annotated`, `RootModel` and `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, RootModel):
        return _bare(annotation.model_fields["root"].annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        return _bare(members[0]) if len(members) == 1 else annotation
    return annotation


def _item(annotation: Any) -> Any:
    """Return the type of a list's items, or None for other types."""
    bare = _bare(annotation)
    is_list = get_origin(bare) in (list, tuple, set, frozenset, Sequence)
    return (get_args(bare) or (Any,))[0] if is_list else Any if bare is list else None


def _dtype(annotation: Any) -> str:
    bare = _bare(annotation)
    if get_origin(bare) is Literal:
        kinds = {type(value) for value in get_args(bare)}
        bare = kinds.pop() if len(kinds) == 1 else Any
    if isinstance(bare, type) and issubclass(bare, enum.Enum):
        kinds = {type(member.value) for member in bare}
        bare = kinds.pop() if len(kinds) == 1 else Any
    return _KINDS.get(bare, OBJECT) if isinstance(bare, type) else OBJECT


def _plain(value: Any) -> Any:
    """Return the value with models as dicts, enum members as values, and tuples and sets as lists."""
    match value:
        case RootModel():
            return _plain(value.root)
        case BaseModel():
            return _plain({name: getattr(value, name) for name in type(value).model_fields})
        case enum.Enum():
            return value.value
        case Mapping():
            return {_plain(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case set() | frozenset():
            return in_order(_plain(item) for item in value)
    return value


def _flat(value: Any, kinds: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """Return the values of a model, which was dumped as dicts, by column."""
    found: dict[str, Any] = {}
    for name, item in (value or {}).items():
        if f"{prefix}{name}" in kinds:
            found[f"{prefix}{name}"] = item
        else:
            found |= _flat(item, kinds, f"{prefix}{name}.")
    return found


def _column(values: Sequence[Any], index: pd.Index[Any], kind: str) -> pd.Series[Any]:
    try:
        if kind == TIME:  # one column may mix times with and without a zone
            values = list(pd.to_datetime(pd.Series(values, dtype=OBJECT), utc=True))
        return pd.Series(values, index=index, dtype=kind)
    except (OverflowError, TypeError, ValueError):  # a whole number of more than 64 bits
        return pd.Series(values, index=index, dtype=OBJECT)
