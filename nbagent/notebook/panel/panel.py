"""`ChatPanel`: an agent's conversation as a widget, beside the cells and in sync with them.

The panel is made of ipywidgets, so it works wherever they do; `panel.js` adds what they can't do. Clicks only hand over
to the background loop (see `conversation`), and the panel shows what goes wrong.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
from IPython import get_ipython
from traitlets import Int, Unicode

from nbagent.agent import Agent
from nbagent.checks import check_type
from nbagent.core.render import markdown as render
from nbagent.notebook.display.approval import APPROVAL_STYLE
from nbagent.notebook.display.recorded import Recorded
from nbagent.notebook.host import is_watched
from nbagent.notebook.panel.conversation import conversation_of, release_conversation
from nbagent.notebook.panel.entry import Entry, history_html, history_text
from nbagent.notebook.panel.tabs import SetupTab, TraceTab

PANEL_STYLE = APPROVAL_STYLE + render.style_html(Path(__file__).with_name("panel.css"))
TABS = CHAT, TRACE, SETUP = ("Chat", "Trace", "Setup")
#: A text that grew by more characters than this, and ends with Enter, was pasted: it is not sent.
MAX_TYPED_CHARS = 20
HINT = "Ask, or Shift-Enter for a new line"
HINT_WITHOUT_SCRIPT = "Ask. Enter sends; \\ and Enter breaks the line"
#: For so many seconds after a question the conversation can't be scrolled, so that its end comes into view again.
JUMP_S = 0.15


class PanelScript(anywidget.AnyWidget):
    """Runs `panel.js`: Shift-Enter, names for screen readers, keyboard focus. Where it can't run, the panel works, too.

    `announcement` is what a screen reader says next, `tab` the index of the open tab. The script sends one
    `{"ready": True}`, and then `{"ask": text}` for each Enter.
    """

    _esm = Path(__file__).with_name("panel.js")

    announcement = Unicode().tag(sync=True)
    tab = Int().tag(sync=True)

    def focus(self) -> None:
        """Put the cursor into the question's box."""
        self.send({"focus": True})


class ChatPanel(widgets.VBox):
    """Talk to an agent in a panel: the same conversation as its `%%agent` cells, and the same trace.

    Enter sends, Shift-Enter breaks the line (in front ends that don't run the scripts of widgets: a backslash before
    Enter). Questions from cells appear here, too; several panels on one agent stay in sync. `Stop` ends what a panel
    asked; the text so far stays. Tools marked `approve=True` ask here if their run was started here. `height` is the
    conversation's, in CSS. `close()` removes the panel.

    Display it again before you save a notebook: the output then holds the conversation for readers without a kernel.

    >>> ChatPanel(agent)                                                    # doctest: +SKIP
    """

    def __init__(self, agent: Agent, *, height: str = "420px") -> None:
        check_type("ChatPanel(agent)", agent, Agent, fix="Pass an Agent: ChatPanel(agent).")
        self.agent = agent
        self._conversation = conversation_of(agent)
        self._edited: Entry | None = None  # the turn that the next question replaces
        self._typed = ""
        self._make(height)
        style = widgets.HTML(PANEL_STYLE)
        super().__init__([style, self._bar, self._notice, self._chat, self._other, self._foot, self._hidden])
        self.add_class("nbagent-panel")
        self._listen()

    # -- parts --------------------------------------------------------------------------------------------------------

    def _make(self, height: str) -> None:
        conversation, layout = self._conversation, {"height": height}
        tabs = widgets.ToggleButtons(options=TABS, tooltips=["", "What happened", "Model, tools, prompt"])
        self._tabs = tabs.add_class("nbagent-tabs")
        self._setup = SetupTab(conversation)
        self._meter = widgets.HTML(conversation.meter.html())
        self._tools = widgets.Button(tooltip="Choose the tools to offer").add_class("nbagent-tools")
        self._bar = widgets.HBox([self._tabs, self._setup.models, self._tools, self._meter]).add_class("nbagent-top")
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
        self._foot = widgets.VBox([row, self._status]).add_class("nbagent-input-area")
        self._script = PanelScript()
        self._hidden = widgets.Box([self._script]).add_class("nbagent-unseen")

    def _listen(self) -> None:
        call, conversation = self._conversation.run_on_loop, self._conversation
        self._send_button.on_click(lambda _: call(self._send_text, self._box.value))
        self._stop_button.on_click(lambda _: call(conversation.stop))
        self._retry_button.on_click(lambda _: call(conversation.retry))
        self._edit_button.on_click(lambda _: call(self._toggle_edit))
        self._box.observe(lambda change: call(self._on_typed, change["new"]), "value")
        self._tabs.observe(lambda change: call(self._show_tab), "value")
        self._tools.on_click(lambda _: call(setattr, self._tabs, "value", SETUP))
        self._script.on_msg(lambda _, message, buffers: call(self._on_script_message, message))
        self._setup.listen()
        conversation.listeners.append(self._update)
        call(self._show_tab)
        call(self._update)

    # -- what clicks do, on the background loop -----------------------------------------------------------------------

    def _on_script_message(self, message: dict[str, Any]) -> None:
        """The script works, or Enter was pressed; the script has emptied the box then."""
        if message.get("ready"):
            self._box.placeholder = HINT
        elif text := message.get("ask"):
            self._ask(str(text))

    def _on_typed(self, text: str) -> None:
        """Without the script, a typed Enter at the end sends the text, unless a backslash stands before it."""
        grown = len(text) - len(self._typed)
        self._typed = text
        is_enter = text.endswith("\n") and text.strip() and 0 < grown <= MAX_TYPED_CHARS
        if self._box.placeholder == HINT or not is_enter:
            return
        if text.endswith("\\\n"):
            self._set_text(text[:-2] + "\n")
        else:
            self._send_text(text)

    def _send_text(self, text: str) -> None:
        if text.strip():
            self._set_text("")
            self._ask(text)

    def _ask(self, text: str) -> None:
        replaced, self._edited = self._edited, None
        self._conversation.ask(text.strip(), replaced)
        self._chat.add_class("nbagent-jump")
        asyncio.get_running_loop().call_later(JUMP_S, self._chat.remove_class, "nbagent-jump")

    def _toggle_edit(self) -> None:
        """Put the last question into the box; a second click leaves everything as it was."""
        self._edited = self._conversation.last_turn if self._edited is None else None
        self._set_text("" if self._edited is None else self._edited.message.text)
        if self._edited is not None:
            self._script.focus()
        self._update()

    def _set_text(self, text: str) -> None:
        self._typed = self._box.value = text

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
        if self._edited is not conversation.last_turn:
            self._edited = None
        self._actions.layout.display = "none" if conversation.last_turn is None else ""
        self._edit_button.description = "Edit" if self._edited is None else "Cancel edit"
        self._stop_button.disabled = not conversation.has_pending
        self._meter.value = conversation.meter.html()
        status = conversation.status if self._edited is None else "Editing your last question: Send asks it again."
        self._status.value = f'<div class="nbagent-status">{render.escape(status)}</div>' if status else ""
        self._script.announcement = status or conversation.spoken_answer
        text = render.escape(conversation.notice)
        self._notice.value = f'<div class="nbagent nbagent-error" role="alert">{text}</div>' if text else ""
        self._setup.update()
        self._tools.description = self._setup.tool_count
        if self._tabs.value == TRACE and not conversation.is_busy:
            self._trace.refresh()

    # -- public -------------------------------------------------------------------------------------------------------

    def ask(self, question: str) -> None:
        """Ask as if it had been typed. Returns at once.

        >>> panel.ask("And by island?")                                     # doctest: +SKIP
        """
        self._conversation.run_on_loop(self._conversation.ask, question)

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

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """The widget, and the conversation so far for readers without a kernel."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options) or {}
        history = list(self.agent.conversation_history)
        recorded = Recorded(self.agent.trace, timings=is_watched(get_ipython()))
        body = history_html(history, recorded) or '<div class="nbagent-quiet">No messages yet.</div>'
        text = f"{self!r}\n\n{history_text(history, recorded)}".strip()
        return {**bundle, "text/html": PANEL_STYLE + render.output_html(body), "text/plain": text}
