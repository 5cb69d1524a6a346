"""Asks the person at the notebook before a tool runs: by buttons in the cell or the panel, or by a typed question.

Buttons need a front end that shows widgets and a kernel that takes clicks while the cell runs. Both are known when the
front end tells, before any click, that it shows the buttons; where it does not, the question is typed.
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

#: How a question looks; the panel shares its colours.
QUESTION_STYLE = render.STYLE + render.style_html(Path(__file__).with_name("question.css"))
#: How long the front end may take to say that it shows the buttons.
SHOWN_WITHIN_S = 2.0
#: … and once it has shown some: then it is slow, and not without buttons.
SHOWN_AGAIN_WITHIN_S = 30.0

#: True, the edited arguments, or False.
Answer = bool | dict[str, Any]

#: Who asks in the runs of this context, in place of the cell: the panel that they were started from.
asker: ContextVar[Callable[[FunctionCall], Awaitable[Answer]] | None] = ContextVar("nbagent_asker", default=None)

#: What surrounds a question in the runs of this context: the cell's view, which shows that the call waits.
Asking = Callable[[FunctionCall], AbstractContextManager[None]]
asking: ContextVar[Asking] = ContextVar("nbagent_asking", default=lambda call: nullcontext())


class Approval:
    """An approver for a notebook. `is_live()` says whether a person may be there: if not, the answer is no."""

    def __init__(self, is_live: Callable[[], bool]) -> None:
        self._is_live = is_live
        self._buttons = True  # until a front end did not show them
        self._were_shown = False

    async def __call__(self, call: FunctionCall, definition: Any) -> Answer:
        """Ask about one call. Interrupting the cell while it waits runs nothing."""
        if (ask := asker.get()) is not None:
            return await ask(call)
        if not self._is_live():
            text = (
                "The call needs approval, and nobody is at this notebook to give it. Do not repeat it; tell the user."
            )
            raise ToolDeniedError(text, tool=call.name)
        with asking.get()(call):
            return await self._answer(call)

    async def _answer(self, call: FunctionCall) -> Answer:
        if self._buttons and threading.current_thread() is threading.main_thread():  # a typed cell: its loop is free
            answer = await Question(call).ask(SHOWN_AGAIN_WITHIN_S if self._were_shown else SHOWN_WITHIN_S)
            if answer is not None:
                self._were_shown = True
                return answer
            self._buttons = False
        return await self._typed(call)

    async def _typed(self, call: FunctionCall) -> bool:
        """A question below the cell. It is asked on the main thread, where the stop button reaches it."""
        arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
        answer = await call_on_main(lambda: input(f"Run {call.name}({arguments})? [y/N] "))
        return answer.strip().lower() in ("y", "yes")


class Question:
    """One question with its buttons: `box` is the widget, `answer()` waits. The arguments can be edited first.

    Make it on the event loop that waits for the answer; clicks may come on any thread.
    """

    def __init__(self, call: FunctionCall) -> None:
        import ipywidgets as widgets

        self._call = call
        self._loop = asyncio.get_running_loop()
        self._shown: asyncio.Future[None] = self._loop.create_future()
        self._answer: asyncio.Future[Answer] = self._loop.create_future()
        self._title = widgets.HTML(self._asks(_as_text(call.arguments)))
        self._only = _only_text(call.arguments)
        text = render.readable_json(call.arguments, indent=2) if self._only is None else call.arguments[self._only]
        self._arguments = widgets.Textarea(
            text,
            rows=min(12, 2 + text.count("\n")),
            layout=widgets.Layout(width="auto", display="none"),
            description="Arguments, as JSON" if self._only is None else render.printable(self._only),
        )
        self._problem = widgets.HTML()
        approve = widgets.Button(description="Approve", button_style="success", tooltip="Run it with these arguments")
        edit = widgets.Button(description="Edit", tooltip="Change the arguments first")
        deny = widgets.Button(description="Deny", tooltip="Don't run it; the model is told so")
        approve.on_click(lambda _: self._approve())
        edit.on_click(lambda _: self._unfold(edit))
        deny.on_click(lambda _: self._resolve(self._answer, False))
        buttons = widgets.HBox([approve, edit, deny])
        self.box = widgets.VBox([self._title, self._arguments, self._problem, buttons]).add_class("nbagent-ask")
        self.box._view_count = 0  # asks the front end to count its views here
        self.box.observe(self._viewed, "_view_count")

    def _asks(self, arguments: str) -> str:
        """Who asks what; it is read out where a screen reader listens."""
        title = f"<strong>{render.escape(self._call.name)}</strong> asks to run in your kernel"
        return f'{QUESTION_STYLE}<div class="nbagent" role="alert">{title}{arguments}</div>'

    async def ask(self, shown_within: float) -> Answer | None:
        """Show it in the running cell. The answer; None where no front end shows it within so many seconds."""
        handle = display(self.box, display_id=True)
        answer: Answer | None = None
        said, arguments = "not answered", self._call.arguments
        try:
            async with asyncio.timeout(shown_within):
                await self._shown
            answer = await self._answer
            if isinstance(answer, dict):
                said, arguments = "approved as edited", answer
            else:
                said = "approved" if answer else "denied"
        except TimeoutError:
            said = ""
        finally:
            text = f"{said}: {render.format_call(self._call.name, arguments)}" if said else ""
            page = render.output_html(render.note_html(text)) if said else ""
            handle.update({"text/plain": text, "text/html": page}, raw=True)
            self.close()
        return answer

    async def answer(self) -> Answer:
        """What the person decides, where `box` is shown."""
        return await self._answer

    def close(self) -> None:
        """Take the widgets away."""
        for widget in (*self.box.children[-1].children, *self.box.children, self.box):
            widget.close()

    def _viewed(self, change: dict[str, Any]) -> None:
        if change["new"]:
            self._resolve(self._shown, None)

    def _unfold(self, edit: Any) -> None:
        self._arguments.layout.display, edit.layout.display = "", "none"
        self._title.value = self._asks("")

    def _approve(self) -> None:
        """Take the arguments as they stand; what is no JSON object is said below them."""
        text = self._arguments.value
        try:
            arguments = json.loads(text) if self._only is None else {self._only: text}
        except ValueError as error:
            self._complain(f"This is not JSON: {error}")
            return
        if not isinstance(arguments, dict):
            self._complain('The arguments are a JSON object: {"name": value, …}')
            return
        self._resolve(self._answer, True if arguments == self._call.arguments else arguments)

    def _complain(self, text: str) -> None:
        self._problem.value = (
            f'<div class="nbagent" role="alert"><span class="nbagent-bad">{render.escape(text)}</span></div>'
        )

    def _resolve(self, future: asyncio.Future[Any], value: Any) -> None:
        """Clicks arrive on whichever thread serves them."""

        def settle() -> None:
            if not future.done():
                future.set_result(value)

        self._loop.call_soon_threadsafe(settle)


def _as_text(arguments: dict[str, Any]) -> str:
    """The arguments as HTML; texts that JSON would spell with backslashes, such as code, as one would read them."""
    shown = [
        f"{name} = {render.readable_json(value)}" if _is_plain(value) else f"{name} =\n{value}"
        for name, value in arguments.items()
    ]
    return f"<pre>{render.escape(chr(10).join(shown))}</pre>" if shown else ""


def _only_text(arguments: dict[str, Any]) -> str | None:
    """The name of the only argument, if it is a text without hidden characters: it is edited as it is."""
    name, value = next(iter(arguments.items()), ("", None))
    return name if len(arguments) == 1 and isinstance(value, str) and render.printable(value) == value else None


def _is_plain(value: Any) -> bool:
    return not isinstance(value, str) or "\\" not in render.readable_json(value)
