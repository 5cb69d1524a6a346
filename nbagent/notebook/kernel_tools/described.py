"""Describes a variable for a model: a value, a table, an image, or a function with its source, without secrets."""

from __future__ import annotations

import inspect
import types
from typing import Any

from nbagent.core.content.images import image_part, is_image_object
from nbagent.core.messages import Content
from nbagent.functions.formatting import format_result, table_text, truncate_result
from nbagent.functions.secret_values import MAX_CHARS, without_secrets
from nbagent.notebook.kernel_tools.variables import signature_text

_SOURCE_CHARS = 6_000


def described(name: str, value: Any, rows: int | None = None, max_chars: int = MAX_CHARS) -> Content:
    """The text or image of the variable `name`, shortened to `max_chars`. For a table, only the first `rows` are
    included, by default as many as in `format_result`.

    >>> described("n", [1, 2])
    '[1, 2]'
    """
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__} {getattr(value, '__version__', '')}".strip()
    if inspect.isroutine(value) or inspect.isclass(value):
        try:
            source = inspect.getsource(value)
        except (OSError, TypeError):
            source = inspect.getdoc(value) or ""
        text = f"{name}{signature_text(value)}\n\n{truncate_result(source, _SOURCE_CHARS)[0]}"
        return without_secrets(text.rstrip(), max_chars)
    if is_image_object(value):
        return [image_part(value)]
    if is_frame(value):
        return frame_text(value, rows, max_chars=max_chars)
    return without_secrets(format_result(value), max_chars, name)


def frame_text(
    frame: Any, rows: int | None = None, columns: list[str] | None = None, max_chars: int = MAX_CHARS
) -> str:
    """The shape, the dtypes and the first rows of a data frame, without secrets."""
    text = table_text(frame, rows, columns or None) or str(format_result(frame.head(rows) if rows else frame))
    return str(without_secrets(text, max_chars))


def is_frame(value: Any) -> bool:
    """Whether the value is a data frame of pandas or another library. Only its class is examined, because an object's
    own attributes can be misleading.
    """
    return hasattr(type(value), "head") and hasattr(type(value), "columns")
