"""The fields of an output type: what a checkpoint keeps as JSON becomes typed columns.

A pydantic model's fields are columns, those of a model in it too, as `address.city`. Text is the pandas string type,
whole numbers `Int64`, numbers `Float64`, flags `boolean`, times `datetime64[us, UTC]`; lists, dicts and unions stay
Python objects. A type that is not a model has one column, `answer`.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pandas as pd
from pydantic import BaseModel

from nbagent.checks import invalid
from nbagent.core.output import output_of
from nbagent.trace.columns import COUNT, FLAG, REAL, TEXT, TIME

#: The one column of a type that has no fields.
ANSWER = "answer"
OBJECT = "object"
_KINDS = {str: TEXT, bool: FLAG, int: COUNT, float: REAL, datetime: TIME}


def to_json(output: Any, value: Any) -> str:
    """A value as the JSON text that a checkpoint keeps."""
    return output_of(output).adapter.dump_json(value, by_alias=False).decode()


def _value(output: Any, text: str) -> Any:
    return output_of(output).adapter.validate_json(text, by_alias=True, by_name=True)


def columns_of(output: Any, texts: Sequence[str | None], index: pd.Index[Any]) -> dict[str, pd.Series[Any]]:
    """The columns of answers that are kept as these JSON texts; None is NA."""
    kinds = dict(_fields(output))
    values: list[Any] = [None if text is None else _plain(_value(output, text)) for text in texts]
    if list(kinds) != [ANSWER] or _model(output):
        values = [_flat(value, kinds) for value in values]
        return {name: _column([each.get(name) for each in values], index, kind) for name, kind in kinds.items()}
    return {ANSWER: _column(values, index, kinds[ANSWER])}


def exploded(frame: pd.DataFrame, name: str, output: Any) -> pd.DataFrame:
    """A row for each item of the lists in a column; the fields of items that are models become columns.

    Rows without items stay, with NA. The index repeats.
    """
    places = {column: _item(kind) for column, kind in _annotations(output)}
    if places.get(name) is None:
        lists = [column for column, item in places.items() if item is not None]
        raise invalid("explode", name, f"a field that is a list ({', '.join(lists) or 'there is none'})")
    item = places[name]
    rows = frame.explode(name)
    prefix = "" if name == ANSWER else f"{name}."
    kinds = {f"{prefix}{inner}": kind for inner, kind in _fields(item)} if _model(item) else {name: _dtype(item)}
    at = list(frame.columns).index(name)
    values = [None if value is None or value is pd.NA or value != value else value for value in rows.pop(name)]
    for place, (column, kind) in enumerate(kinds.items()):
        inner = values
        if _model(item):
            flat = [_flat(value, dict(_fields(item))) for value in values]
            inner = [each.get(column.removeprefix(prefix)) for each in flat]
        rows.insert(at + place, column, _column(inner, rows.index, kind))
    return rows


def _fields(output: Any) -> Iterator[tuple[str, str]]:
    """Each column with its dtype."""
    return ((name, _dtype(annotation)) for name, annotation in _annotations(output))


def _annotations(output: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each column with its annotation; a model that holds itself stays an object below the second one."""
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


#: How deep models in models become columns.
MAX_DEPTH = 5


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model with fields that an annotation means, also where it may be None."""
    bare = _bare(annotation)
    is_model = isinstance(bare, type) and issubclass(bare, BaseModel) and "root" not in bare.model_fields
    return bare if is_model and bare.model_fields else None


def _bare(annotation: Any) -> Any:
    """The annotation without `Annotated` and `| None`."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        others = [each for each in get_args(annotation) if each is not type(None)]
        return _bare(others[0]) if len(others) == 1 else annotation
    return annotation


def _item(annotation: Any) -> Any:
    """The type of a list's items; None for what is not a list."""
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
    """The value with dicts in place of models, and values in place of enumerations."""
    match value:
        case BaseModel():
            return _plain({name: getattr(value, name) for name in type(value).model_fields})
        case enum.Enum():
            return value.value
        case Mapping():
            return {_plain(key): _plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
    return value


def _flat(value: Any, kinds: Mapping[str, str], prefix: str = "") -> dict[str, Any]:
    """The values by column of a model that became dicts."""
    found: dict[str, Any] = {}
    for name, item in (value or {}).items():
        if f"{prefix}{name}" in kinds:
            found[f"{prefix}{name}"] = item
        else:
            found |= _flat(item, kinds, f"{prefix}{name}.")
    return found


def _column(values: Sequence[Any], index: pd.Index[Any], kind: str) -> pd.Series[Any]:
    if kind == TIME:  # times with and without a zone may stand in one column
        values = list(pd.to_datetime(pd.Series(values, dtype=OBJECT), utc=True))
    try:
        return pd.Series(values, index=index, dtype=kind)
    except (OverflowError, TypeError, ValueError):  # a whole number of more than 64 bits
        return pd.Series(values, index=index, dtype=OBJECT)
