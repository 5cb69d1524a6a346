"""What a tool returned, or raised, as the text (or the parts) that the model reads."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import itertools
import json
import logging
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nbagent.core.content.images import image_part, image_size, is_image_object, matplotlib_figure
from nbagent.core.messages import Content

logger = logging.getLogger("nbagent")

#: What the model reads when a function returned None.
NO_VALUE = "Done (no return value)."

_ROWS = 10
_COLUMNS = 30
_CELL_CHARS = 80
_MAX_ITEMS = 10_000
_MAX_CHARS = 1_000_000
_MAX_BITS = 10_000
_REPR_CHARS = 2_000
_MAX_DEPTH = 30
_FRAMES = 5
_NOTE_CHARS = 100
_PACKAGE = Path(__file__).parent.parent
#: Classes whose objects only display what is in their attribute `data`.
_WRAPPERS = {"IPython.core.display.DisplayObject", "pandas.io.formats.style.Styler"}
#: Where Python and installed packages are: frames there are not the user's.
_LIBRARIES = [Path(path) for key, path in sysconfig.get_paths().items() if key.endswith(("stdlib", "lib"))]


def format_result(result: Any) -> Content:
    """None: `NO_VALUE`; a string: itself; dict, list and other data: JSON; a data frame: its shape, dtypes and head;
    a figure or image (the bytes of its file, too), alone or in a list or dict: an image part; what only displays
    something, such as `HTML(...)`: that; anything else: `str()`.

    >>> format_result({"city": "Köln", "t": 22})
    '{"city": "Köln", "t": 22}'
    """
    if result is None:
        return NO_VALUE
    if isinstance(result, str):
        return str(result)
    if _are_parts(result):
        return [image_part(part) for part in result]
    if _is_image(result):
        return [image_part(_unwrapped(result))]
    if isinstance(result, Mapping) and _holds_images(result.values()):
        return _parts_of_mapping(result)
    items = result.ravel().tolist() if _is_array_of_objects(result) else result
    if isinstance(items, (list, tuple)) and _holds_images(items):
        return _parts_of_items(items[:_MAX_ITEMS])
    return _text(result)


def _is_image(value: Any) -> bool:
    """Whether it is a picture, or all the bytes of an image's file."""
    value = _unwrapped(value)
    return is_image_object(value) or (isinstance(value, bytes) and image_size(value) is not None)


def _unwrapped(value: Any) -> Any:
    """What an object that only displays something has in it: `HTML` a text, `Image` bytes, a `Styler` its table."""
    homes = {f"{base.__module__}.{base.__qualname__}" for base in type(value).__mro__}
    shown = getattr(value, "data", None) if homes & _WRAPPERS else None
    return value if shown is None else shown


def _holds_images(items: Iterable[Any]) -> bool:
    """Whether some are images: one of each type is looked at, since there may be very many of one."""
    return any(map(_is_image, {type(item): item for item in itertools.islice(items, _MAX_ITEMS)}.values()))


def _is_array_of_objects(value: Any) -> bool:
    """Such as the array of Axes that plotting functions return."""
    return type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") == "O"


def _parts_of_items(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Texts and images in order; a figure that several Axes belong to is there once."""
    figures: list[Any] = []
    parts: list[dict[str, Any]] = []
    for item in items:
        figure = matplotlib_figure(item)
        if figure is None or all(figure is not other for other in figures):
            parts += _as_parts(format_result(item))
            figures.append(figure)
    return parts


def _parts_of_mapping(mapping: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """The mapping as text, a number in the place of each image, and then the images."""
    images = [key for key, value in itertools.islice(mapping.items(), _MAX_ITEMS) if _is_image(value)]
    numbers = {key: f"<image {number}>" for number, key in enumerate(images, 1)}
    return _as_parts(_text({**mapping, **numbers})) + [image_part(_unwrapped(mapping[key])) for key in images]


def _as_parts(content: Content) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _are_parts(result: Any) -> bool:
    """Whether a tool returned message content as it is, image parts included."""
    if not isinstance(result, list) or not result or not all(isinstance(part, dict) for part in result):
        return False
    kinds = {"text": {"type", "text"}, "image": {"type", "media_type", "data"}}
    return all(kinds.get(str(part.get("type"))) == set(part) for part in result)


def _text(value: Any) -> str:
    data = plain(value)
    return json.dumps(data, ensure_ascii=False) if isinstance(data, (dict, list)) else str(data)


# -- data -------------------------------------------------------------------------------------------------------------


class _Room:
    """How much may still be written, in characters and items, all levels of a value together."""

    def __init__(self) -> None:
        self.left = _MAX_CHARS

    def some_of(self, items: Iterable[Any]) -> Iterator[Any]:
        """The first items, while there is room."""
        return itertools.takewhile(lambda _: self.left > 0, itertools.islice(items, _MAX_ITEMS))


def plain(value: Any, depth: int = 0, room: _Room | None = None) -> Any:
    """Any value as JSON data; what has no JSON form becomes a text. What is too much is cut, with a note."""
    room = room or _Room()
    room.left -= 1
    if value is None or type(value) in (bool, float):
        return value
    if type(value) is int:
        return value if value.bit_length() < _MAX_BITS else f"<int of {value.bit_length()} bits>"
    if type(value) is str:
        text = value if len(value) <= room.left else f"{value[: max(room.left, 0)]}…"
        room.left -= len(text)
        return text
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        pairs = {_key(key): plain(item, depth + 1, room) for key, item in room.some_of(value.items())}
        return pairs if len(value) <= len(pairs) else pairs | {"…": f"and {len(value) - len(pairs)} more"}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [plain(item, depth + 1, room) for item in room.some_of(value)]
        return items if len(value) <= len(items) else [*items, f"… and {len(value) - len(items)} more"]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name), depth + 1, room) for each in dataclasses.fields(value)}
    return _plain_object(value, depth, room)


def _plain_object(value: Any, depth: int, room: _Room) -> Any:
    """The values of other libraries are known by their methods: none of these is imported for it."""
    if isinstance(value, enum.Enum):
        return plain(value.value, depth + 1, room)
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{type(value).__name__} of {len(value)} bytes>"
    if callable(getattr(type(value), "model_dump", None)):  # pydantic
        return plain(value.model_dump(), depth + 1, room)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        if value.size <= _MAX_ITEMS:
            return plain(value.tolist(), depth + 1, room)
        return f"{type(value).__name__} of shape {value.shape}, dtype {value.dtype}\n{value}"
    if (shown := _unwrapped(value)) is not value:
        return plain(shown, depth + 1, room)
    table = table_text(value)
    return str(value) if table is None else table


def _key(key: Any) -> str:
    """The keys of a grouped frame's `to_dict()` may be numbers, dates or tuples."""
    data = plain(key)
    return ", ".join(map(str, data)) if isinstance(data, list) else str(data)


def table_text(value: Any, n_rows: int | None = None, columns: list[str] | None = None) -> str | None:
    """A data frame or a series, of pandas, polars or any that looks like theirs, as text; None for what is none.

    It has the first `n_rows`; unless given, all of a short table and ten of a long one. `columns`: only these.
    """
    shape = getattr(value, "shape", None) if callable(getattr(type(value), "head", None)) else None
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape) or len(shape) not in (1, 2):
        return None
    rows = shape[0]
    shown = value.head(n_rows or (rows if rows <= 2 * _ROWS else _ROWS))
    shown = shown[columns] if columns else shown
    if hasattr(shown, "to_string"):
        limits = {"max_cols": _COLUMNS, "max_colwidth": _CELL_CHARS} if len(shape) == 2 else {}
        body = shown.to_string(**limits)
    else:
        body = str(shown)
    head = f"{type(value).__name__}: {rows} rows" + (f" x {shape[1]} columns" if len(shape) == 2 else "")
    if len(shape) == 2:
        dtypes = [f"{name}: {dtype}" for name, dtype in zip(shown.columns, shown.dtypes, strict=False)]
        more = [f"… and {len(dtypes) - _COLUMNS} more"] if len(dtypes) > _COLUMNS else []
        head += f"\ndtypes: {', '.join(dtypes[:_COLUMNS] + more)}"
    else:
        head += f", dtype {value.dtype}"
    part = "" if len(shown) == rows else f"first {len(shown)} rows:\n"
    return f"{head}\n{part}{body}"


def short_repr(value: Any) -> str:
    """The beginning of a value's `repr`, for the trace; or that it has none."""
    try:
        if type(value) in (str, bytes, list, tuple):
            value = value[:_REPR_CHARS]
        text = repr(value)
    except Exception as error:  # the user's class is broken, not the run
        logger.debug("a %s has no repr", type(value).__name__, exc_info=True)
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= _REPR_CHARS else text[:_REPR_CHARS] + "…"


# -- bounds and errors ------------------------------------------------------------------------------------------------


def truncate_result(content: Content, limit: int) -> tuple[Content, int, bool]:
    """`(content of at most about `limit` characters, characters before, whether it was cut)`. Images are kept whole."""
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
    """Most of the room goes to the beginning, some to the end, where results and errors often say what counts."""
    if len(text) <= limit:
        return text
    room = max(limit - _NOTE_CHARS, limit // 2)
    tail = room // 5
    note = f"\n[… {len(text) - room} of {len(text)} characters are left out; ask for less to see all …]\n"
    return text[: room - tail] + note + text[len(text) - tail :]


def format_error(error: BaseException) -> str:
    """`Error: ValueError: …` and where in the user's own code it came from, for the model to correct its call."""
    leaves = _leaves(error)
    summary = "; ".join(map(summary_of, leaves))
    frames = [frame for frame in traceback.extract_tb(leaves[0].__traceback__) if _is_user_code(frame.filename)]
    lines = [
        f"  {_place(frame.filename)}line {frame.lineno}, in {frame.name}: {frame.line}" for frame in frames[-_FRAMES:]
    ]
    return "\n".join([f"Error: {summary}", *(["Traceback (innermost last):", *lines] if lines else [])])


def summary_of(error: BaseException) -> str:
    """`ValueError: …`, also where its text can't be had."""
    return "".join(traceback.format_exception_only(error)).strip()


def _leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group, such as that of a `TaskGroup`, which alone says only how many they are."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in _leaves(inner)]


def _is_user_code(filename: str) -> bool:
    path = Path(filename)
    return not path.is_relative_to(_PACKAGE) and not any(path.is_relative_to(library) for library in _LIBRARIES)


def _place(filename: str) -> str:
    """A file by its name alone; a cell by none: the path of its temporary file says nothing to a model."""
    if "ipykernel" in filename or filename.startswith("<"):
        return ""
    return f"{Path(filename).name}, "
