"""Renders tool calls as folded HTML with arguments, printed output, a preview of the result, duration and outcome.

Tables are shown as tables, and code as code. Images that the tool returned appear below the call and are always
visible. The trace has the full data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nbagent.chat.checklist import plan_name, plan_of_call
from nbagent.core.content.images import Image, image_note, images_in
from nbagent.core.events import Event, ToolResult
from nbagent.core.render import markdown as render
from nbagent.core.render.highlight import highlight_code
from nbagent.core.tool_output import IMAGE_TYPES
from nbagent.text import beginning, shortened

#: Rows and columns that are shown of a table, and characters of each value.
MAX_ROWS, MAX_COLUMNS, VALUE_CHARS = 10, 12, 80
#: Characters that are shown of a running tool's last printed line.
LINE_CHARS = 120
#: Colours of a terminal.
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: The languages of arguments, by name.
LANGUAGES = {"code": "python", "python": "python", "sql": "sql"}


def tool_call_html(
    call: Event,
    result: ToolResult | None,
    *,
    edited: dict[str, Any] | None,
    state: str,
    printed: Sequence[Mapping[str, str]],
    timings: bool,
) -> str:
    """A tool call as a folded block. `state` is the HTML that shows the state of an unfinished call. `edited` has the
    arguments if a person changed them.
    """
    arguments = (call.tool_arguments if edited is None else edited) or {}
    if plan := plan_of_call(call.tool_name, arguments):  # it waits for approval, or was denied
        title = f'<span class="nbagent-quiet">{render.escape(plan_name(plan).capitalize())}</span>'
    else:
        title = f"<code>{render.escape(render.format_call(call.tool_name or '', arguments))}</code>"
    body = _arguments_html(arguments)
    if edited is not None:
        title += ' <span class="nbagent-quiet">edited</span>'
        body += render.labelled_html("asked for by the model", render.readable_json(call.tool_arguments or {}))
    if printed:
        body += "<small>printed</small>" + "".join(map(_output_html, printed))
    if result is None:
        return render.details_html(title, state, body)
    return render.details_html(title, _outcome_html(result, timings), body + _result_html(result))


def group_html(
    calls: Sequence[tuple[Event, ToolResult | None]], body: str, *, is_over: bool, taken: str, timings: bool
) -> str:
    """The tool calls of one answer as a block, which stays unfolded until the last call ends.

    `body` is the calls' HTML, and `taken` is the HTML of the elapsed time.
    """
    names = dict.fromkeys(render.readable_name(call.tool_name or "") for call, _ in calls)
    title = f'<span class="nbagent-quiet">{len(calls)} tool calls</span> <code>{render.escape(", ".join(names))}</code>'
    results = [result for _, result in calls if result is not None]
    if len(results) < len(calls) and not is_over:
        return render.details_html(title, f"<span>{len(results)} done</span>{taken}", body, is_open=True)
    failures = Counter(filter(None, map(_failure, results)))
    failures["interrupted"] += len(calls) - len(results)
    if failures["error"] > 1:
        failures["errors"] = failures.pop("error")
    words = ", ".join(f"{count} {word}" for word, count in failures.items() if count)
    outcome = f'<span class="nbagent-bad">✗ {words}</span>' if words else '<span class="nbagent-ok">✓</span>'
    return render.details_html(title, outcome + (_total_time(results) if timings else ""), body)


def result_images_html(result: ToolResult | None) -> list[str]:
    """The images that a tool returned but did not display, as HTML."""
    if result is None or result.outcome is None:
        return []
    displayed = {part[kind] for part in result.outputs for kind in IMAGE_TYPES if kind in part}
    images = [image for image in images_in(result.outcome.content) if image.to_base64() not in displayed]
    return [image_html(image.to_part()) for image in images]


def outputs_html(outputs: Sequence[Mapping[str, str]]) -> list[str]:
    """A tool's printed and displayed output as HTML. A widget is shown as its text, marked with the widget's id."""
    return [f'<div class="nbagent-output {render.NO_TEX}"{_mark(part)}>{_output_html(part)}</div>' for part in outputs]


def printed_in(outputs: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The printed outputs, without the displayed ones."""
    return [part for part in outputs if "stream" in part]


def displayed_in(outputs: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The displayed outputs, without the printed ones."""
    return [part for part in outputs if "stream" not in part]


def last_line(outputs: Sequence[Mapping[str, str]]) -> str:
    """The last printed line that is not blank, shortened."""
    lines = "\n".join(part["text"] for part in printed_in(outputs)[-2:]).rsplit("\n", 20)
    shown = (" ".join(_ANSI.sub("", line).split()) for line in reversed(lines))
    return shortened(next(filter(None, shown), ""), LINE_CHARS)


def widget_mark(model_id: str) -> str:
    """The HTML attribute that marks a widget's text with the widget's id."""
    return f' data-nbagent-widget="{render.escape(model_id)}"'


def _mark(part: Mapping[str, str]) -> str:
    return widget_mark(part["widget"]) if "widget" in part else ""


def _output_html(part: Mapping[str, str]) -> str:
    for kind in IMAGE_TYPES:
        if Image.from_part({"data": part.get(kind)}) is not None:
            return image_html({"data": part[kind]})
    if page := render.clean_html(part.get("text/html", "")).strip():
        return page
    text = _ANSI.sub("", part.get("text", part.get("text/plain", ""))).rstrip()
    return f"<pre>{render.escape(render.printable(text))}</pre>" if text else ""


def image_html(part: Mapping[str, Any]) -> str:
    """An image part as HTML, or a note if it can't be shown."""
    image, note = Image.from_part(part), image_note(part)
    return render.note_html(note) if image is None else render.image_html(image.media_type, image.to_base64(), note)


def _arguments_html(arguments: dict[str, Any]) -> str:
    """The arguments as JSON, except that multi-line text stays as it is."""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str) and "\n" in value.strip()}
    rest = {name: value for name, value in arguments.items() if name not in texts}
    shown = [render.labelled_html("arguments", render.readable_json(rest))] if rest or not texts else []
    for name, value in texts.items():
        code = highlight_code(render.printable(render.shortened_with_note(value)), LANGUAGES.get(name, ""))
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
    """Whether it is a pandas DataFrame, checked without importing pandas."""
    return any(
        (base.__name__, base.__module__.split(".")[0]) == ("DataFrame", "pandas") for base in type(value).__mro__
    )


def _table_html(frame: Any) -> str:
    """The first rows and columns of a DataFrame, escaped. Numbers are right-aligned, and missing values are dashes."""
    head = frame.iloc[:MAX_ROWS, :MAX_COLUMNS]
    classes = ["", *(' class="n"' if getattr(dtype, "kind", "O") in "iufc" else "" for dtype in head.dtypes)]
    head = head.astype(object).where(head.notna(), "–")
    columns = [head.index, *(head.iloc[:, number] for number in range(len(head.columns)))]
    rows = "".join(_row_html("td", row, classes) for row in zip(*columns, strict=True))
    return f"<table><thead>{_row_html('th', ('', *head.columns), classes)}</thead><tbody>{rows}</tbody></table>"


def _row_html(tag: str, values: Iterable[Any], classes: Iterable[str]) -> str:
    cells = (
        f"<{tag}{css}>{render.escape(shortened(str(beginning(value, 4 * VALUE_CHARS)), VALUE_CHARS))}</{tag}>"
        for value, css in zip(values, classes, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _outcome_html(result: ToolResult, timings: bool) -> str:
    seconds = result.metadata["duration_s"] if timings else None
    took = f" {render.format_duration(seconds)}" if seconds is not None else ""
    match _failure(result):
        case "":
            return f'<span class="nbagent-ok">✓</span>{took}'
        case "invalid":
            return '<span class="nbagent-bad">arguments invalid, sent back</span>'
        case "denied":
            return '<span class="nbagent-bad">denied</span>'
        case "interrupted":
            return f'<span class="nbagent-bad">interrupted</span>{took}'
    return f'<span class="nbagent-bad">✗ error</span>{took}'


def _failure(result: ToolResult) -> str:
    """The kind of failure, in one word; "" for success."""
    outcome = result.outcome
    if outcome is not None and not outcome.args_valid:
        return "invalid"
    if outcome is not None and outcome.denied:
        return "denied"
    if outcome is not None and outcome.interrupted:
        return "interrupted"
    return "error" if result.metadata["is_error"] else ""


def _total_time(results: Sequence[ToolResult]) -> str:
    """The time from the start of the first call to the end of the last, if known."""
    outcomes = [result.outcome for result in results]
    times = [(each.started, each.started + (each.duration_s or 0)) for each in outcomes if each is not None]
    if not times or len(times) < len(outcomes) or not all(started for started, _ in times):
        return ""
    return f" {render.format_duration(max(end for _, end in times) - min(started for started, _ in times))}"
