"""`ChatPanel`: an agent's conversation as a widget, in sync with the cells.

The kernel has the state and renders text from models and tools. `panel.js` shows this state and sends the user's
actions, which run on the background loop (see `conversation`). If an action fails, the panel shows the error.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from time import time
from typing import Any

import anywidget
from IPython import get_ipython
from IPython.display import display
from traitlets import Any as AnyTrait
from traitlets import Dict, Unicode

from nbagent.agent.agent import Agent
from nbagent.chat.greeting import greeting
from nbagent.chat.look import PANEL_STYLE, SCRIPT
from nbagent.chat.patch import State, merge_patch
from nbagent.checks import check_type
from nbagent.core.background import background_loop, heartbeat
from nbagent.core.render import markdown as render
from nbagent.core.results import AgentResult
from nbagent.notebook.display.figures import listen_quietly
from nbagent.notebook.document.modes import MODES, Mode
from nbagent.notebook.document.tools import notebook_tools_of
from nbagent.notebook.keeper import is_kept, offer_for
from nbagent.notebook.panel.attachments import data_in
from nbagent.notebook.panel.conversation import conversation_of, release_conversation
from nbagent.notebook.panel.draft import Draft
from nbagent.notebook.panel.model_picker import ModelPicker
from nbagent.notebook.panel.saved import SavedOutput
from nbagent.notebook.panel.tabs import mode_state, offer, save_notebook, setup_state, tool_count, trace_html

log = logging.getLogger("nbagent")

CHAT, TRACE, SETUP = "Chat", "Trace", "Setup"
ABOUT = "Cells with %%agent and this panel share one conversation. Mention variables, cells and files with @."
EDITING = "Editing your last prompt: Send submits it as another version, and Escape keeps the old one."
EDITING_EARLIER = (
    "Editing an earlier prompt: Send continues from there and keeps the rest as another branch. Escape cancels."
)


class Asked:
    """A prompt that was sent with `ChatPanel.ask`. Await it for the `AgentResult`. As a cell's value, it shows nothing.

    Awaiting it raises the run's error, or `CancelledError` if the user stopped the run. Interrupting the waiting cell
    does not stop the run.
    """

    def __init__(self, answer: Future[AgentResult]) -> None:
        self._answer = answer

    def __await__(self) -> Generator[Any, None, AgentResult]:
        return self._wait().__await__()

    async def _wait(self) -> AgentResult:
        async with heartbeat():
            return await asyncio.wrap_future(self._answer)

    def _ipython_display_(self) -> None:
        """Show nothing: the panel shows the prompt and its answer."""


class ChatPanel(anywidget.AnyWidget):
    """A panel for chatting with an agent. It shares the conversation and the trace with the agent's `%%agent` cells.

    Enter sends the prompt, and Shift-Enter starts a new line. Prompts from cells also appear here, and several panels
    of one agent stay in sync. *Stop* ends the panels' runs and keeps the text so far. Tools with `approve=True` ask for
    approval in the panel if the run was started in it. `height` is the conversation's height in CSS. `dock=True` shows
    the panel beside the notebook, at full height, in JupyterLab and Notebook 7. `close()` removes the panel. A saved
    notebook contains the conversation as it was after the last turn.

    >>> ChatPanel(agent)                                                    # doctest: +SKIP
    """

    _esm = SCRIPT
    #: The panel's content as of the last patch.
    state = Dict().tag(sync=True, to_json=lambda _, panel: panel._shown)
    #: The style sheets, as HTML.
    look = Unicode().tag(sync=True)
    height = Unicode().tag(sync=True)
    #: The widget's own id, if it appears beside the notebook.
    dock = Unicode().tag(sync=True)
    #: The reader's position, which the script keeps for when the page is reloaded.
    place = AnyTrait().tag(sync=True)

    def __init__(self, agent: Agent, *, height: str = "420px", dock: bool = False) -> None:
        check_type("ChatPanel(agent)", agent, Agent, fix="Pass an Agent: ChatPanel(agent).")
        self.agent = agent
        self._conversation = conversation = conversation_of(agent)
        self._tab, self._trace = CHAT, ""
        self._notebook = ""  # the file that these turns were saved in
        self._reading = asyncio.Lock()
        self._draft = Draft(conversation, get_ipython(), self._show)
        self._models = ModelPicker(conversation, self._show)
        self._own: dict[str, Any] = {}
        self._shown: State = {}
        self._saved = SavedOutput(conversation, PANEL_STYLE)
        super().__init__(height=height, look=PANEL_STYLE + self._saved.hiding_style)
        listen_quietly(self)
        self.dock = self.model_id if dock else ""
        self.on_msg(lambda _, message, buffers: conversation.run_on_loop(self._receive, message, buffers))
        conversation.panels.append(self)
        conversation.run_on_loop(conversation.refresh)  # choosing a model may have left a notice

    # -- people's actions, on the background loop---------------------------------------------------------------------

    def _receive(self, message: dict[str, Any], buffers: Sequence[Any]) -> Any:
        """Handle the script's message: `{"do": name, "with": value}`."""
        conversation, draft, value = self._conversation, self._draft, message["with"]
        actions: dict[str, Callable[[], Any]] = {
            "hello": lambda: self._greet(value),
            "ask": lambda: self._ask(**value),
            "stop": conversation.stop,
            "retry": lambda: conversation.retry(value, draft.give_back),
            "branch": lambda: conversation.branch(value),
            "edit": lambda: draft.edit(value),
            "leave": draft.stop_editing,
            "version": lambda: conversation.show_version(*value),
            "conversation": lambda: conversation.go_to(value),
            "begin": self._begin,
            "typed": lambda: draft.type(value),
            "complete": lambda: self._complete(value),
            "attach": lambda: draft.attach_file(value, bytes(buffers[0]) if buffers else None),
            "detach": lambda: draft.detach(value),
            "tab": lambda: self._show_tab(value),
            "notebook": self._save_notebook,
            "offer": lambda: self._offer(*value),
            "prompt": lambda: self._set_prompt(value),
            "mode": lambda: self._set_mode(value),
            "models": lambda: self._models.act(**value),
        }
        return actions[message["do"]]()

    def _greet(self, language: str) -> None:
        """Send everything to a page that shows the panel. It may have missed patches, and its clock may be off."""
        self._conversation.language = language
        self.send({"state": self._shown, "now": time()})

    def _begin(self) -> None:
        self._conversation.begin()
        self._tab = CHAT
        self._show()

    def _offer(self, name: str, on: bool) -> None:
        offer(self.agent, name, on)
        self._conversation.refresh()

    def _set_prompt(self, text: str) -> None:
        self.agent.system_prompt = text or None
        self._conversation.show_notice("")

    def _set_mode(self, mode: Mode) -> None:
        if (tools := notebook_tools_of(self.agent.function_registry)) is not None and mode in MODES:
            tools.mode = mode
        self._conversation.refresh()

    async def _complete(self, typed: str) -> None:
        self.send({"typed": typed, "suggestions": await self._draft.suggest(typed)})

    async def _ask(self, text: str, number: float) -> None:
        """Send the typed text. The page shows it as waiting until it was accepted or returned."""
        try:
            await self._draft.send(text)
        finally:
            self.send({"taken": number})

    async def _show_tab(self, tab: str) -> None:
        self._tab = tab
        self._show()
        if tab == TRACE and self._conversation.is_busy:  # otherwise it is already being read
            await self._read_trace()

    async def _save_notebook(self) -> None:
        self._notebook = await asyncio.to_thread(save_notebook, self.agent.trace, self._turns())
        await self._read_trace()

    def _turns(self) -> dict[str, str]:
        """The keys of the shown turns, by run."""
        runs = ((entry.run.get("run_id", ""), entry.key) for entry in self._conversation.entries)
        return {run_id: key for run_id, key in runs if run_id}

    async def _read_trace(self) -> None:
        """Show the current trace."""
        async with self._reading:
            try:
                shown = self.agent.trace, self._turns(), self._notebook
                self._trace = await asyncio.to_thread(trace_html, *shown)  # this may load pandas
            except Exception as error:
                log.warning("the trace can't be shown", exc_info=True)
                self._trace = render.note_html(f"The trace can't be shown: {type(error).__name__}: {error}")
        self.publish()

    # -- the page's content ------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Update all of the panel's content except for the turns."""
        conversation = self._conversation
        self._draft.follow()
        if self._tab == TRACE and not conversation.is_busy:
            conversation.run_on_loop(self._read_trace)
        status = conversation.status
        if (edited := self._draft.edited) is not None:
            status = EDITING if edited is conversation.entries[-1] else EDITING_EARLIER
        if not conversation.entries:
            status = status or offer_for(self.agent)
        self._own = {
            "tab": self._tab,
            "status": status,
            **self._draft.state(),
            "model": self._models.state(),
            "tools": tool_count(self.agent),
            "mode": mode_state(self.agent),
            "is_kept": is_kept(self.agent),
            **({"greeting": greeting(self.agent, ABOUT, data_in(get_ipython()))} if not conversation.entries else {}),
            **({"setup": setup_state(self.agent)} if self._tab == SETUP else {}),
        }

    def save(self) -> None:
        """Update the output that is saved in the notebook."""
        self._saved.update()

    def publish(self) -> int:
        """Send the changes to the page. Returns the number of characters sent."""
        trace = {"trace": self._trace} if self._tab == TRACE else {}
        state = {**self._conversation.state(), **self._own, **trace}
        patch = merge_patch(self._shown, state)
        self._shown = state  # before the patch is sent: a new page may get a part twice, but misses none
        if patch:
            self.send({"patch": patch})
        return len(json.dumps(patch))

    def _show(self) -> None:
        self.update()
        self.publish()

    # -- from cells ---------------------------------------------------------------------------------------------------

    def ask(self, question: str) -> Asked:
        """Send a prompt as if the user had typed it, but without expanding mentions and skill names. Returns
        immediately. Await the returned object to get the answer.

        >>> panel.ask("And by island?")                                     # doctest: +SKIP
        >>> result = await panel.ask("And by sex?")                         # doctest: +SKIP
        """
        check_type("panel.ask(question)", question, str, fix='Pass a string: panel.ask("Why?").')
        return Asked(asyncio.run_coroutine_threadsafe(self._answer_to(question), background_loop()))

    async def _answer_to(self, question: str) -> AgentResult:
        return await asyncio.shield(self._conversation.ask(question, self._draft.give_back))

    def close(self) -> None:
        """Remove the panel. The agent and its conversation stay."""
        conversation = self._conversation
        if self in conversation.panels:
            conversation.panels.remove(self)
            if not conversation.panels:
                release_conversation(conversation)
        super().close()

    def __repr__(self) -> str:
        return f"ChatPanel({self.agent!r})"

    def _ipython_display_(self) -> None:
        """Display the widget, and below it the conversation for readers without a kernel."""
        if getattr(get_ipython(), "kernel", None) is None:
            display({"text/plain": f"{self!r}\n\n{self._saved.text()}"}, raw=True)
            return
        bundle, _ = self._repr_mimebundle_() or ({}, {})
        display({**bundle, "text/html": "", "text/plain": repr(self)}, raw=True)
        self._saved.display()
