"""Asks the notebook's user for approval before a tool runs: with buttons in the cell or panel, or with `input()`.

Buttons need a front end that shows widgets, and a kernel that handles clicks while the cell runs. As soon as the front
end shows the buttons, it reports this to the kernel. Without this report, the user is asked to type. Buttons and
`input()` can't be offered at the same time: while `input()` waits, JupyterLab runs no other cell.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from IPython.display import display

from nbagent.chat.approval import HERE, LINE_CHARS, asks_html, only_name, where_asked
from nbagent.chat.checklist import plan_name, plan_of_call
from nbagent.chat.look import APPROVAL_STYLE, translator
from nbagent.core.background import call_on_main
from nbagent.core.cells import cell_id_of, running_shell
from nbagent.core.current import current
from nbagent.core.messages import FunctionCall
from nbagent.core.render import markdown as render
from nbagent.core.render.arguments import arguments_text
from nbagent.core.render.control_chars import show_all_chars
from nbagent.errors import ToolArgumentsError, ToolDeniedError
from nbagent.functions.allowances import Allow
from nbagent.functions.elicitation import Question
from nbagent.functions.preview import PreviewedCall
from nbagent.functions.registry import FunctionDefinition
from nbagent.notebook.display.captured import outside_of_call

#: Seconds for a notebook's page to report that it shows the buttons. On Binder, it first loads their scripts.
SHOWN_WITHIN_S = 30.0
#: The same where buttons are unlikely: in a console, and on a page that did not show the last ones.
SHOWN_SOON_S = 2.0
#: The text that a front end without widgets shows.
_NO_BUTTONS = "Waiting for buttons. If this page can't show them, you can type your answer in {:.0f} s."

#: Lines of a call that are shown at first. The rest must be shown before the call can be approved.
SHOWN_LINES = 40

#: The choices to type. Any other text is the reason for denying.
_CHOICES = "[y/N, always, or why not] "

#: The choices to type for a question. {} is replaced by the answers so far.
_ANSWERS = "[y for {}, other JSON, or Enter to refuse] "

#: True, an `Allow`, the edited arguments, or False.
Answer = bool | Allow | dict[str, Any]

#: How long an approval lasts, as the form offers it.
_SCOPES = {
    "this time": True,
    "this tool, all session": Allow.TOOL,
    "this tool with these arguments, all session": Allow.CALL,
}


def asking_call_id(call: FunctionCall) -> str | None:
    """The `tool_call_id` of the call that an approver receives, or of the call that asks a `Question`. None for a call
    that a tool's own code makes, because it has no block in a transcript.
    """
    return current.get().call.tool_call_id if isinstance(call, Question) or call.id else None


#: Returns a context manager during which a view shows that the call waits. It yields a function that takes edited
#: arguments.
WhileAsking = Callable[[FunctionCall], AbstractContextManager[Callable[[dict[str, Any]], None]]]


class NotebookApprover:
    """An approver for a notebook. `is_watched()` returns whether a person may be present. If nobody can be present,
    calls are denied.
    """

    #: Whether the last buttons were not shown by any front end.
    _were_missed = False

    def __init__(
        self,
        is_watched: Callable[[], bool],
        while_asking: WhileAsking = lambda call: nullcontext(lambda arguments: None),
    ) -> None:
        self._is_watched, self._while_asking = is_watched, while_asking

    async def __call__(self, call: FunctionCall, definition: FunctionDefinition) -> Answer:
        """Ask about one call. If the cell is interrupted during the question, the tool does not run."""
        where = where_asked(call, definition)
        if not self._is_watched():
            text = (
                "The call needs approval, and nobody is at this notebook to give it. Do not repeat it; tell the user."
            )
            raise ToolDeniedError(text, tool=call.name)
        with self._while_asking(call) as show_edited:
            if _takes_clicks():
                form = ApprovalForm(call, definition, where)
                try:
                    answer = await form.ask(self._patience())
                finally:
                    NotebookApprover._were_missed = form.was_missed
                if isinstance(answer, dict) and not isinstance(call, Question):
                    show_edited(answer)
                if answer is not None:
                    return answer
            if isinstance(call, Question):
                return await _typed_answers(call)
            question = _typed_question(call, where)
            # on the main thread, where the stop button reaches the question
            typed = (await call_on_main(lambda: input(question))).strip()
            if typed.lower() in ("a", "always"):
                return Allow.TOOL
            if typed.lower() not in ("y", "yes", "n", "no", ""):
                raise denied(call, typed)
            return typed.lower().startswith("y")

    def _patience(self) -> float:
        """Seconds to wait for the buttons. If our script ran in the page, the page has widgets."""
        from nbagent.notebook.display.answer_buttons import answer_buttons  # loads widgets

        is_page = cell_id_of(running_shell()) is not None
        is_likely = not self._were_missed or answer_buttons().can_change_cells
        return SHOWN_WITHIN_S if is_page and is_likely else SHOWN_SOON_S


def _takes_clicks() -> bool:
    """Whether clicks arrive while this code waits: ipykernel before version 7 delays them until the cell ends."""
    has_kernel = getattr(running_shell(), "kernel", None) is not None
    version = getattr(sys.modules.get("ipykernel"), "version_info", (7,))
    return has_kernel and version[0] >= 7 and threading.current_thread() is threading.main_thread()


class ApprovalForm:
    """An approval form for one call, with buttons, in the widget `box`. Besides approving or denying the call, the user
    can edit the arguments, allow later calls, or give a reason for denying the call. Edited arguments must fit the
    tool's `definition`.

    Create it on the event loop that waits for the answer. Clicks may arrive on any thread.
    """

    def __init__(
        self, call: FunctionCall, definition: FunctionDefinition | None = None, where: str = HERE, language: str = ""
    ) -> None:
        import ipywidgets as widgets

        t = translator(language)
        self._call, self._definition, self._where, self._language = call, definition, where, language
        self._loop = asyncio.get_running_loop()
        self._shown: asyncio.Future[None] = self._loop.create_future()
        #: Whether no front end showed the form in time.
        self.was_missed = False
        self._answer: asyncio.Future[Answer] = self._loop.create_future()
        asks = isinstance(call, Question)  # then the text box has the whole question
        title, below = asks_html(call, where, SHOWN_LINES, language)
        self._title = widgets.HTML(APPROVAL_STYLE + title)
        self._text_argument = _text_argument(call)
        if self._text_argument is None:
            text, label = (
                render.readable_json(call.arguments, indent=2),
                t("Answers, as JSON" if asks else "Arguments, as JSON"),
            )
        else:
            text, label = call.arguments[self._text_argument], render.readable_name(self._text_argument)
        self._unedited = text
        layout = widgets.Layout(width="auto", display="none")
        rows = min(12, 2 + text.count("\n"))
        self._arguments = widgets.Textarea(text, rows=rows, layout=layout, description=label)
        self._problem = widgets.HTML()
        self._more = widgets.Button(
            description=f"Show {below} more lines", tooltip=t("Read all of it before you approve it")
        )
        self._more.on_click(lambda _: self._show_all())
        self._run = approve = widgets.Button(
            description=t("Answer" if asks else "Approve"),
            button_style="success",
            tooltip=t("Send these answers" if asks else "Run it with these arguments"),
            disabled=below > 0,
        )
        scopes = [(t(name), scope) for name, scope in _SCOPES.items()]
        self._scope = widgets.Dropdown(options=scopes, description=t("Approve for"), tooltip=t("How long"))
        self._edit = widgets.Button(description=t("Edit"), tooltip=t("Change the arguments first"))
        self._cancel = widgets.Button(description=t("Cancel"), tooltip=t("Keep the model's arguments"))
        self._cancel.layout.display = "none"
        deny = widgets.Button(description=t("Deny"), tooltip=t("Don't run it, and tell the model"))
        why = t("why not? the model reads it")
        self._reason = widgets.Text(placeholder=why, description=t("Reason"), tooltip=t("Why not"))
        approve.on_click(lambda _: self._approve())
        self._edit.on_click(lambda _: self._set_editing(True))
        self._cancel.on_click(lambda _: self._set_editing(False))
        deny.on_click(lambda _: self._deny())
        row = [approve, self._scope, self._edit, self._cancel, deny, self._reason]
        buttons = widgets.HBox([self._more, *row] if below else row)
        self.box = widgets.VBox([self._title, self._arguments, self._problem, buttons]).add_class("nbagent-ask")
        if asks:  # an answer applies once, and a refusal needs no reason
            self._arguments.layout.display = "" if call.arguments else "none"
            for widget in (self._scope, self._edit, self._reason):
                widget.layout.display = "none"
        self.box._view_count = 0  # makes the front end count its views of the box
        self.box.observe(self._on_views, "_view_count")
        in_place = call.preview.in_place if isinstance(call, PreviewedCall) else None
        self._leave_place = in_place(self._answer_in_place) if in_place is not None else None

    def _show(self, room: float) -> None:
        self._title.value = APPROVAL_STYLE + asks_html(self._call, self._where, room, self._language)[0]

    async def ask(self, shown_within: float) -> Answer | None:
        """Show the form in the running cell and return the answer; None if no front end shows the form in time."""
        bundle = {**self.box._repr_mimebundle_(), "text/plain": _NO_BUTTONS.format(shown_within)}
        with outside_of_call():
            handle = display(bundle, raw=True, display_id=True)
        answer: Answer | None = None
        outcome, arguments = "not answered", self._call.arguments
        try:
            async with asyncio.timeout(shown_within):
                await self._shown
            answer = await self._answer
            if isinstance(self._call, Question):
                outcome = "answered" if answer else "declined"
                arguments = answer if isinstance(answer, dict) else arguments
            elif isinstance(answer, dict):
                outcome, arguments = "approved as edited", answer
            elif isinstance(answer, Allow):
                outcome = f"approved, and {answer.value} for this session"
            else:
                outcome = "approved" if answer else "denied"
        except TimeoutError:
            outcome, self.was_missed = "", True
        except ToolDeniedError:
            outcome = "denied"
            raise
        finally:
            plan = plan_of_call(self._call.name, arguments)
            asked = plan_name(plan) if plan else render.format_call(self._call.name, arguments)
            text = f"{outcome}: {asked}" if outcome else ""
            page = render.output_html(render.note_html(text)) if outcome else ""
            with outside_of_call():
                handle.update({"text/plain": text, "text/html": page}, raw=True)
            self.close()
        return answer

    async def answer(self) -> Answer:
        """Wait for the user's answer. The caller must display `box`."""
        return await self._answer

    def close(self) -> None:
        """Remove the widgets."""
        if self._leave_place is not None:
            self._leave_place()
        for widget in (*self.box.children[-1].children, *self.box.children, self.box):
            widget.close()

    def _on_views(self, change: dict[str, Any]) -> None:
        if change["new"]:
            self._resolve(self._shown, None)

    def _show_all(self) -> None:
        self._show(math.inf)
        self._more.layout.display, self._run.disabled = "none", False

    def _set_editing(self, is_editing: bool) -> None:
        """Start editing the arguments, which can then be approved only once, or restore the model's arguments."""
        self._show_all()
        for widget in (self._arguments, self._cancel):
            widget.layout.display = "" if is_editing else "none"
        for widget in (self._edit, self._scope):
            widget.layout.display = "none" if is_editing else ""
        self._arguments.value, self._scope.value = self._unedited, True
        self._problem.value = ""
        if is_editing:
            self._show(0)

    def _deny(self) -> None:
        reason = self._reason.value.strip()
        self._resolve(self._answer, denied(self._call, reason) if reason else False)

    def _answer_in_place(self, answer: bool | str) -> None:
        if isinstance(answer, bool):
            self._resolve(self._answer, answer)
        else:
            self._arguments.value = answer
            self._approve()

    def _approve(self) -> None:
        """Approve with the arguments in the form, or show the error below them."""
        from nbagent.functions.formatting import error_summary  # loaded with the first call
        from nbagent.functions.validation import validate_arguments

        text, problem = self._arguments.value, ""
        try:
            only = self._text_argument
            arguments = json.loads(text) if only is None else self._call.arguments | {only: text}
            unedited = text == self._unedited or arguments == self._call.arguments
            if not isinstance(arguments, dict):
                problem = 'The arguments are a JSON object: {"name": value, …}'
            elif isinstance(self._call, Question):
                problem = self._call.problem(arguments)
            elif self._definition is not None and not unedited:
                validate_arguments(self._definition, arguments)
        except json.JSONDecodeError as error:
            problem = f"This is not JSON: {error}"
        except ToolArgumentsError as error:
            problem = "; ".join(error.problems)
        except Exception as error:  # noqa: BLE001  the tool's own validator may raise anything, and the run waits here
            problem = error_summary(error)
        if problem:
            said = f'<span class="nbagent-bad">{render.escape(problem)}</span>'
            self._problem.value = f'<div class="nbagent {render.NO_TEX}" role="alert">{said}</div>'
            return
        self._resolve(self._answer, self._scope.value if unedited else arguments)

    def _resolve(self, future: asyncio.Future[Any], value: Any) -> None:
        def settle() -> None:
            if not future.done():
                (future.set_exception if isinstance(value, ToolDeniedError) else future.set_result)(value)

        self._loop.call_soon_threadsafe(settle)


async def _typed_answers(question: Question) -> Answer:
    """Ask for the answers as one line of JSON. An empty line refuses."""
    text = f"{render.readable_name(question.name)} asks: {show_all_chars(question.text)}\n"
    choices = _ANSWERS.format(render.readable_json(question.arguments)) if question.arguments else "[y/N] "
    while True:
        prompt = f"{text}{choices}"
        typed = (await call_on_main(partial(input, prompt))).strip()
        if typed.lower() in ("y", "yes"):
            typed = json.dumps(question.arguments)
        if typed.lower() in ("", "n", "no"):
            return False
        problem = "a JSON object is expected"
        try:
            answers = json.loads(typed)
        except ValueError:
            answers = None
        if isinstance(answers, dict) and not (problem := question.problem(answers)):
            return answers
        text = f"{problem}\n"


def denied(call: FunctionCall, reason: str) -> ToolDeniedError:
    """Return an error that tells the model why the user denied the call."""
    text = f"The user denied this call: {reason.rstrip('.')}. Do not repeat it as it is."
    return ToolDeniedError(text, tool=call.name)


def _typed_question(call: FunctionCall, where: str = HERE) -> str:
    """The question as plain text: on one line if the arguments are short, else below the arguments."""
    name = render.readable_name(call.name)
    if isinstance(call, PreviewedCall):
        return f"{call.preview.to_text()}\n{name} asks to {where}. Approve? {_CHOICES}"
    place = "" if where == HERE else f" {where}"
    arguments = ", ".join(
        f"{render.readable_name(key)}={show_all_chars(repr(value))}" for key, value in call.arguments.items()
    )
    if len(arguments) <= LINE_CHARS:
        return f"Run {name}({arguments}){place}? {_CHOICES}"
    return f"{arguments_text(call.arguments)}\nRun {name} with these arguments{place}? {_CHOICES}"


def _text_argument(call: FunctionCall) -> str | None:
    """The argument that can be edited directly: the only one, or the preview's.

    It must be text without hidden characters.
    """
    name = call.preview.edits if isinstance(call, PreviewedCall) else only_name(call.arguments)
    value = call.arguments.get(name)
    return name if isinstance(value, str) and render.printable(value) == value else None
