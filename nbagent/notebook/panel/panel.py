"""`ChatPanel`: an agent's conversation as a widget, beside the cells and in sync with them.

The panel is made of ipywidgets, so it works wherever they do; `panel.js` adds what they can't do. Clicks only hand over
to the background loop (see `conversation`), and the panel shows what goes wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
from IPython import get_ipython
from IPython.display import display
from traitlets import Int, Unicode

from nbagent.agent.agent import Agent
from nbagent.checks import check_type
from nbagent.core.background import heartbeat
from nbagent.core.messages import Content
from nbagent.core.render import markdown as render
from nbagent.core.results import AgentResult
from nbagent.notebook.display.approval import APPROVAL_STYLE
from nbagent.notebook.keeper import is_kept, offer_for
from nbagent.notebook.panel.attachments import with_attachments
from nbagent.notebook.panel.branches import ConversationPicker
from nbagent.notebook.panel.conversation import conversation_of, release_conversation
from nbagent.notebook.panel.draft import Draft
from nbagent.notebook.panel.entry import PanelEntry
from nbagent.notebook.panel.model_picker import PICKER_STYLE, ModelPicker
from nbagent.notebook.panel.saved import SavedOutput
from nbagent.notebook.panel.tabs import SetupTab, TraceTab

PANEL_STYLE = APPROVAL_STYLE + render.style_html(Path(__file__).with_name("panel.css"))
TABS = CHAT, TRACE, SETUP = ("Chat", "Trace", "Setup")
#: A text that grew by more characters than this, and ends with Enter, was pasted: it is not sent.
MAX_TYPED_CHARS = 20
HINT = "Ask, or Shift-Enter for a new line"
HINT_WITHOUT_SCRIPT = "Ask. Enter sends; \\ and Enter breaks the line"
EDITING = "Editing your last question: Send asks it again as another version, Escape leaves it as it was."
EDITING_EARLIER = (
    "Editing an earlier question: Send continues from there; the rest stays as another branch. Escape leaves it."
)
#: For so many seconds after a question the conversation can't be scrolled, so that its end comes into view again.
JUMP_S = 0.15


class PanelScript(anywidget.AnyWidget):
    """Runs `panel.js`: keys, names for screen readers, keyboard focus. Where it can't run, the panel works, too.

    `announcement` is what a screen reader says next, `tab` the index of the open tab, `dock` the id of the panel if the
    script is to show it beside the notebook. The script sends one `{"ready": True}`, `{"ask": text, "number": number}`
    for each Enter or click on Send, `{"leave": True}` for each Escape, and `{"edit": index}` for a click on the pencil
    of a turn: no widget could tell in which of several panels it was clicked. It shows a question as waiting until it
    gets `{"taken": number}`, also if it is refused and given back: a kernel that is busy with a cell shows nothing.
    """

    _esm = Path(__file__).with_name("panel.js")

    announcement = Unicode().tag(sync=True)
    tab = Int().tag(sync=True)
    dock = Unicode().tag(sync=True)

    def focus(self) -> None:
        """Put the cursor into the question's box."""
        self.send({"focus": True})


class Asked:
    """A question that was put into a panel: `await` it for the `AgentResult`. As a cell's value it shows nothing.

    Raises what ended the run, and `CancelledError` after Stop. Interrupting the cell that waits leaves the run alone.
    """

    def __init__(self, answer: Future[AgentResult]) -> None:
        self._answer = answer

    def __await__(self) -> Generator[Any, None, AgentResult]:
        return self._wait().__await__()

    async def _wait(self) -> AgentResult:
        async with heartbeat():
            return await asyncio.wrap_future(self._answer)

    def _ipython_display_(self) -> None:
        """Nothing: the panel shows the question and its answer."""


class ChatPanel(widgets.VBox):
    """Talk to an agent in a panel: the same conversation as its `%%agent` cells, and the same trace.

    Enter sends, Shift-Enter breaks the line (in front ends that don't run the scripts of widgets: a backslash before
    Enter). Questions from cells appear here, too; several panels on one agent stay in sync. `Stop` ends what a panel
    asked; the text so far stays. Tools marked `approve=True` ask here if their run was started here. `height` is the
    conversation's, in CSS. `dock=True` shows the panel beside the notebook, at full height, where that is possible: in
    JupyterLab and Notebook 7. `close()` removes the panel. A saved notebook holds the conversation as of its last turn.

    >>> ChatPanel(agent)                                                    # doctest: +SKIP
    """

    def __init__(self, agent: Agent, *, height: str = "420px", dock: bool = False) -> None:
        check_type("ChatPanel(agent)", agent, Agent, fix="Pass an Agent: ChatPanel(agent).")
        self.agent = agent
        self._conversation = conversation_of(agent)
        self._edited: PanelEntry | None = None  # the turn whose question is asked again, in another version
        self._typed = ""
        self._make(height)
        self._saved = SavedOutput(self._conversation, PANEL_STYLE)
        style = widgets.HTML(PANEL_STYLE + PICKER_STYLE + self._saved.hiding_style)
        super().__init__([style, self._bar, self._notice, self._chat, self._other, self._foot, self._hidden])
        self.add_class("nbagent-panel")
        self._script.dock = self.model_id if dock else ""
        self._listen()

    # -- parts --------------------------------------------------------------------------------------------------------

    def _make(self, height: str) -> None:
        conversation, layout = self._conversation, {"height": height}
        tabs = widgets.ToggleButtons(options=TABS, tooltips=["", "What happened", "Tools, prompt"])
        self._tabs = tabs.add_class("nbagent-tabs")
        self._models = ModelPicker(conversation, max_height=height)
        self._setup = SetupTab(conversation)
        self._meter = widgets.HTML(conversation.meter.html())
        self._tools = widgets.Button(tooltip="Choose the tools to offer").add_class("nbagent-tools")
        call = conversation.run_on_loop
        self._conversations = ConversationPicker(
            lambda branch: call(conversation.switch, branch), lambda: call(self._begin)
        )
        parts = [self._tabs, self._conversations.box, self._models.box, self._tools, self._meter]
        self._bar = widgets.HBox(parts).add_class("nbagent-top")
        self._notice = widgets.HTML()
        self._retry_button = widgets.Button(description="Retry", tooltip="Ask the last question again")
        self._edit_button = widgets.Button(description="Edit", tooltip="Change the last question and ask again")
        self._actions = widgets.HBox([self._retry_button, self._edit_button]).add_class("nbagent-actions")
        inner = widgets.VBox([conversation.log, self._actions]).add_class("nbagent-inner")
        self._chat = widgets.VBox([inner], layout=layout).add_class("nbagent-chat")
        self._trace = TraceTab(conversation)
        self._other = widgets.VBox([self._trace.box, self._setup.box], layout=layout).add_class("nbagent-other")
        self._box = widgets.Textarea(description="Your question", placeholder=HINT_WITHOUT_SCRIPT, rows=1)
        self._box.add_class("nbagent-input")
        self._send_button = widgets.Button(description="Send", button_style="primary", tooltip="Ask the agent")
        self._stop_button = widgets.Button(description="Stop", tooltip="Stop the answer; its text stays", disabled=True)
        self._status = widgets.HTML()
        row = widgets.HBox([self._box, self._send_button, self._stop_button]).add_class("nbagent-row")
        self._draft, self._asking = Draft(conversation, get_ipython()), asyncio.Lock()
        self._foot = widgets.VBox([row, self._draft.box, self._status]).add_class("nbagent-input-area")
        self._script = PanelScript()
        scripts = [self._script, self._draft.script, self._models.script]
        self._hidden = widgets.Box(scripts).add_class("nbagent-unseen")

    def _listen(self) -> None:
        call, conversation = self._conversation.run_on_loop, self._conversation
        self._send_button.on_click(lambda _: call(self._send_text, self._box.value))
        self._stop_button.on_click(lambda _: call(conversation.stop))
        self._retry_button.on_click(lambda _: call(self._retry))
        self._edit_button.on_click(lambda _: call(self._edit, None))
        self._box.observe(lambda change: call(self._on_typed, change["new"]), "value")
        self._tabs.observe(lambda change: call(self._show_tab), "value")
        self._tools.on_click(lambda _: call(setattr, self._tabs, "value", SETUP))
        self._script.on_msg(lambda _, message, buffers: call(self._on_script_message, message))
        self._models.listen()
        self._setup.listen()
        conversation.listeners.append(self._update)
        call(self._show_tab)
        call(self._update)

    # -- what clicks do, on the background loop -----------------------------------------------------------------------

    async def _on_script_message(self, message: dict[str, Any]) -> None:
        """The script works, or Enter was pressed; the script has emptied the box then."""
        if message.get("ready"):
            self._box.placeholder = HINT
        elif "ask" in message:
            self._typed = ""  # the box is empty by now, though its widget may hear of it only after the answer
            try:
                await self._ask(str(message["ask"]))
            finally:
                self._script.send({"taken": message.get("number")})
        elif message.get("leave") and self._edited is not None:
            self._edit(None)
        elif isinstance(index := message.get("edit"), int) and 0 <= index < len(self._conversation.entries):
            self._edit(self._conversation.entries[index])

    async def _on_typed(self, text: str) -> None:
        """Without the script, a typed Enter at the end sends the text, unless a backslash stands before it."""
        grown = len(text) - len(self._typed)
        self._typed = text
        self._follow()
        is_enter = text.endswith("\n") and text.strip() and 0 < grown <= MAX_TYPED_CHARS
        if self._box.placeholder == HINT or not is_enter:
            return
        if text.endswith("\\\n"):
            self._set_text(text[:-2] + "\n")
        else:
            await self._send_text(text)

    async def _send_text(self, text: str) -> None:
        if text.strip() or self._draft.has_attachments:
            self._set_text("")
            await self._ask(text)

    async def _ask(self, text: str) -> None:
        replaced, self._edited = self._edited, None
        attached = self._draft.take()
        async with self._asking:  # in the order of sending, however long it takes to read what is mentioned
            try:
                before = None if replaced is None else replaced.message
                content = await self._draft.content(text.strip(), attached, before)
            except Exception:
                self._edited = replaced
                self._give_back(with_attachments(text.strip(), attached))
                raise
            self._conversation.ask(content, self._give_back, replaced)
        self._chat.add_class("nbagent-jump")
        asyncio.get_running_loop().call_later(JUMP_S, self._chat.remove_class, "nbagent-jump")

    def _retry(self) -> None:
        self._conversation.retry(self._give_back)

    def _edit(self, entry: PanelEntry | None) -> None:
        """Put the question of a turn into the box. None is the last one, or leaves everything as it was."""
        conversation = self._conversation
        if entry is None:
            entry = conversation.last_turn if self._edited is None else None
        elif not conversation.can_edit(entry):
            if conversation.is_idle:
                conversation.show_notice("The model does not read this question any more: the history was trimmed.")
            return
        self._edited = entry
        self._draft.take()
        self._set_text("" if entry is None else self._draft.restore(entry.message.content))
        if entry is not None:
            self._script.focus()
        self._update()

    def _begin(self) -> None:
        """Begin a new conversation."""
        self._conversation.begin()
        self._tabs.value = CHAT
        self._script.focus()

    def _give_back(self, content: Content) -> None:
        """Put a question that was not sent into the box, below what is there."""
        self._set_text("\n\n".join(filter(str.strip, [self._typed, self._draft.restore(content)])))

    def _set_text(self, text: str) -> None:
        self._typed = self._box.value = text
        self._follow()

    def _follow(self) -> None:
        self._draft.follow(self._typed, None if self._edited is None else self._edited.message)

    def _show_tab(self) -> None:
        tab = self._tabs.value
        self._script.tab = TABS.index(tab)
        shown = {self._chat: tab == CHAT, self._other: tab != CHAT}
        for part, is_shown in {**shown, self._trace.box: tab == TRACE, self._setup.box: tab == SETUP}.items():
            part.layout.display = "" if is_shown else "none"
        if tab == TRACE:
            self._trace.refresh()

    def _update(self) -> None:
        """Bring buttons, meter and messages up to date."""
        conversation = self._conversation
        if self._edited is not None and not conversation.can_edit(self._edited):
            self._edited = None
        self._actions.layout.display = "none" if conversation.last_turn is None else ""
        self._edit_button.description = "Edit" if self._edited is None else "Cancel edit"
        self._stop_button.disabled = not conversation.has_pending
        self._meter.value = conversation.meter.html()
        status = conversation.status
        if self._edited is not None:
            status = EDITING if self._edited is conversation.last_turn else EDITING_EARLIER
        if not conversation.entries:
            status = status or offer_for(self.agent)
        self._status.value = f'<div class="nbagent-status">{render.escape(status)}</div>' if status else ""
        self._script.announcement = status or conversation.spoken_answer
        notice = render.escape(conversation.notice)
        page = f'<div class="nbagent nbagent-error {render.NO_TEX}" role="alert">{notice}</div>'
        self._notice.value = page if notice else ""
        self._follow()
        context = self.agent.context
        self._conversations.update(context.conversations, context.here, conversation.is_idle)
        self._models.update(not conversation.is_idle)
        self._setup.update(not conversation.is_idle)
        self._tools.description = self._setup.tool_count
        if self._tabs.value == TRACE and not conversation.is_busy:
            self._trace.refresh()
        (self.add_class if is_kept(self.agent) else self.remove_class)("nbagent-kept")
        self._saved.update()

    # -- public -------------------------------------------------------------------------------------------------------

    def ask(self, question: str) -> Asked:
        """Ask as if it had been typed. Returns at once; `await` what it returns for the answer.

        >>> panel.ask("And by island?")                                     # doctest: +SKIP
        >>> result = await panel.ask("And by sex?")                         # doctest: +SKIP
        """
        answer: Future[AgentResult] = Future()
        self._conversation.run_on_loop(self._ask_for, answer, question)
        return Asked(answer)

    def _ask_for(self, answer: Future[AgentResult], question: str) -> None:
        try:
            asked = self._conversation.ask(question, self._give_back)
        except BaseException as error:
            answer.set_exception(error)
            raise
        asked.add_done_callback(partial(_hand_over, answer))

    def close(self) -> None:
        """Remove the panel; the agent and its conversation stay."""
        conversation = self._conversation
        if self._update in conversation.listeners:
            conversation.listeners.remove(self._update)
            if not conversation.listeners:
                release_conversation(conversation)
        super().close()

    def __repr__(self) -> str:
        return f"ChatPanel({self.agent!r})"

    def _ipython_display_(self) -> None:
        """The widget, and below it the conversation for readers without a kernel."""
        if getattr(get_ipython(), "kernel", None) is None:
            display({"text/plain": f"{self!r}\n\n{self._saved.text()}"}, raw=True)
            return
        display({**self._repr_mimebundle_(), "text/html": "", "text/plain": repr(self)}, raw=True)
        self._saved.display()


def _hand_over(answer: Future[AgentResult], asked: asyncio.Task[AgentResult]) -> None:
    """Give the end of a question to who waits for it on another thread."""
    if not answer.set_running_or_notify_cancel():  # the cell that waited was interrupted
        return
    error = asyncio.CancelledError() if asked.cancelled() else asked.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(asked.result())
