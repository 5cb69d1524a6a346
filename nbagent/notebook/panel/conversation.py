"""What all panels of an agent share: the conversation as widgets, kept in sync with the agent, and the actions.

Clicks and events arrive on any thread; `Conversation.run_on_loop` moves them to the background loop, where everything
here happens and where runs started by a panel execute. Runs of cells are followed through the agent's observers.
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
from nbagent.core.history.context import split_turns
from nbagent.core.messages import Content, FunctionCall, LLMMessage, Usage
from nbagent.notebook.display.approval import Answer, ApprovalForm, NotebookApprover, ask_instead
from nbagent.notebook.display.figures import show_figure, showing_figures, uses_pyplot
from nbagent.notebook.display.recorded import Recorded
from nbagent.notebook.host import is_watched
from nbagent.notebook.panel.entry import Entry, transcript_of

log = logging.getLogger("nbagent")

#: Seconds that a cell may run before the kernel is asked whether it is free, and that its answer may take.
PATIENCE = 1.0


@dataclass(eq=False, slots=True)
class PendingQuestion:
    """A question that a panel sent and that is not answered yet."""

    entry: Entry
    task: asyncio.Task[None] | None = None
    is_started: bool = False


class Conversation:
    """The widgets that show one agent's conversation (`log`), and the actions of its panels.

    Every function in `listeners` is called when the state that panels show may have changed.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.log = widgets.VBox().add_class("nbagent-log")
        self.listeners: list[Callable[[], None]] = []
        self.entries: list[Entry] = []
        self.meter = Meter(agent)
        #: What went wrong outside of a run.
        self.notice = ""
        #: The last answer, for screen readers.
        self.spoken_answer = ""
        self._pending: list[PendingQuestion] = []
        self._running: dict[str, Entry | None] = {}  # by run_id; None for a run that began before the first panel
        self._events: deque[Event] = deque()
        self._is_scheduled = False
        executor = agent.tool_executor
        executor.approver = executor.approver or NotebookApprover(lambda: is_watched(get_ipython()))
        if executor.call_context is None:
            executor.call_context, executor.runs_exclusively = showing_figures, uses_pyplot
        agent.observers.append(self._observe)
        self._cells = CellWatch(get_ipython(), self.refresh, self._notify)
        self.run_on_loop(self.refresh)

    # -- from other threads -------------------------------------------------------------------------------------------

    def run_on_loop(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Call `action` on the background loop. If it fails, the panel shows the error."""
        background_loop().call_soon_threadsafe(self._run_safely, action, arguments)

    def _observe(self, event: Event) -> None:
        self._events.append(event)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.run_on_loop(self._process_events)

    def _run_safely(self, action: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            action(*arguments)
        except Exception as error:  # nobody would see an error of a callback
            log.exception("the panel failed")
            self.show_notice(f"{type(error).__name__}: {error}")

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a run of this agent is under way, in a cell or here."""
        return bool(self._running)

    @property
    def has_pending(self) -> bool:
        """Whether `stop` has something to stop."""
        return bool(self._pending)

    @property
    def status(self) -> str:
        """One line about what is going on."""
        if self._cells.is_blocked:
            return "The kernel is busy with a cell: clicks and questions wait until it ends."
        n_waiting = sum(not question.is_started for question in self._pending)
        waiting = f"{n_waiting} more question{'s wait' if n_waiting > 1 else ' waits'}." if n_waiting else ""
        if self.is_busy and n_waiting == len(self._pending):
            return f"A cell is asking; the kernel's stop button stops it. {waiting}".rstrip()
        return waiting if n_waiting < len(self._pending) else ""

    @property
    def last_turn(self) -> Entry | None:
        """The turn that can be retried or edited: the last one, while the agent is idle."""
        if self.is_busy or self._pending or not self.entries or self.entries[-1].message.role != "user":
            return None
        return self.entries[-1]

    def show_notice(self, notice: str) -> None:
        """Show what went wrong; `""` clears it."""
        self.notice = notice
        self._notify()

    def _notify(self) -> None:
        boxes = tuple(entry.box for entry in self.entries)
        if self.log.children != boxes:
            self.log.children = boxes
        for listener in self.listeners:
            listener()

    # -- actions ------------------------------------------------------------------------------------------------------

    def ask(self, content: Content, replaced: Entry | None = None) -> None:
        """Ask the agent, after what it is doing. The turn `replaced` is undone first."""
        if replaced is not None and replaced is self.last_turn:
            self.agent.context.undo(to=replaced.message)
            self._remove(replaced)
        if self.entries and not self.entries[-1].is_sent and not self._pending:
            self._remove(self.entries[-1])  # a question that was stopped, or failed, before its run began
        self.notice = self.spoken_answer = ""
        entry = Entry(LLMMessage("user", content))
        entry.status = "Waiting for the run in a cell to end." if self.is_busy else "Waiting…"
        entry.refresh()
        question = PendingQuestion(entry)
        self._pending.append(question)
        self.entries.append(entry)
        question.task = asyncio.get_running_loop().create_task(self._run(question))
        question.task.add_done_callback(functools.partial(self._finish, question))
        self._notify()

    def retry(self) -> None:
        """Ask the last question again; the new turn replaces the old one."""
        if (last := self.last_turn) is not None:
            self.ask(last.message.content, replaced=last)

    def stop(self) -> None:
        """Cancel the panels' questions. The text so far stays; questions that still wait are not sent."""
        for question in self._pending:
            if question.task is not None:
                question.task.cancel()

    async def _run(self, question: PendingQuestion) -> None:
        ask_instead.set(functools.partial(self._approve, question))
        show_figure.set(lambda figure: self.run_on_loop(question.entry.add_image, image_part(figure)))
        await self.agent.chat_stream(question.entry.message.content, origin={"source": "panel"}).collect()

    def _finish(self, question: PendingQuestion, task: asyncio.Task[None]) -> None:
        """The question was answered, failed, or was stopped. Errors of a run arrived as events before."""
        self._process_events()
        self._pending.remove(question)
        error = None if task.cancelled() else task.exception()
        if not question.is_started:
            question.entry.status = "Not sent." if error is None else ""
            if error is not None:
                question.entry.show_error(error)
            question.entry.refresh()
        self._notify()

    async def _approve(self, pending: PendingQuestion, call: FunctionCall) -> Answer:
        entry, form = pending.entry, ApprovalForm(call)
        entry.below.append(form.box)
        try:
            with entry.transcript.waiting_for_approval(call):
                entry.refresh()
                return await form.answer()
        finally:
            if form.box in entry.below:
                entry.below.remove(form.box)
            entry.refresh()
            form.close()

    # -- in sync with the agent ---------------------------------------------------------------------------------------

    def _process_events(self) -> None:
        self._is_scheduled = False
        while self._events:
            event = self._events.popleft()
            run_id = event.metadata["run_id"]
            if isinstance(event, events.RunStarted):
                self._running[run_id] = self._begin_entry(event)
                self._notify()
            elif run_id not in self._running:
                self._running[run_id] = None
                self._notify()
            if (entry := self._running[run_id]) is not None:
                entry.feed(event)
            if isinstance(event, events.UsageReport):
                self.meter.count(run_id, event)
                self._notify()
            if isinstance(event, events.Done | events.Error | events.Interrupted):
                self._end_entry(self._running.pop(run_id))

    def _begin_entry(self, event: events.RunStarted) -> Entry | None:
        """The entry that shows this run."""
        messages = [message for message in event.messages if message.role != "system"]
        if not messages:
            return None
        waiting = [question for question in self._pending if not question.is_started]
        if waiting and event.metadata["source"] == "panel":
            waiting[0].is_started, entry = True, waiting[0].entry
            entry.message = messages[-1]
        else:
            known = (entry for entry in self.entries if entry.message is messages[-1])
            entry = next(known, None) or Entry(messages[-1])
        if entry not in self.entries:
            self.entries.append(entry)
        entry.is_sent = True
        self._sync_entries()
        entry.begin(_caption(event.metadata))
        return entry

    def _end_entry(self, entry: Entry | None) -> None:
        if entry is not None:
            self.spoken_answer = entry.spoken_text()
        elif self.entries:  # only the end of the run was seen: show the turn from the history instead
            self._remove(self.entries[-1])
        self.refresh()

    def refresh(self) -> None:
        """Show the history as it is now: cells, undo, load and trimming change it, too."""
        self._sync_entries()
        self._notify()

    def _sync_entries(self) -> None:
        """Keep the entries whose messages are in the history, add the missing ones, drop those that were undone.

        Turns that were trimmed from the beginning of a long conversation stay visible.
        """
        history = {id(turn[0]): turn for turn in split_turns(list(self.agent.conversation_history))}
        pending = [question.entry for question in self._pending]
        unsent = [entry for entry in self.entries[-1:] if not entry.is_sent]
        known = {id(entry.message): entry for entry in self.entries}
        surviving = [index for index, entry in enumerate(self.entries) if id(entry.message) in history]
        trimmed = self.entries[: surviving[0]] if surviving else []
        recorded = Recorded(self.agent.trace if history.keys() - known else None)
        matched = [known.get(key) or _past_entry(turn, recorded) for key, turn in history.items()]
        rest = [entry for entry in (*pending, *unsent) if entry not in matched and entry not in trimmed]
        before, self.entries = self.entries, [*trimmed, *matched, *dict.fromkeys(rest)]
        for entry in before:
            if entry not in self.entries:
                entry.close()

    def _remove(self, entry: Entry) -> None:
        if entry in self.entries:
            self.entries.remove(entry)
            entry.close()

    def close(self) -> None:
        """Stop following the agent and close the widgets."""
        self.stop()
        self._cells.close()
        if self._observe in self.agent.observers:
            self.agent.observers.remove(self._observe)
        for entry in self.entries:
            entry.close()
        self.log.close()


def _past_entry(turn: list[LLMMessage], recorded: Recorded) -> Entry:
    entry = Entry(turn[0], transcript_of(turn, recorded), _caption(recorded.run(turn)))
    entry.is_sent = True
    entry.refresh()
    return entry


def _caption(origin: Mapping[str, Any]) -> str:
    """Where a question came from, if not from the panel."""
    if origin.get("source") in (None, "panel"):
        return ""
    count = origin.get("execution_count")
    return f"cell [{count}]" if count else "from code"


_conversations: WeakKeyDictionary[Agent, Conversation] = WeakKeyDictionary()


def conversation_of(agent: Agent) -> Conversation:
    """The one conversation that all panels of the agent show."""
    if agent not in _conversations:
        _conversations[agent] = Conversation(agent)
    return _conversations[agent]


def agents_in_panels() -> list[Agent]:
    """The agents whose conversations are shown in panels."""
    return list(_conversations)


def release_conversation(conversation: Conversation) -> None:
    """Close the conversation after its last panel."""
    _conversations.pop(conversation.agent, None)
    conversation.run_on_loop(conversation.close)


class CellWatch:
    """Watches the notebook's cells: `on_end` is called after each cell, `on_change` when `is_blocked` changes.

    Both are called on the background loop. A blocked kernel takes no clicks: a cell runs code that does not await.
    """

    def __init__(self, shell: Any, on_end: Callable[[], None], on_change: Callable[[], None]) -> None:
        self.is_blocked = False
        self._shell = shell
        self._on_end = on_end
        self._on_change = on_change
        self._kernel_loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        if shell is not None:
            shell.events.register("pre_run_cell", self._cell_starts)
            shell.events.register("post_run_cell", self._cell_ends)

    def close(self) -> None:
        """Stop watching."""
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._cell_starts)
            self._shell.events.unregister("post_run_cell", self._cell_ends)
            self._shell = None

    def _cell_starts(self, *_: Any) -> None:
        try:
            self._kernel_loop = asyncio.get_running_loop()
        except RuntimeError:  # a terminal: there are no clicks
            return
        background_loop().call_soon_threadsafe(self._start)

    def _cell_ends(self, *_: Any) -> None:
        background_loop().call_soon_threadsafe(self._stop)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._set_blocked(False)
        self._on_end()

    async def _watch(self) -> None:
        """Call back through the kernel's loop: this works while an async cell awaits, but not in any other cell."""
        while self._kernel_loop is not None:
            await asyncio.sleep(PATIENCE)
            is_free = asyncio.Event()
            here = asyncio.get_running_loop()
            self._kernel_loop.call_soon_threadsafe(here.call_soon_threadsafe, is_free.set)
            try:
                async with asyncio.timeout(PATIENCE):
                    await is_free.wait()
            except TimeoutError:
                self._set_blocked(True)
                await is_free.wait()
            self._set_blocked(False)

    def _set_blocked(self, is_blocked: bool) -> None:
        if is_blocked != self.is_blocked:
            self.is_blocked = is_blocked
            self._on_change()


class Meter:
    """Counts the agent's tokens and dollars: first from its trace, from then on from its events.

    It also measures the last run against the agent's limits.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._tokens = self._run_tokens = 0
        self._cost: float | None = 0.0
        self._run_cost: float | None = 0.0
        self._run_id = ""
        if any(message.role == "assistant" for message in agent.conversation_history):
            calls = agent.trace.calls  # loads pandas, so only if there is something to count
            self._tokens, self._cost = _sums(calls)
            last = calls["run_id"].iloc[-1:]
            self._run_id = "".join(last)
            self._run_tokens, self._run_cost = _sums(calls[calls["run_id"].isin(last)])

    def count(self, run_id: str, event: Event) -> None:
        """Add the usage of a request."""
        if run_id != self._run_id:
            self._run_id, self._run_tokens, self._run_cost = run_id, 0, 0.0
        cost = event.metadata.get("cost_usd")
        tokens = Usage(**{key: event.metadata.get(key) or 0 for key in Usage().to_dict()}).total_tokens
        self._tokens, self._run_tokens = self._tokens + tokens, self._run_tokens + tokens
        self._cost = None if self._cost is None or cost is None else self._cost + cost
        self._run_cost = None if self._run_cost is None or cost is None else self._run_cost + cost

    def html(self) -> str:
        """One line. Limits are limits of a run, so a bar shows the share that the last run used."""
        shown = [f"{self._tokens:,} tokens"] if self._tokens else []
        if self._cost:
            shown.append(f"${self._cost:.4f}")
        limits = self._agent.limits
        if limits.max_cost is not None:
            spent = "?" if self._run_cost is None else f"${self._run_cost:.3f}"
            shown.append(_bar(f"{spent} of ${limits.max_cost:g}", self._run_cost or 0.0, limits.max_cost))
        if limits.max_total_tokens is not None:
            text = f"{self._run_tokens:,} of {limits.max_total_tokens:,}"
            shown.append(_bar(text, self._run_tokens, limits.max_total_tokens))
        spans = "".join(f"<span>{part}</span>" for part in shown)
        return f'<div class="nbagent-meter" title="Bar: the share of its limit that the last run used">{spans}</div>'


def _sums(calls: Any) -> tuple[int, float | None]:
    """Tokens and dollars of some requests; no dollars if a price is unknown."""
    cost = calls["cost_usd"]
    return int(calls["total_tokens"].sum()), None if cost.isna().any() else float(cost.sum())


def _bar(text: str, part: float, whole: float) -> str:
    share = min(100.0, 100 * part / whole) if whole else 100.0
    return f'{text}<i class="nbagent-bar"><b style="width:{share:.0f}%"></b></i>'
