"""Asks the person at the notebook before a tool runs: with buttons in the cell or the panel, or with a typed question.

Buttons need a front end that shows widgets, and a kernel that takes clicks while the cell runs. Both are known once the
front end reports, before any click, that it shows the buttons. If no report comes, the question is typed.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from IPython.display import display

from nbagent.core.background import call_on_main
from nbagent.core.messages import FunctionCall
from nbagent.core.render import markdown as render
from nbagent.errors import ToolDeniedError

#: The style of the form; the panel uses the same colours.
APPROVAL_STYLE = render.STYLE + render.style_html(Path(__file__).with_name("approval.css"))
#: Seconds that the front end has to report that it shows the buttons.
SHOWN_WITHIN_S = 2.0
#: The same for a front end that has shown buttons before: it is slow, but it has them.
SHOWN_AGAIN_WITHIN_S = 30.0

#: True, the edited arguments, or False.
Answer = bool | dict[str, Any]

#: Asks instead of the cell in the runs of this context: the panel that they were started from.
ask_instead: ContextVar[Callable[[FunctionCall], Awaitable[Answer]] | None] = ContextVar(
    "nbagent_ask_instead", default=None
)

#: Makes a context manager for each question in the runs of this context: the cell's view shows that the call waits.
while_asking: ContextVar[Callable[[FunctionCall], AbstractContextManager[None]]] = ContextVar(
    "nbagent_while_asking", default=lambda call: nullcontext()
)


class NotebookApprover:
    """An approver for a notebook. `is_watched()` tells whether a person may be there; if not, calls are denied."""

    def __init__(self, is_watched: Callable[[], bool]) -> None:
        self._is_watched = is_watched
        self._has_buttons = True  # until a front end fails to show them
        self._were_shown = False

    async def __call__(self, call: FunctionCall, definition: Any) -> Answer:
        """Ask about one call. If the cell is interrupted during the question, the tool does not run."""
        if (ask := ask_instead.get()) is not None:
            return await ask(call)
        if not self._is_watched():
            text = (
                "The call needs approval, and nobody is at this notebook to give it. Do not repeat it; tell the user."
            )
            raise ToolDeniedError(text, tool=call.name)
        with while_asking.get()(call):
            if self._has_buttons and threading.current_thread() is threading.main_thread():  # clicks can be served
                answer = await ApprovalForm(call).ask(SHOWN_AGAIN_WITHIN_S if self._were_shown else SHOWN_WITHIN_S)
                self._were_shown = self._has_buttons = answer is not None
                if answer is not None:
                    return answer
            arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
            # on the main thread, where the stop button reaches the question
            typed = await call_on_main(lambda: input(f"Run {call.name}({arguments})? [y/N] "))
            return typed.strip().lower() in ("y", "yes")


class ApprovalForm:
    """A question about one call, with buttons: `box` is the widget. The user can edit the arguments first.

    Create it on the event loop that waits for the answer; clicks may come on any thread.
    """

    def __init__(self, call: FunctionCall) -> None:
        import ipywidgets as widgets

        self._call = call
        self._loop = asyncio.get_running_loop()
        self._shown: asyncio.Future[None] = self._loop.create_future()
        self._answer: asyncio.Future[Answer] = self._loop.create_future()
        self._title = widgets.HTML(self._title_html(_arguments_html(call.arguments)))
        self._text_argument = _only_text_argument(call.arguments)
        if self._text_argument is None:
            text, label = render.readable_json(call.arguments, indent=2), "Arguments, as JSON"
        else:
            text, label = call.arguments[self._text_argument], render.printable(self._text_argument)
        layout = widgets.Layout(width="auto", display="none")
        rows = min(12, 2 + text.count("\n"))
        self._arguments = widgets.Textarea(text, rows=rows, layout=layout, description=label)
        self._problem = widgets.HTML()
        approve = widgets.Button(description="Approve", button_style="success", tooltip="Run it with these arguments")
        edit = widgets.Button(description="Edit", tooltip="Change the arguments first")
        deny = widgets.Button(description="Deny", tooltip="Don't run it; the model is told so")
        approve.on_click(lambda _: self._approve())
        edit.on_click(lambda _: self._edit(edit))
        deny.on_click(lambda _: self._resolve(self._answer, False))
        buttons = widgets.HBox([approve, edit, deny])
        self.box = widgets.VBox([self._title, self._arguments, self._problem, buttons]).add_class("nbagent-ask")
        self.box._view_count = 0  # makes the front end count its views of the box
        self.box.observe(self._on_views, "_view_count")

    def _title_html(self, arguments: str) -> str:
        """The question; `role="alert"` makes screen readers read it out."""
        title = f"<strong>{render.escape(self._call.name)}</strong> asks to run in your kernel"
        return f'{APPROVAL_STYLE}<div class="nbagent" role="alert">{title}{arguments}</div>'

    async def ask(self, shown_within: float) -> Answer | None:
        """Show the form in the running cell and return the answer; None if no front end shows it in so many seconds."""
        handle = display(self.box, display_id=True)
        answer: Answer | None = None
        outcome, arguments = "not answered", self._call.arguments
        try:
            async with asyncio.timeout(shown_within):
                await self._shown
            answer = await self._answer
            if isinstance(answer, dict):
                outcome, arguments = "approved as edited", answer
            else:
                outcome = "approved" if answer else "denied"
        except TimeoutError:
            outcome = ""
        finally:
            text = f"{outcome}: {render.format_call(self._call.name, arguments)}" if outcome else ""
            page = render.output_html(render.note_html(text)) if outcome else ""
            handle.update({"text/plain": text, "text/html": page}, raw=True)
            self.close()
        return answer

    async def answer(self) -> Answer:
        """Wait for the answer; the caller shows `box`."""
        return await self._answer

    def close(self) -> None:
        """Remove the widgets."""
        for widget in (*self.box.children[-1].children, *self.box.children, self.box):
            widget.close()

    def _on_views(self, change: dict[str, Any]) -> None:
        if change["new"]:
            self._resolve(self._shown, None)

    def _edit(self, button: Any) -> None:
        self._arguments.layout.display, button.layout.display = "", "none"
        self._title.value = self._title_html("")

    def _approve(self) -> None:
        """Approve with the arguments in the form, or say below them what is wrong."""
        text, problem = self._arguments.value, ""
        try:
            arguments = json.loads(text) if self._text_argument is None else {self._text_argument: text}
            if not isinstance(arguments, dict):
                problem = 'The arguments are a JSON object: {"name": value, …}'
        except ValueError as error:
            problem = f"This is not JSON: {error}"
        if problem:
            said = f'<span class="nbagent-bad">{render.escape(problem)}</span>'
            self._problem.value = f'<div class="nbagent" role="alert">{said}</div>'
            return
        self._resolve(self._answer, True if arguments == self._call.arguments else arguments)

    def _resolve(self, future: asyncio.Future[Any], value: Any) -> None:
        def set_result() -> None:
            if not future.done():
                future.set_result(value)

        self._loop.call_soon_threadsafe(set_result)


def _arguments_html(arguments: dict[str, Any]) -> str:
    """The arguments as HTML. Text that JSON would write with backslashes, such as code, is shown as it is."""
    shown = [
        f"{name} = {render.readable_json(value)}" if _is_plain(value) else f"{name} =\n{value}"
        for name, value in arguments.items()
    ]
    return f"<pre>{render.escape(chr(10).join(shown))}</pre>" if shown else ""


def _only_text_argument(arguments: dict[str, Any]) -> str | None:
    """The name of the only argument if it is text without hidden characters: it can be edited as it is."""
    name, value = next(iter(arguments.items()), ("", None))
    return name if len(arguments) == 1 and isinstance(value, str) and render.printable(value) == value else None


def _is_plain(value: Any) -> bool:
    return not isinstance(value, str) or "\\" not in render.readable_json(value)
