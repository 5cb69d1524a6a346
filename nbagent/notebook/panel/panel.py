"""`ChatPanel`: an agent's conversation as a widget, beside the cells and in step with them.

It is made of ipywidgets' own parts, so that it works wherever these do; `panel_script` adds what they can't do. Clicks
only hand over to the background loop (see `panel_conversation`), and what can go wrong is shown in the panel.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import ipywidgets as widgets
from IPython import get_ipython

from nbagent.agent import Agent
from nbagent.core.render import markdown as render
from nbagent.errors import ConfigurationError
from nbagent.notebook.display.approval import APPROVAL_STYLE
from nbagent.notebook.display.recorded import Recorded
from nbagent.notebook.host import is_watched
from nbagent.notebook.panel.conversation import conversation_of, let_go
from nbagent.notebook.panel.entry import static_html, static_text
from nbagent.notebook.panel.script import PanelScript
from nbagent.notebook.panel.setup import Setup
from nbagent.notebook.panel.trace_tab import TraceTab

PANEL_STYLE = APPROVAL_STYLE + render.style_html(Path(__file__).with_name("panel.css"))
TABS = CHAT, TRACE, SETUP = ("Chat", "Trace", "Setup")
#: Characters that may arrive at once with a typed Enter; more of them were pasted.
TYPED = 20
HINT = "Ask, or Shift-Enter for a new line"
HINT_PLAIN = "Ask. Enter sends; \\ and Enter breaks the line"
#: Seconds for which the conversation can't be scrolled, so that it shows its end again when something is asked.
JUMP = 0.15


class ChatPanel(widgets.VBox):
    """Talk to an agent in a panel: the same conversation as its `%%agent` cells, and the same trace.

    Enter sends, Shift-Enter breaks the line (where the front end runs no scripts of widgets: a backslash before Enter).
    What cells ask appears here, too; several panels on one agent stay in step. `Stop` ends what a panel asked, the text
    so far stays. Tools marked `approve=True` ask here, if their run was started here. `height` is that of the
    conversation, in CSS. `close()` takes the panel away.

    Display it again before you save a notebook: the output keeps the conversation as it is then, for readers without
    a kernel.

    >>> ChatPanel(agent)                                                    # doctest: +SKIP
    """

    def __init__(self, agent: Agent, *, height: str = "420px") -> None:
        if not isinstance(agent, Agent):
            raise ConfigurationError(f"ChatPanel takes an Agent, no {type(agent).__name__}: ChatPanel(agent)")
        self.agent = agent
        self._conversation = conversation_of(agent)
        self._replacing: Any = None
        self._typed = ""
        self._make(height)
        style = widgets.HTML(PANEL_STYLE)
        super().__init__([style, self._bar, self._notice, self._chat, self._other, self._foot, self._hidden])
        self.add_class("nbagent-panel")
        self._listen()

    # -- its parts ----------------------------------------------------------------------------------------------------

    def _make(self, height: str) -> None:
        tabs = widgets.ToggleButtons(options=TABS, tooltips=["", "What happened", "Model, tools, prompt"])
        self._tabs = tabs.add_class("nbagent-tabs")
        self._setup = Setup(self._conversation)
        self._meter = widgets.HTML(self._conversation.meter.html())
        self._tools = widgets.Button(tooltip="Choose the tools to offer").add_class("nbagent-tools")
        self._bar = widgets.HBox([self._tabs, self._setup.models, self._tools, self._meter]).add_class("nbagent-top")
        self._notice = widgets.HTML()
        self._retry_button = widgets.Button(description="Retry", tooltip="Ask the last question again")
        self._edit_button = widgets.Button(description="Edit", tooltip="Change the last question and ask again")
        self._actions = widgets.HBox([self._retry_button, self._edit_button]).add_class("nbagent-actions")
        inner = widgets.VBox([self._conversation.log, self._actions]).add_class("nbagent-inner")
        self._chat = widgets.VBox([inner], layout=widgets.Layout(height=height)).add_class("nbagent-chat")
        self._trace = TraceTab(self._conversation)
        self._other = widgets.VBox([self._trace.box, self._setup.box], layout=widgets.Layout(height=height))
        self._other.add_class("nbagent-other")
        self._box = widgets.Textarea(description="Your question", placeholder=HINT_PLAIN, rows=1)
        self._box.add_class("nbagent-input")
        self._send_button = widgets.Button(description="Send", button_style="primary", tooltip="Ask the agent")
        self._stop_button = widgets.Button(
            description="Stop", tooltip="End the answer; what was said stays", disabled=True
        )
        self._status = widgets.HTML()
        row = widgets.HBox([self._box, self._send_button, self._stop_button]).add_class("nbagent-row")
        self._foot = widgets.VBox([row, self._status]).add_class("nbagent-input-area")
        self._script = PanelScript()
        self._hidden = widgets.Box([self._script]).add_class("nbagent-unseen")

    def _listen(self) -> None:
        call, conversation = self._conversation.call, self._conversation
        self._send_button.on_click(lambda _: call(self._ask_typed, self._box.value))
        self._stop_button.on_click(lambda _: call(conversation.stop))
        self._retry_button.on_click(lambda _: call(conversation.retry))
        self._edit_button.on_click(lambda _: call(self._begin_edit))
        self._box.observe(lambda change: call(self._take_typed, change["new"]), "value")
        self._tabs.observe(lambda change: call(self._show), "value")
        self._tools.on_click(lambda _: call(setattr, self._tabs, "value", SETUP))
        self._script.on_msg(lambda _, message, buffers: call(self._take_message, message))
        self._setup.listen()
        conversation.changed.append(self._changed)
        call(self._show)
        call(self._changed)

    # -- what a click does, on the background loop --------------------------------------------------------------------

    def _take_message(self, message: dict[str, Any]) -> None:
        """The script in the page works, or had an Enter; it has emptied the box then."""
        if message.get("ready"):
            self._box.placeholder = HINT
        elif text := message.get("ask"):
            self._ask(str(text))

    def _take_typed(self, text: str) -> None:
        """Without the script: a text that has just got an Enter at its end is sent, but not with a backslash before."""
        grown = len(text) - len(self._typed)
        self._typed = text
        if self._box.placeholder == HINT or not (text.endswith("\n") and text.strip() and 0 < grown <= TYPED):
            return
        if text.endswith("\\\n"):
            self._put(text[:-2] + "\n")
        else:
            self._ask_typed(text)

    def _ask_typed(self, text: str) -> None:
        if text.strip():
            self._put("")
            self._ask(text)

    def _ask(self, text: str) -> None:
        replaced, self._replacing = self._replacing, None
        self._conversation.ask(text.strip(), instead_of=replaced)
        self._chat.add_class("nbagent-jump")
        asyncio.get_running_loop().call_later(JUMP, self._chat.remove_class, "nbagent-jump")

    def _begin_edit(self) -> None:
        """The last question comes into the box; a second click leaves everything as it was."""
        last = self._conversation.last
        if self._replacing is None and last is not None:
            self._replacing = last
            self._put(last.message.text)
            self._script.focus()
        else:
            self._replacing = None
            self._put("")
        self._changed()

    def _put(self, text: str) -> None:
        self._typed = self._box.value = text

    def _show(self) -> None:
        tab = self._tabs.value
        self._script.tab = TABS.index(tab)
        self._chat.layout.display = "" if tab == CHAT else "none"
        self._other.layout.display = "none" if tab == CHAT else ""
        self._trace.box.layout.display = "" if tab == TRACE else "none"
        self._setup.box.layout.display = "" if tab == SETUP else "none"
        if tab == TRACE:
            self._trace.refresh()

    def _changed(self) -> None:
        """Buttons, meter and messages as they must be now."""
        conversation = self._conversation
        if self._replacing is not conversation.last:
            self._replacing = None
        can_redo = conversation.last is not None
        self._actions.layout.display = "" if can_redo else "none"
        self._edit_button.description = "Edit" if self._replacing is None else "Keep as it is"
        self._stop_button.disabled = not conversation.asking
        self._meter.value = conversation.meter.html()
        status = "Your last question, to be asked anew." if self._replacing is not None else conversation.status
        self._status.value = f'<div class="nbagent-status">{render.escape(status)}</div>' if status else ""
        self._script.said = status or conversation.said
        text = render.escape(conversation.notice)
        self._notice.value = f'<div class="nbagent nbagent-error" role="alert">{text}</div>' if text else ""
        self._setup.update()
        self._tools.description = self._setup.tools
        if self._tabs.value == TRACE and not conversation.busy:
            self._trace.refresh()

    # -- as an output -------------------------------------------------------------------------------------------------

    def ask(self, question: str) -> None:
        """Ask as if it had been typed. Returns at once.

        >>> panel.ask("And by island?")                                     # doctest: +SKIP
        """
        self._conversation.call(self._conversation.ask, question)

    def close(self) -> None:
        """Take the panel away; the agent and its conversation stay."""
        conversation = self._conversation
        if self._changed in conversation.changed:
            conversation.changed.remove(self._changed)
            if not conversation.changed:
                let_go(conversation)
        super().close()

    def __repr__(self) -> str:
        return f"ChatPanel({self.agent!r})"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """The widget, and the conversation so far for readers without a kernel."""
        bundle: dict[str, Any] = super()._repr_mimebundle_(**options) or {}
        history = list(self.agent.conversation_history)
        recorded = Recorded(self.agent.trace, timings=is_watched(get_ipython()))
        said = static_html(history, recorded) or '<div class="nbagent-quiet">Nothing was said yet.</div>'
        text = static_text(history, recorded)
        page = PANEL_STYLE + render.output_html(said, formulas=True)
        return {**bundle, "text/html": page, "text/plain": f"{self!r}\n\n{text}".strip()}
