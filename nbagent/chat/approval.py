"""Renders approval questions as HTML for cells, the panel and the server's page."""

from __future__ import annotations

import math
from typing import Any

from nbagent.chat.checklist import checklist_html, plan_of_call
from nbagent.chat.look import translator
from nbagent.chat.tool_call import LANGUAGES
from nbagent.core.current import current
from nbagent.core.messages import FunctionCall
from nbagent.core.render import markdown as render
from nbagent.core.render.arguments import arguments_text, folded
from nbagent.core.render.diff import Line, lines_html
from nbagent.core.render.highlight import highlight_code
from nbagent.functions.elicitation import Question
from nbagent.functions.preview import Preview, PreviewedCall
from nbagent.functions.registry import FunctionDefinition

#: Where your own tools run, in the form's words.
HERE = "in your kernel"
#: Characters that count as one line. A longer line counts as several.
LINE_CHARS = 100


def asks_html(call: FunctionCall, where: str, room: float = math.inf, language: str = "") -> tuple[str, int]:
    """The HTML of an approval question, and the number of lines left out. `room` is the number of lines that fit.

    `role="alert"` makes screen readers announce the question.
    """
    name = f"<strong>{render.escape(render.readable_name(call.name))}</strong>"
    t = translator(language)
    left, plan = 0, plan_of_call(call.name, call.arguments)
    if isinstance(call, Question):
        text = f"{name} {t('asks you')}<pre>{render.escape(folded(call.text))}</pre>"
    elif isinstance(call, PreviewedCall):
        page, left = _preview_html(call.preview, room)
        text = f"{name} {t('asks to')} {render.escape(where)}{page}"
    else:
        only = only_name(call.arguments)
        code_language, arguments = LANGUAGES.get(only, ""), arguments_text(call.arguments)
        arguments, left = _beginning(arguments.removeprefix(f"{only} =\n") if code_language else arguments, room)
        code = highlight_code(render.printable(arguments), code_language)
        shown = f"<pre>{code or render.escape(arguments)}</pre>" if arguments else ""
        text = f"{name} {t('asks to run')} {render.escape(t(where))}{shown}"
        if plan and room and not left:
            text = f"Work by this plan{_for_whom()}?{checklist_html(plan)}"
    return f'<div class="nbagent {render.NO_TEX}" role="alert">{text}</div>', left


def _preview_html(preview: Preview, room: float) -> tuple[str, int]:
    """As many lines of the preview as fit, and the number of lines left out."""
    page, left = "", 0
    for change in preview.changes:
        lines, shown = change.lines(), 0
        for _, line in lines:
            room -= 1 + len(line) // LINE_CHARS
            if room < 0:
                break
            shown += 1
        left += len(lines) - shown
        if shown or room >= 0:
            title = f'<div class="nbagent-quiet">{render.escape(change.title)}</div>' if change.title else ""
            page += title + _lines_html(lines[:shown], change.language)
    return page, left


def _lines_html(lines: list[Line], language: str) -> str:
    if any(kind != " " for kind, _ in lines):
        return lines_html(lines)
    text = "\n".join(line for _, line in lines)
    return f"<pre>{highlight_code(text, language) or render.escape(text)}</pre>"


def _beginning(text: str, room: float) -> tuple[str, int]:
    """The lines that fit, and the number of lines left out. Without room, nothing is shown."""
    lines = text.split("\n")
    if not room:
        return "", len(lines)
    for number, line in enumerate(lines):
        room -= 1 + len(line) // LINE_CHARS
        if room < 0:
            left = len(lines) - number
            return "\n".join([*lines[:number], f"[{len(lines)} lines, {left} below]"]), left
    return text, 0


def where_asked(call: FunctionCall, definition: FunctionDefinition, here: str = HERE) -> str:
    """Describe where a call would run, or what its preview says it would do, and which agent makes the call."""
    if isinstance(call, Question):
        return here
    if isinstance(call, PreviewedCall):
        return f"{call.preview.does}{_for_whom()}"
    source = definition.source
    kind, _, name = (source if isinstance(source, str) else source(**call.arguments)).partition(":")
    name = render.readable_name(name)
    places = {
        "mcp": f"on the MCP server {name}",
        "skills": f"on the server {name}",
        "skill": f"as the skill {name}, with your permissions",
    }
    return f"{places.get(kind, here)}{_for_whom()}"


def _for_whom() -> str:
    """The agent that calls the tool, if it is a subagent, which the person may not know about."""
    run = current.get().call
    return f", for the agent {render.readable_name(run.agent_name or '')}" if run.source == "agent" else ""


def only_name(arguments: dict[str, Any]) -> str:
    """The argument's name if there is exactly one argument, else an empty string."""
    return next(iter(arguments), "") if len(arguments) == 1 else ""
