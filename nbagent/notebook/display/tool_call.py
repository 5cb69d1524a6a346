"""One tool call as HTML: folded, with its arguments, a preview of its result, its duration and its outcome.

Tables are shown as tables and code as code. Images that the tool returned stand below, where they are always visible.
The trace has everything in full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbagent.core.content.images import Image, image_note, images_in
from nbagent.core.events import Event, ToolResult
from nbagent.core.render import markdown as render
from nbagent.core.render.highlight import highlight_code
from nbagent.text import shortened

#: Rows and columns of a table, and characters of each value.
MAX_ROWS, MAX_COLUMNS, VALUE_CHARS = 10, 12, 80
#: Languages of arguments, by their name.
_LANGUAGES = {"code": "python", "python": "python", "sql": "sql"}


def tool_call_html(call: Event, result: ToolResult | None, *, state: str, timings: bool) -> str:
    """The folded block. `state` describes a call that has no result yet."""
    arguments = call.tool_arguments or {}
    title = f"<code>{render.escape(render.format_call(call.tool_name or '', arguments))}</code>"
    if result is None:
        return render.details_html(title, state, _arguments_html(arguments))
    body = _arguments_html(arguments) + _result_html(result)
    return render.details_html(title, _outcome_html(result, timings), body)


def result_images_html(result: ToolResult | None) -> list[str]:
    """The images that a tool returned."""
    if result is None or result.outcome is None:
        return []
    return [image_html(image, image_note(image.to_part())) for image in images_in(result.outcome.content)]


def image_html(image: Image, caption: str) -> str:
    """An image as part of the page."""
    return render.image_html(image.media_type, image.to_base64(), caption)


def _arguments_html(arguments: dict[str, Any]) -> str:
    """The arguments as JSON, but text of several lines as it is."""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str) and "\n" in value.strip()}
    rest = {name: value for name, value in arguments.items() if name not in texts}
    shown = [render.labelled_html("arguments", render.readable_json(rest))] if rest or not texts else []
    for name, value in texts.items():
        code = highlight_code(render.printable(render.shortened_with_note(value)), _LANGUAGES.get(name, ""))
        highlighted = f"<small>{render.escape(name)}</small><pre>{code}</pre>"
        shown.append(highlighted if code else render.labelled_html(name, value))
    return "".join(shown)


def _result_html(result: ToolResult) -> str:
    value: Any = result.outcome.value if result.outcome is not None else None
    if result.metadata["is_error"]:
        return render.labelled_html("error", result.content)
    if _is_data_frame(value):
        rows, columns = value.shape
        return f"<small>result: {rows:,} rows × {columns:,} columns</small>{_table_html(value)}"
    return render.labelled_html("result", result.content)


def _is_data_frame(value: Any) -> bool:
    """Whether it is a pandas DataFrame, found out without importing pandas."""
    return any(
        (base.__name__, base.__module__.split(".")[0]) == ("DataFrame", "pandas") for base in type(value).__mro__
    )


def _table_html(frame: Any) -> str:
    """The first rows and columns of a DataFrame, with escaped values, numbers aligned right."""
    head = frame.iloc[:MAX_ROWS, :MAX_COLUMNS]
    classes = ["", *(' class="n"' if getattr(dtype, "kind", "O") in "iufc" else "" for dtype in head.dtypes)]
    columns = [head.index, *(head.iloc[:, number] for number in range(len(head.columns)))]
    rows = "".join(_row_html("td", row, classes) for row in zip(*columns, strict=True))
    return f"<table><thead>{_row_html('th', ('', *head.columns), classes)}</thead><tbody>{rows}</tbody></table>"


def _row_html(tag: str, values: Iterable[Any], classes: Iterable[str]) -> str:
    cells = (
        f"<{tag}{css}>{render.escape(shortened(str(value), VALUE_CHARS))}</{tag}>"
        for value, css in zip(values, classes, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _outcome_html(result: ToolResult, timings: bool) -> str:
    outcome, seconds = result.outcome, result.metadata["duration_s"] if timings else None
    took = f" {render.format_duration(seconds)}" if seconds is not None else ""
    if outcome is not None and not outcome.args_valid:
        return '<span class="nbagent-bad">arguments invalid, sent back</span>'
    if outcome is not None and outcome.denied:
        return '<span class="nbagent-bad">denied</span>'
    if result.metadata["is_error"]:
        return f'<span class="nbagent-bad">✗ error</span>{took}'
    return f'<span class="nbagent-ok">✓</span>{took}'
