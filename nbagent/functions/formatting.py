"""Formats a tool's value or exception as text or content parts for the model."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import itertools
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nbagent.core.content.images import image_media_type, image_part, is_image_object, matplotlib_figure
from nbagent.core.content.pdf import PDF_MARK
from nbagent.core.json_text import json_text
from nbagent.core.messages import Content
from nbagent.text import beginning, shortened

#: What the model reads if a function returned None.
NO_VALUE = "Done (no return value)."

#: Rows of a long table, columns of a table, characters of a cell.
_MAX_ROWS, _MAX_COLUMNS, _MAX_CELL_CHARS = 10, 30, 80
#: Items of a collection, characters of a value.
_MAX_ITEMS, _MAX_CHARS = 10_000, 1_000_000
_MAX_REPR_CHARS = 2_000
#: Lines of a traceback.
_MAX_FRAMES = 5
#: Room for the note about omitted text.
_NOTE_CHARS = 100
_PACKAGE = Path(__file__).parent.parent
#: Prefix of the file names under which approved code of a model is compiled.
MODELS_CODE = "<run_code"
#: Classes whose objects only display their attribute `data`.
_WRAPPERS = {"IPython.core.display.DisplayObject", "pandas.io.formats.style.Styler"}
#: The folders of Python and installed packages: frames there are not the user's.
_LIBRARIES = [Path(path) for key, path in sysconfig.get_paths().items() if key.endswith(("stdlib", "lib"))]


def format_result(result: Any, whole: bool = False) -> Content:
    """Format a function's value for the model.

    - None: `NO_VALUE`; a string: unchanged
    - a dict, a list and other data: JSON
    - a data frame: its shape, dtypes and head
    - a figure or an image, or the bytes of an image file or a PDF, alone or in a list or dict: a content part
    - an object that only displays something, such as `HTML(...)`: what it displays
    - anything else: `str()`

    With `whole`, nothing is omitted: a data frame becomes JSON, and a value that is too long raises ValueError.
    Different values therefore have different texts. The texts don't depend on the process or on pandas' display
    options.

    >>> format_result({"city": "Köln", "t": 22})
    '{"city": "Köln", "t": 22}'
    """
    if result is None:
        return NO_VALUE
    if isinstance(result, str) or type(result) in (bool, int, float):
        return str(result)
    if _is_content(result):
        return [image_part(part) for part in result]
    if _is_image(result):
        return [image_part(_displayed(result))]
    if isinstance(result, Mapping) and _holds_images(result.values()):
        return _mapping_parts(result, whole)
    is_object_array = type(result).__module__ == "numpy" and getattr(getattr(result, "dtype", None), "kind", "") == "O"
    items = result.ravel().tolist() if is_object_array else result  # plotting functions return arrays of Axes
    if isinstance(items, (list, tuple)) and _holds_images(items):
        return _list_parts(items, whole)
    return _text(result, whole)


def _is_image(value: Any) -> bool:
    """Whether a value is an image, or the bytes of an image file or a PDF."""
    value = _displayed(value)
    is_file = isinstance(value, bytes) and (image_media_type(value) is not None or value.startswith(PDF_MARK))
    return is_image_object(value) or is_file


def _displayed(value: Any) -> Any:
    """For an object that only displays something, its data: the text of `HTML`, the bytes of `Image`, …"""
    homes = {f"{base.__module__}.{base.__qualname__}" for base in type(value).__mro__}
    data = getattr(value, "data", None) if homes & _WRAPPERS else None
    return value if data is None else data


def _holds_images(items: Iterable[Any]) -> bool:
    """Whether some items are images. Checks one item of each type, since there may be many."""
    return any(map(_is_image, {type(item): item for item in itertools.islice(items, _MAX_ITEMS)}.values()))


def _list_parts(items: Iterable[Any], whole: bool) -> list[dict[str, Any]]:
    """Texts and images in order. A figure appears once, even if several of its Axes are in the list."""
    figures: list[Any] = []
    parts: list[dict[str, Any]] = []
    for item in items:
        figure = matplotlib_figure(item)
        if figure is None or all(figure is not other for other in figures):
            parts += _as_parts(format_result(item, whole))
            figures.append(figure)
    return parts


def _mapping_parts(mapping: Mapping[Any, Any], whole: bool) -> list[dict[str, Any]]:
    """The mapping as text with a number instead of each image, followed by the images."""
    images = [key for key, value in itertools.islice(mapping.items(), _MAX_ITEMS) if _is_image(value)]
    numbers = {key: f"<image {number}>" for number, key in enumerate(images, 1)}
    return _as_parts(_text({**mapping, **numbers}, whole)) + [image_part(_displayed(mapping[key])) for key in images]


def _as_parts(content: Content) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_content(result: Any) -> bool:
    """Whether a tool returned content parts: texts and images."""
    if not isinstance(result, list) or not result or not all(isinstance(part, dict) for part in result):
        return False
    kinds = {"text": {"type", "text"}, "image": {"type", "media_type", "data"}}
    return all(kinds.get(str(part.get("type"))) == set(part) for part in result)


def _text(value: Any, whole: bool) -> str:
    data = _JsonConverter(whole).convert(value)
    return json_text(data) if isinstance(data, (dict, list)) else str(data)


class _JsonConverter:
    """Converts a value to JSON data. Values without a JSON form become text, and missing ones None.

    A note replaces anything beyond the limits; with `whole`, ValueError is raised instead. `_left` counts the
    characters and items of all levels together.
    """

    def __init__(self, whole: bool = False) -> None:
        self._whole = whole
        self._left = _MAX_CHARS

    def convert(self, value: Any) -> Any:
        """The value as JSON data."""
        self._left -= 1
        if value is None or type(value) in (bool, int, float):
            return value
        if type(value) is str:
            text = value if len(value) <= self._left else self._note(value, shortened(value, self._left))
            self._left -= len(text)
            return text
        if isinstance(value, Mapping):
            pairs = {self._key(key): self.convert(item) for key, item in self._first(value.items())}
            left = len(value) - len(pairs)
            return self._note(value, pairs | {"…": f"and {left} more"}) if left > 0 else pairs
        if isinstance(value, (list, tuple, set, frozenset)):
            items = list(map(self.convert, self._first(value)))
            items, left = in_order(items) if isinstance(value, (set, frozenset)) else items, len(value) - len(items)
            return self._note(value, [*items, f"… and {left} more"]) if left > 0 else items
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: self.convert(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if isinstance(value, enum.Enum):
            return self.convert(value.value)
        if isinstance(value, (dt.date, dt.time)):
            return value.isoformat() if value == value else None  # NaT differs from itself
        if isinstance(value, (bytes, bytearray, memoryview)):
            return str(bytes(value)) if self._whole else f"<{type(value).__name__} of {len(value)} bytes>"
        return self._convert_foreign(value)

    def _note(self, value: Any, note: Any) -> Any:
        if self._whole:
            raise ValueError(f"a {type(value).__name__} is too long to be written in full. Pass its text instead")
        return note

    def _key(self, key: Any) -> str:
        """A mapping's key as text. The keys of a grouped frame's `to_dict()` may be numbers, dates or tuples."""
        data = self.convert(key)
        return ", ".join(map(str, data)) if isinstance(data, list) else str(data)

    def _first(self, items: Iterable[Any]) -> Iterator[Any]:
        return itertools.takewhile(lambda _: self._left > 0, itertools.islice(items, _MAX_ITEMS))

    def _convert_foreign(self, value: Any) -> Any:
        """Another library's object, recognised by its methods, without importing a library."""
        if callable(getattr(type(value), "model_dump", None)):  # pydantic
            return self.convert(value.model_dump())
        if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
            if value.size <= _MAX_ITEMS:
                return self.convert(value.tolist())
            about = f"{type(value).__name__} of shape {value.shape}, dtype {value.dtype}"
            return self._note(value, about if self._whole else f"{about}\n{value}")
        if type(value).__name__ == "NAType":
            return None
        if (shown := _displayed(value)) is not value:
            return self.convert(shown)
        if not _is_table(value):
            return str(value)
        return self.convert(_rows_of(value)) if self._whole else table_text(value)


def _rows_of(table: Any) -> dict[str, Any]:
    """The columns, index and rows of a data frame or series. Polars tables have no index."""
    frame = (table if len(table.shape) == 2 else table.to_frame()).head(_MAX_ITEMS + 1)
    return frame.to_dict("split") if hasattr(frame, "iloc") else {"columns": frame.columns, "data": frame.rows()}


def table_data(value: Any, n_rows: int, n_columns: int) -> dict[str, Any] | None:
    """The first rows of a data frame or series as exact JSON data, or None for any other value.

    The keys are shape, dtypes, columns, index and data (a list of rows). A polars table has no index.
    """
    if not _is_table(value):
        return None
    frame = (value if len(value.shape) == 2 else value.to_frame()).head(n_rows)
    frame = frame.iloc[:, :n_columns] if hasattr(frame, "iloc") else frame[:, :n_columns]
    dtypes = {str(name): str(dtype) for name, dtype in zip(frame.columns, frame.dtypes, strict=True)}
    return {"shape": list(value.shape), "dtypes": dtypes, **_JsonConverter(whole=True).convert(_rows_of(frame))}


def in_order(items: Iterable[Any]) -> list[Any]:
    """Sort the items of a set, so that their order is the same in all processes."""
    items = list(items)
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def table_text(value: Any, n_rows: int | None = None, columns: list[str] | None = None) -> str | None:
    """A data frame or series of pandas, polars or a similar library as text, or None for any other value.

    The text has the first `n_rows` rows, by default all of a short table and ten of a long one. If `columns` is given,
    only these columns are shown.
    """
    if not _is_table(value):
        return None
    shape = value.shape
    is_frame, rows = len(shape) == 2, shape[0]
    shown = value.head(n_rows or (rows if rows <= 2 * _MAX_ROWS else _MAX_ROWS))
    shown = shown if columns is None else shown[columns]
    if hasattr(shown, "to_string"):
        body = shown.to_string(**({"max_cols": _MAX_COLUMNS, "max_colwidth": _MAX_CELL_CHARS} if is_frame else {}))
    else:
        body = str(shown)
    head = f"{type(value).__name__}: {rows} rows"
    if is_frame:
        dtypes = [f"{name}: {dtype}" for name, dtype in zip(shown.columns, shown.dtypes, strict=False)]
        more = [f"… and {len(dtypes) - _MAX_COLUMNS} more"] if len(dtypes) > _MAX_COLUMNS else []
        head += f" x {shape[1]} columns\ndtypes: {', '.join(dtypes[:_MAX_COLUMNS] + more)}"
    else:
        head += f", dtype {value.dtype}"
    part = "" if len(shown) == rows else f"first {len(shown)} rows:\n"
    return f"{head}\n{part}{body}"


def _is_table(value: Any) -> bool:
    shape = getattr(value, "shape", None) if callable(getattr(type(value), "head", None)) else None
    return isinstance(shape, tuple) and len(shape) in (1, 2) and all(isinstance(size, int) for size in shape)


def short_repr(value: Any) -> str:
    """The start of a value's `repr` or of a table's text, for the trace. If the `repr` fails, a note replaces it."""
    try:
        text = table_text(value) or repr(beginning(value, _MAX_REPR_CHARS))
    except Exception as error:  # noqa: BLE001  a repr may raise anything; the model still gets the value
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return shortened(text, _MAX_REPR_CHARS)


def truncate_result(content: Content, limit: int) -> tuple[Content, int, bool]:
    """Cut content to about `limit` characters. Returns the content, its original length, and whether it was cut.

    Images are never cut. Long texts keep their start and part of their end, since the end often matters.
    """
    if isinstance(content, str):
        return _cut(content, limit), len(content), len(content) > limit
    chars = sum(len(part.get("text", "")) for part in content)
    if chars <= limit:
        return content, chars, False
    left, parts = limit, []
    for part in content:
        text = part.get("text", "")
        parts.append({**part, "text": _cut(text, left)} if text else part)
        left = max(left - len(text), 0)
    return parts, chars, True


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    room = max(limit - _NOTE_CHARS, limit // 2)
    tail = room // 5
    note = f"\n[… {len(text) - room} of {len(text)} characters are omitted; ask for less to see all …]\n"
    return text[: room - tail] + note + text[len(text) - tail :]


def format_error(error: BaseException, *, with_lines: bool = False) -> str:
    """Format an error as `Error: ValueError: …`. With `with_lines`, the lines of the user's code that led to the error
    are added.

    Without these lines, the model learns nothing about the user's files and source. Lines from `MODELS_CODE` are always
    included, since the model wrote them.
    """
    leaves = _leaves(error)
    lines = [f"Error: {'; '.join(map(error_summary, leaves))}"]
    frames = [frame for frame in traceback.extract_tb(leaves[0].__traceback__) if _is_user_code(frame.filename)]
    frames = [frame for frame in frames if with_lines or frame.filename.startswith(MODELS_CODE)][-_MAX_FRAMES:]
    if frames:
        lines.append("Traceback (innermost last):")
    for frame in frames:
        # a cell's temporary file is meaningless to a model
        is_cell = "ipykernel" in frame.filename or frame.filename.startswith("<")
        file = "" if is_cell else f"{Path(frame.filename).name}, "
        lines.append(f"  {file}line {frame.lineno}, in {frame.name}: {frame.line}")
    return "\n".join(lines)


def error_summary(error: BaseException) -> str:
    """Return `ValueError: …`, even if the exception's `__str__` fails. Omits a syntax error's file and line."""
    lines = traceback.format_exception_only(error)
    if isinstance(error, SyntaxError):
        lines = [line for line in lines if not line.startswith(" ")]
    return "".join(lines).strip()


def _leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group, such as a `TaskGroup`'s, whose own message only counts them; else the exception."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]


def _is_user_code(filename: str) -> bool:
    path = Path(filename)
    return not path.is_relative_to(_PACKAGE) and not any(path.is_relative_to(library) for library in _LIBRARIES)
