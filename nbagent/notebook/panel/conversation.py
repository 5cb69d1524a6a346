"""What all panels of one agent share: the conversation as widgets, kept in step with the agent, and what can be asked.

Clicks and events come on any thread. Everything here happens on the background loop, where also the runs go that a
panel starts; `Conversation.call` hands over to it. The runs of cells are seen through the agent's observers.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import ipywidgets as widgets
from IPython import get_ipython

from nbagent.agent import Agent
from nbagent.core import events
from nbagent.core.background import background_loop
from nbagent.core.content.images import image_part
from nbagent.core.events import Event
from nbagent.core.messages import Content, FunctionCall, LLMMessage
from nbagent.notebook.display.approval import Answer, ApprovalForm, NotebookApprover, ask_instead
from nbagent.notebook.display.figures import show_figure, showing_figures, uses_pyplot
from nbagent.notebook.display.recorded import Recorded
from nbagent.notebook.host import is_watched
from nbagent.notebook.panel.cell_watch import CellWatch
from nbagent.notebook.panel.entry import Entry, transcript_of, turns
from nbagent.notebook.panel.meter import Meter

log = logging.getLogger("nbagent")

QUEUED = "Waits for the run that goes on in a cell."


@dataclass(eq=False, slots=True)
class Ask:
    """Something that a panel asked and that is not answered yet."""

    entry: Entry
    task: asyncio.Task[None] | None = None
    started: bool = False


class Conversation:
    """The widgets that show one agent's conversation (`log`), and the actions of its panels.

    `changed` are called when what can be done may have changed.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.log = widgets.VBox().add_class("nbagent-log")
        self.changed: list[Callable[[], None]] = []
        self.entries: list[Entry] = []
        self.meter = Meter(agent)
        #: What went wrong beside the runs.
        self.notice = ""
        #: The last answer, for those who hear it.
        self.said = ""
        self._asks: list[Ask] = []
        self._open: dict[str, Entry | None] = {}
        self._news: deque[Event] = deque()
        self._woken = False
        executor = agent.tool_executor
        executor.approver = executor.approver or NotebookApprover(lambda: is_watched(get_ipython()))
        if executor.call_context is None:
            executor.call_context, executor.runs_exclusively = showing_figures, uses_pyplot
        agent.observers.append(self._observe)
        self._cells = CellWatch(get_ipython(), self.refresh, self._change)
        self.call(self.refresh)

    # -- from other threads -------------------------------------------------------------------------------------------

    def call(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Do this on the background loop. What goes wrong is shown in the panel."""
        background_loop().call_soon_threadsafe(self._guarded, action, arguments)

    def _observe(self, event: Event) -> None:
        self._news.append(event)
        if not self._woken:
            self._woken = True
            self.call(self._read_news)

    def _guarded(self, action: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            action(*arguments)
        except Exception as error:  # a callback's error would be seen by nobody
            log.exception("the panel failed")
            self.tell(f"{type(error).__name__}: {error}")

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a run of this agent goes on, in a cell or here."""
        return bool(self._open)

    @property
    def asking(self) -> bool:
        """Whether there is something to stop here."""
        return bool(self._asks)

    @property
    def status(self) -> str:
        """One quiet line about what goes on."""
        if self._cells.blocked:
            return "The kernel is busy with a cell: what you click or send waits for its end."
        waiting = sum(not ask.started for ask in self._asks)
        mine = any(ask.started for ask in self._asks)
        if self.busy and not mine:
            elsewhere = "A cell is asking; the kernel's stop button stops it."
            return f"{elsewhere} {waiting} more after it." if waiting else elsewhere
        return f"{waiting} more after this." if waiting and mine else ""

    @property
    def last(self) -> Entry | None:
        """The turn that can be retried or edited: the last, while nothing goes on."""
        idle = not self.busy and not self.asking
        return self.entries[-1] if idle and self.entries and self.entries[-1].message.role == "user" else None

    def tell(self, notice: str) -> None:
        """Show what went wrong, or nothing any more."""
        self.notice = notice
        self._change()

    def _change(self) -> None:
        boxes = tuple(entry.box for entry in self.entries)
        if self.log.children != boxes:
            self.log.children = boxes
        for changed in self.changed:
            changed()

    # -- actions ------------------------------------------------------------------------------------------------------

    def ask(self, content: Content, instead_of: Entry | None = None) -> None:
        """Ask the agent, after what it is doing; `instead_of` is a turn that is taken back first."""
        if instead_of is not None and instead_of is self.last:
            self.agent.context.undo(to=instead_of.message)
            self._drop(instead_of)
        if self.entries and not self.entries[-1].sent and not self._asks:
            self._drop(self.entries[-1])
        self.notice = self.said = ""
        entry = Entry(LLMMessage("user", content))
        entry.waiting = QUEUED if self.busy else "Waiting…"
        entry.refresh()
        ask = Ask(entry)
        self._asks.append(ask)
        self.entries.append(entry)
        ask.task = asyncio.get_running_loop().create_task(self._run(ask))
        ask.task.add_done_callback(functools.partial(self._over, ask))
        self._change()

    def retry(self) -> None:
        """Ask the last question again; its turn is replaced."""
        if (last := self.last) is not None:
            self.ask(last.message.content, instead_of=last)

    def stop(self) -> None:
        """Cancel what the panels asked. What was said so far stays; what waits is not asked."""
        for ask in self._asks:
            if ask.task is not None:
                ask.task.cancel()

    async def _run(self, ask: Ask) -> None:
        ask_instead.set(functools.partial(self._approve, ask))
        show_figure.set(lambda figure: self.call(ask.entry.place, image_part(figure)))
        await self.agent.chat_stream(ask.entry.message.content, origin={"source": "panel"}).collect()

    def _over(self, ask: Ask, task: asyncio.Task[None]) -> None:
        """An answer is there, or it failed, or it was stopped. Errors of runs came as events."""
        self._read_news()
        self._asks.remove(ask)
        error = None if task.cancelled() else task.exception()
        if not ask.started:
            ask.entry.waiting = "Not asked." if error is None else ""
            if error is not None:
                ask.entry.fail(error)
            ask.entry.refresh()
        self._change()

    async def _approve(self, ask: Ask, call: FunctionCall) -> Answer:
        question = ApprovalForm(call)
        ask.entry.below.append(question.box)
        try:
            with ask.entry.transcript.waiting_for_approval(call):
                ask.entry.refresh()
                return await question.answer()
        finally:
            if question.box in ask.entry.below:
                ask.entry.below.remove(question.box)
            ask.entry.refresh()
            question.close()

    # -- in step with the agent ---------------------------------------------------------------------------------------

    def _read_news(self) -> None:
        self._woken = False
        while self._news:
            event = self._news.popleft()
            run_id = event.metadata["run_id"]
            if isinstance(event, events.RunStarted):
                self._open[run_id] = self._begun(event)
                self._change()
            elif run_id not in self._open:
                self._open[run_id] = None  # it began before there was a panel
                self._change()
            if (entry := self._open[run_id]) is not None:
                entry.feed(event)
            if isinstance(event, events.UsageReport):
                self.meter.count(run_id, event)
                self._change()
            if isinstance(event, events.Done | events.Error | events.Interrupted):
                self._ended(self._open.pop(run_id))

    def _begun(self, event: events.RunStarted) -> Entry | None:
        """The entry that shows this run."""
        said = [message for message in event.messages if message.role != "system"]
        if not said:
            return None
        question = said[-1]
        ask = (
            next((ask for ask in self._asks if not ask.started), None) if event.metadata["source"] == "panel" else None
        )
        if ask is not None:
            ask.started, entry = True, ask.entry
            entry.message = question
        else:
            entry = next((entry for entry in self.entries if entry.message is question), None) or Entry(question)
        if entry not in self.entries:
            self.entries.append(entry)
        entry.sent = True
        self._match()
        entry.begin(_caption(event.metadata))
        return entry

    def _ended(self, entry: Entry | None) -> None:
        if entry is None and self.entries:  # seen in part only: shown as the history has it
            self._drop(self.entries[-1])
        if entry is not None:
            self.said = entry.spoken()
        self.refresh()

    def refresh(self) -> None:
        """Show the history as it is now: cells, undo, load and trimming change it, too."""
        self._match()
        self._change()

    def _match(self) -> None:
        """Keep entries whose messages are still there, make those that are missing, drop what was taken back.

        What was trimmed at the beginning of a long conversation stays in sight.
        """
        history = {id(turn[0]): turn for turn in turns(list(self.agent.conversation_history))}
        pending = [ask.entry for ask in self._asks]
        unsaid = [entry for entry in self.entries[-1:] if not entry.sent]
        known = {id(entry.message): entry for entry in self.entries}
        surviving = [index for index, entry in enumerate(self.entries) if id(entry.message) in history]
        trimmed = self.entries[: surviving[0]] if surviving else []
        recorded = Recorded(self.agent.trace if history.keys() - known else None)
        matched = [known.get(key) or self._from_history(turn, recorded) for key, turn in history.items()]
        rest = [entry for entry in (*pending, *unsaid) if entry not in matched and entry not in trimmed]
        before, self.entries = self.entries, [*trimmed, *matched, *dict.fromkeys(rest)]
        for entry in before:
            if entry not in self.entries:
                entry.close()

    def _from_history(self, turn: list[LLMMessage], recorded: Recorded) -> Entry:
        entry = Entry(turn[0], transcript_of(turn, recorded), _caption(recorded.run(turn)))
        entry.sent = True
        entry.refresh()
        return entry

    def _drop(self, entry: Entry) -> None:
        if entry in self.entries:
            self.entries.remove(entry)
            entry.close()

    def close(self) -> None:
        """Stop listening and take the widgets away."""
        self.stop()
        self._cells.close()
        if self._observe in self.agent.observers:
            self.agent.observers.remove(self._observe)
        for entry in self.entries:
            entry.close()
        self.log.close()


def _caption(origin: Mapping[str, Any]) -> str:
    """Where a question came from, where that is known and was not the panel."""
    if origin.get("source") in (None, "panel"):
        return ""
    count = origin.get("execution_count")
    return f"cell [{count}]" if count else "from code"


_of: WeakKeyDictionary[Agent, Conversation] = WeakKeyDictionary()


def conversation_of(agent: Agent) -> Conversation:
    """The one conversation that all panels of the agent show."""
    if agent not in _of:
        _of[agent] = Conversation(agent)
    return _of[agent]


def agents_in_panels() -> list[Agent]:
    """The agents whose conversations panels show."""
    return list(_of)


def let_go(conversation: Conversation) -> None:
    """The last panel was closed."""
    _of.pop(conversation.agent, None)
    conversation.call(conversation.close)
