"""One tool call as HTML: folded away, with its arguments, a preview of its result, how long it took and how it ended.

Tables are shown as tables, code as code; images that the tool returned stand below, where they are seen at once. The
trace has everything whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nbagent.core.content.images import Image, image_note, images_in
from nbagent.core.events import Event, ToolResult
from nbagent.core.render import markdown as render
from nbagent.core.render.highlight import highlight_code
from nbagent.text import shortened

#: Rows, columns and characters of each value of a table.
ROWS, COLUMNS, WIDTH = 10, 12, 80
#: The class of a number, which stands to the right.
NUMBER = ' class="n"'
#: Languages of arguments, by their name.
_LANGUAGES = {"code": "python", "python": "python", "sql": "sql"}


def tool_call_html(call: Event, result: ToolResult | None, *, state: str, timings: bool) -> str:
    """The folded block; `state` is what goes on with a call that has no result."""
    arguments = call.tool_arguments or {}
    title = f"<code>{render.escape(render.format_call(call.tool_name or '', arguments))}</code>"
    body = _arguments(arguments)
    if result is None:
        return render.details_html(title, state, body)
    return render.details_html(title, _side(result, timings), body + _result(result))


def pictures(result: ToolResult | None) -> list[str]:
    """The images that a tool returned."""
    if result is None or result.outcome is None:
        return []
    return [picture(image, image_note(image.to_part())) for image in images_in(result.outcome.content)]


def picture(image: Image, caption: str) -> str:
    """An image as HTML."""
    return render.image_html(image.media_type, image.to_base64(), caption)


def _arguments(arguments: dict[str, Any]) -> str:
    """As JSON, but for texts of several lines, which are read better as they are."""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str) and "\n" in value.strip()}
    rest = {name: value for name, value in arguments.items() if name not in texts}
    shown = [render.labelled_html("arguments", render.readable_json(rest))] if rest or not texts else []
    for name, value in texts.items():
        code = highlight_code(render.printable(render.shortened_with_note(value)), _LANGUAGES.get(name, ""))
        shown.append(
            f"<small>{render.escape(name)}</small><pre>{code}</pre>" if code else render.labelled_html(name, value)
        )
    return "".join(shown)


def _result(result: ToolResult) -> str:
    outcome = result.outcome
    if result.metadata["is_error"]:
        return render.labelled_html("error", result.content)
    if outcome is not None and _is_frame(outcome.value):
        rows, columns = outcome.value.shape
        return f"<small>result: {rows:,} rows × {columns:,} columns</small>{_table(outcome.value)}"
    return render.labelled_html("result", result.content)


def _is_frame(value: Any) -> bool:
    """Whether it is a pandas DataFrame, which is not imported to find out."""
    return any(
        (base.__name__, base.__module__.split(".")[0]) == ("DataFrame", "pandas") for base in type(value).__mro__
    )


def _table(frame: Any) -> str:
    """The first rows and columns of a DataFrame, every value as escaped text, numbers to the right."""
    head = frame.iloc[:ROWS, :COLUMNS]
    kinds = ["", *(NUMBER if getattr(dtype, "kind", "O") in "iufc" else "" for dtype in head.dtypes)]
    columns = [head.index, *(head.iloc[:, number] for number in range(len(head.columns)))]
    rows = zip(*columns, strict=True)
    body = "".join(_cells("td", row, kinds) for row in rows)
    return f"<table><thead>{_cells('th', ('', *head.columns), kinds)}</thead><tbody>{body}</tbody></table>"


def _cells(tag: str, values: Iterable[Any], kinds: Iterable[str]) -> str:
    cells = (
        f"<{tag}{kind}>{render.escape(shortened(str(value), WIDTH))}</{tag}>"
        for value, kind in zip(values, kinds, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _side(result: ToolResult, timings: bool) -> str:
    outcome = result.outcome
    seconds = result.metadata["duration_s"] if timings else None
    took = f" {render.format_duration(seconds)}" if seconds is not None else ""
    if outcome is not None and not outcome.args_valid:
        return '<span class="nbagent-bad">arguments invalid, sent back</span>'
    if outcome is not None and outcome.denied:
        return '<span class="nbagent-bad">denied</span>'
    if result.metadata["is_error"]:
        return f'<span class="nbagent-bad">✗ error</span>{took}'
    return f'<span class="nbagent-ok">✓</span>{took}'
