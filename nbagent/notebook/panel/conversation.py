"""The state and the actions that an agent's panels share. The panels stay in sync with the agent.

Clicks and events arrive on any thread. `PanelConversation.run_on_loop` moves them to the background loop, on which all
code of this module runs, including the prompts that a panel sends. Runs that cells start are reported to the agent's
observers, of which this module adds one.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from IPython import get_ipython

from nbagent.agent.agent import Agent
from nbagent.chat.approval import where_asked
from nbagent.chat.cell_link import asked_in
from nbagent.chat.entry import PanelEntry, past_turn
from nbagent.chat.patch import State
from nbagent.chat.recorded import Recorded
from nbagent.chat.throttle import Throttle
from nbagent.core import events
from nbagent.core.background import background_loop, note_main_loop
from nbagent.core.cells import cell_id_of, is_watched
from nbagent.core.current import NO_CELL, current, set_current
from nbagent.core.events import Event
from nbagent.core.history.branches import Branch
from nbagent.core.history.history import split_turns
from nbagent.core.messages import Content, FunctionCall, LLMMessage
from nbagent.core.render import markdown as render
from nbagent.core.results import AgentResult
from nbagent.errors import ConfigurationError
from nbagent.functions.approval import offer_default_approver
from nbagent.functions.elicitation import Question
from nbagent.functions.registry import FunctionDefinition
from nbagent.notebook.display.answer_buttons import answer_buttons
from nbagent.notebook.display.approval import Answer, ApprovalForm, NotebookApprover, asking_call_id
from nbagent.notebook.display.captured import watch_output
from nbagent.notebook.display.figures import show_figures_of
from nbagent.notebook.panel.meter import Meter
from nbagent.notebook.panel.skill_mentions import as_question

log = logging.getLogger("nbagent")

#: Seconds that a cell may run before the kernel's loop is probed, and seconds for the loop to respond.
PATIENCE = 1.0


@dataclass(eq=False, slots=True)
class PendingPrompt:
    """A panel's prompt that has not been answered yet."""

    entry: PanelEntry
    #: Called with the content of a prompt that was stopped before it was sent. Each panel has its own.
    give_back: Callable[[Content], None]
    task: asyncio.Task[AgentResult] = field(init=False)
    is_started: bool = False


class PanelConversation:
    """The state of one agent's conversation, and the actions of its `panels`."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        #: The progress bar of `agent.map`, as HTML.
        self._bar = ""
        #: The `ChatPanel`s that show it. Their module imports this one.
        self.panels: list[Any] = []
        self._throttle = Throttle(lambda: sum(panel.publish() for panel in self.panels))
        #: All of the state but the turns.
        self._frame: State = {}
        self.entries: list[PanelEntry] = []
        self.meter = Meter(agent)
        #: Errors outside runs.
        self.notice = ""
        #: The language of the browser that last showed a panel.
        self.language = ""
        #: The last answer or action, for screen readers.
        self.spoken = ""
        #: The last action's outcome, as the status until the next action.
        self._done = ""
        self._pending: list[PendingPrompt] = []
        self._running: dict[str, PanelEntry | None] = {}  # by run_id; None for a run that began before the first panel
        #: Failed or refused prompts, each with its conversation and the prompt in the history that it follows.
        self._failed: dict[PanelEntry, tuple[str, LLMMessage | None]] = {}
        #: The conversation and the branch that `entries` show.
        self._shown: tuple[str, Branch] | None = None
        self._events: deque[Event] = deque()
        self._is_scheduled = False
        self._actions: set[asyncio.Task[None]] = set()
        offer_default_approver(NotebookApprover(lambda: is_watched(get_ipython())))
        show_figures_of(agent)
        agent.observers.append(self._observe)
        agent.bar_watchers.append(self._on_bar)
        if getattr(get_ipython(), "kernel", None) is not None:
            note_main_loop()
        watch_output(get_ipython())
        self._cells = CellWatch(get_ipython(), self._on_cell_end, self._notify)
        self.run_on_loop(lambda: answer_buttons().offer(agent))
        self.run_on_loop(self.refresh)
        self.run_on_loop(render.markdown_to_html, "")  # loads the parser before the first answer needs it

    # -- from other threads -------------------------------------------------------------------------------------------

    def run_on_loop(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Call `action`, which may be async, on the background loop. If it fails, the panel shows the error."""
        if not sys.is_finalizing():  # panels are closed while the interpreter exits, when no thread can start
            background_loop().call_soon_threadsafe(self._start, action, arguments)

    def _observe(self, event: Event) -> None:
        self._events.append(event)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.run_on_loop(self._process_events)

    def _on_bar(self, page: str) -> None:
        self._bar = page
        self.run_on_loop(self._throttle.request)

    def _start(self, action: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._actions.add(task := asyncio.get_running_loop().create_task(self._run_action(action, arguments)))
        task.add_done_callback(self._actions.discard)

    async def _run_action(self, action: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        try:
            if asyncio.iscoroutine(outcome := action(*arguments)):
                await outcome
        except ConfigurationError as error:
            self.show_notice(str(error))
        except Exception as error:  # nobody would see an error of this task
            log.exception("the panel failed")
            self.show_notice(f"{type(error).__name__}: {error}")

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether the agent is running, for a cell or for a panel."""
        return bool(self._running)

    @property
    def is_idle(self) -> bool:
        """Whether no prompt is running or waiting, so the history can be changed."""
        return not self._running and not self._pending

    @property
    def status(self) -> str:
        """One line about the current activity."""
        if self._cells.is_blocked:
            return "The kernel is busy with a cell: clicks and prompts wait until it ends."
        n_waiting = sum(not prompt.is_started for prompt in self._pending)
        waiting = f"{n_waiting} more prompt{'s wait' if n_waiting > 1 else ' waits'}." if n_waiting else ""
        if self.is_busy and n_waiting == len(self._pending):
            return f"A cell is asking; the kernel's stop button stops it. {waiting}".rstrip()
        return waiting if n_waiting < len(self._pending) else self._done

    @property
    def editable(self) -> list[PanelEntry]:
        """The turns whose prompts can be edited now: turns in the history, and failed turns. Empty while a prompt is
        running or waiting.
        """
        if not self.is_idle:
            return []
        history = {id(message) for message in self.agent.conversation_history if message.role == "user"}
        return [entry for entry in self.entries if entry in self._failed or id(entry.message) in history]

    def find(self, key: str) -> PanelEntry | None:
        """The turn with this key."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def show_notice(self, notice: str) -> None:
        """Show an error. An empty string clears it."""
        self.notice = notice
        self._notify()

    def state(self) -> State:
        """The state that all panels share, as JSON data: the `turns` by key, their `order`, and the rest."""
        turns = {entry.key: entry.state() for entry in self.entries}
        bar = {"bar": self._bar} if self._bar else {}
        return {**self._frame, **bar, "turns": turns, "order": list(turns)}

    def _notify(self) -> None:
        for prompt in self._pending:
            if not prompt.is_started:
                prompt.entry.show_status(self._awaited(prompt))
        context, here = self.agent.context, self.agent.context.here
        self._frame = {
            "idle": self.is_idle,
            "pending": bool(self._pending),
            "said": self.spoken,
            "meter": self.meter.html(),
            "editable": [entry.key for entry in self.editable],
            "conversations": [[each.conversation_id, render.printable(each.title)] for each in context.conversations],
            "conversation": here.conversation_id,
            "can_begin": self.is_idle and bool(here.questions),
            **({"notice": self.notice} if self.notice else {}),
        }
        for panel in self.panels:
            panel.update()
            panel.save()
        self._throttle.now()

    # -- actions ------------------------------------------------------------------------------------------------------

    def ask(
        self, content: Content, give_back: Callable[[Content], None], replaced: PanelEntry | None = None
    ) -> asyncio.Task[AgentResult]:
        """Send a prompt once the agent has finished its current work. If `replaced` is given, the prompt becomes
        another version of that turn's prompt.

        Returns a task whose result is the answer.
        """
        entry = PanelEntry(as_question(content))
        if replaced in self.editable:
            if replaced in self._failed:
                entry.replaces = replaced.replaces
                self._remove(replaced)
            else:
                entry.replaces = replaced.message
        self.notice = self.spoken = ""
        prompt = PendingPrompt(entry, give_back)
        self._pending.append(prompt)
        self.entries.append(entry)
        prompt.task = asyncio.get_running_loop().create_task(self._run(prompt))
        prompt.task.add_done_callback(partial(self._finish, prompt))
        self._notify()
        return prompt.task

    def retry(self, key: str, give_back: Callable[[Content], None]) -> None:
        """Send a turn's prompt again, as another version of it."""
        entry = self.find(key)
        if entry in self.editable:
            self.ask(entry.message.content, give_back, replaced=entry)

    def branch(self, key: str) -> None:
        """Start another conversation with the turns up to this one. The previous conversation stays in the list."""
        entry = self.find(key)
        if entry is not None and self.is_idle:
            self.agent.context.new_conversation(after=entry.message)
            self.refresh()
            done = "This is another conversation with the turns up to here; the previous one is in the list."
            self._say(done, done)

    def go_to(self, conversation_id: str) -> None:
        """Show another conversation and continue it."""
        for branch in self.agent.context.conversations:
            if branch.conversation_id == conversation_id:
                self._switch(branch, branch.title)

    def show_version(self, key: str, step: int) -> None:
        """Show the version of a turn's prompt that is `step` places after the current version, if it exists."""
        entry = self.find(key)
        branches, place = entry.versions if entry is not None else ((), 0)
        if 0 <= place + step < len(branches):
            self._switch(branches[place + step], f"Version {place + step + 1} of {len(branches)}")

    def _switch(self, branch: Branch, said: str) -> None:
        context = self.agent.context
        if self.is_idle and branch in context.branches and branch is not context.here:
            context.switch(branch)
            self.refresh()
            self._say(said)

    def begin(self) -> None:
        """Start an empty conversation. The previous conversation stays in the list."""
        if self.is_idle:
            self.agent.context.new_conversation()
            self.refresh()
            self._say("A new conversation.")

    def _say(self, text: str, shown: str = "") -> None:
        self.spoken, self._done = text, shown
        self.show_notice("")

    def stop(self) -> None:
        """Cancel the panels' prompts. Text that has arrived stays, and waiting prompts return to the boxes of their
        panels.
        """
        for prompt in self._pending:
            prompt.task.cancel()

    async def _run(self, prompt: PendingPrompt) -> AgentResult:
        labels = current.get().labels
        if labels is None and self.agent.open_labels:  # typed while a cell is in such a block
            labels = self.agent.open_labels[-1]
        set_current(labels=labels, approver=partial(self._approve, prompt), has_no_cell_output=True)
        entry, origin = prompt.entry, {"source": "panel", **NO_CELL._asdict()}
        return await self.agent.chat_stream(entry.message, branch_at=entry.replaces, origin=origin).collect()

    def _finish(self, prompt: PendingPrompt, task: asyncio.Task[AgentResult]) -> None:
        """Handle the end of a prompt that was answered, failed or was stopped. A run's errors have already arrived as
        events.
        """
        self._process_events()
        self._pending.remove(prompt)
        entry = prompt.entry
        if not prompt.is_started and task.cancelled():
            self._remove(entry)
            prompt.give_back(entry.message.content)
        elif not prompt.is_started and (error := task.exception()) is not None:
            entry.show_status("")
            entry.show_failure(type(error).__name__, str(error))
            self._note_failed(entry)
        self._notify()

    def _awaited(self, prompt: PendingPrompt) -> str:
        """What an unsent prompt waits for."""
        before = self._pending[: self._pending.index(prompt)]
        running = [entry.run for entry in self._running.values() if entry is not None]
        if any(each.give_back != prompt.give_back for each in before):
            return "waiting for another panel's prompt"
        if before:
            return "waiting for the prompt before it"
        if running and running[0].get("source") != "panel":
            return f"waiting for the run {asked_in(running[0]).replace('cell', 'in cell')} to end"
        return "waiting for an earlier run" if self.is_busy else "waiting"

    def _note_failed(self, entry: PanelEntry) -> None:
        """Remember a failed prompt's place in the conversation."""
        history = {id(message) for message in self.agent.conversation_history}
        before = [each.message for each in self.entries[: self.entries.index(entry)] if id(each.message) in history]
        follows = entry.replaces or (before[-1] if before else None)
        self._failed[entry] = self.agent.context.here.conversation_id, follows

    async def _approve(self, prompt: PendingPrompt, call: FunctionCall, definition: FunctionDefinition) -> Answer:
        self._process_events()  # the run's start would discard what is shown from here on
        entry, form = prompt.entry, ApprovalForm(call, definition, where_asked(call, definition), self.language)
        key = asking_call_id(call)
        name = entry.add_below({"widget": form.box.model_id})
        try:
            with entry.transcript.call_waits(key, stays=isinstance(call, Question)):
                self._throttle.now()
                answer = await form.answer()
            if isinstance(answer, dict) and not isinstance(call, Question):
                entry.transcript.show_edited(key, answer)
            return answer
        finally:
            entry.remove_below(name)
            self._throttle.now()
            form.close()

    # -- in sync with the agent ---------------------------------------------------------------------------------------

    def _process_events(self) -> None:
        self._is_scheduled = False
        while self._events:
            event = self._events.popleft()
            run_id = event.metadata["run_id"]
            if isinstance(event, events.RunStarted):
                self._begin_entry(event)
                self._notify()
            elif run_id not in self._running:
                self._running[run_id] = None
                self._notify()
            if (entry := self._running[run_id]) is not None:
                waited = entry.transcript.status
                entry.feed(event)
                self._throttle.request(at_once=bool(waited and not entry.transcript.status))
            if isinstance(event, events.UsageReport):
                self.meter.count(run_id, event)
                self._notify()
            if isinstance(event, events.Done | events.Error | events.Interrupted):
                self._end_entry(self._running.pop(run_id), event)

    def _begin_entry(self, event: events.RunStarted) -> None:
        """Find or create the entry that shows this run."""
        run_id, messages = event.metadata["run_id"], [each for each in event.messages if each.role != "system"]
        if not messages:
            self._running[run_id] = None
            return
        self._done = ""
        waiting = [prompt for prompt in self._pending if not prompt.is_started]
        if waiting and event.metadata["source"] == "panel":
            waiting[0].is_started, entry = True, waiting[0].entry
            entry.message = messages[-1]
        else:
            known = (entry for entry in self.entries if entry.message is messages[-1])
            entry = next(known, None) or PanelEntry(messages[-1])
        if entry not in self.entries:
            self.entries.append(entry)
        cell_id, asking_cell = event.metadata.get("cell_id"), messages[-1].cell_id
        for other in [each for each in self.entries if each is not entry]:
            if other in self._failed:
                is_replaced = cell_id is not None and other.run.get("cell_id") == cell_id
            else:
                is_replaced = asking_cell is not None and other.message.cell_id == asking_cell
                entry.replaces = other.message if is_replaced else entry.replaces
            if is_replaced or other.message is entry.replaces:
                self._remove(other)  # if the new turn fails, the history has the old one again
        self._failed.pop(entry, None)
        entry.begin(event.metadata)
        self._running[run_id] = entry  # before the history is read: a quick failure has already left it
        self._sync_entries()

    def _end_entry(self, entry: PanelEntry | None, end: Event) -> None:
        if entry is not None:
            is_kept = any(each is entry.message for each in self.agent.conversation_history)
            is_refused = isinstance(end, events.Done) and end.result is not None and end.result.status == "blocked"
            if not is_kept and (is_refused or isinstance(end, events.Error)):
                self._note_failed(entry)
            elif entry.replaces is not None and entry.message.cell_id is not None:  # later turns stay
                for failed, (conversation, follows) in self._failed.items():
                    if follows is entry.replaces:
                        self._failed[failed] = conversation, entry.message
            self.spoken = entry.spoken_text()
        else:  # the run began before the first panel: show its turn from the history
            waiting = [prompt.entry for prompt in self._pending]
            shown = [each for each in self.entries if each not in waiting and each not in self._failed]
            for last in shown[-1:]:
                self._remove(last)
        self.refresh()

    def _on_cell_end(self, cell_id: str | None) -> None:
        answer_buttons().newest_cell = cell_id or ""
        self.refresh()

    def refresh(self) -> None:
        """Show the current history. Cells, undo, load and trimming can also change it."""
        if self._sync_entries() and not self._running and not self._events:
            self.meter = Meter(self.agent)  # a restored conversation has been paid for
        self._notify()

    def _sync_entries(self) -> bool:
        """Keep the entries whose messages are in the history, add missing ones, and drop undone ones.

        Turns that were trimmed from the start of a long conversation stay visible. Failed prompts appear below the
        prompt that they followed. Returns whether past turns were added.
        """
        context, here = self.agent.context, self.agent.context.here
        history = {id(turn[0]): turn for turn in split_turns(here.messages)}
        under_way = [prompt.entry for prompt in self._pending]
        under_way += [entry for entry in self._running.values() if entry is not None]
        known = {id(entry.message): entry for entry in self.entries}
        surviving = [index for index, entry in enumerate(self.entries) if id(entry.message) in history]
        shown_conversation, shown_branch = self._shown or (here.conversation_id, here)
        is_same_conversation = shown_conversation == here.conversation_id
        is_same_branch = is_same_conversation and shown_branch is here
        others = [] if is_same_branch else [branch for branch in context.branches if branch is not here]
        in_others = {id(message) for branch in others for message in branch.messages}
        trimmed = self.entries[: surviving[0]] if surviving and is_same_conversation else []
        trimmed = [entry for entry in trimmed if id(entry.message) not in in_others and entry not in self._failed]
        if past := [turn for key, turn in history.items() if key not in known]:
            recorded = Recorded(self.agent.trace)
            known |= {id(turn[0]): past_turn(turn, recorded) for turn in past}
        followers: dict[int, list[PanelEntry]] = {}
        for entry, (conversation, follows) in self._failed.items():
            if conversation == here.conversation_id:
                followers.setdefault(id(follows), []).append(entry)
        entries = followers.get(id(None), [])
        for entry in (*trimmed, *(known[key] for key in history)):
            entries += [entry, *followers.get(id(entry.message), [])]
        self.entries = list(dict.fromkeys([*entries, *under_way]))
        self._shown = here.conversation_id, here
        for entry in self.entries:
            entry.show_versions(context.versions(entry.message), here)
        return bool(past)

    def _remove(self, entry: PanelEntry) -> None:
        self._failed.pop(entry, None)
        if entry in self.entries:
            self.entries.remove(entry)

    def close(self) -> None:
        """Stop following the agent."""
        self.stop()
        self._cells.close()
        if self._observe in self.agent.observers:
            self.agent.observers.remove(self._observe)
            self.agent.bar_watchers.remove(self._on_bar)


_conversations: WeakKeyDictionary[Agent, PanelConversation] = WeakKeyDictionary()


def conversation_of(agent: Agent) -> PanelConversation:
    """The agent's conversation, shared by all its panels."""
    if agent not in _conversations:
        _conversations[agent] = PanelConversation(agent)
    return _conversations[agent]


def agents_in_panels() -> list[Agent]:
    """The agents whose conversations are shown in panels."""
    return list(_conversations)


def release_conversation(conversation: PanelConversation) -> None:
    """Close the conversation after its last panel has been closed."""
    _conversations.pop(conversation.agent, None)
    conversation.run_on_loop(conversation.close)


class CellWatch:
    """Watches the notebook's cells. Calls `on_end(cell_id)` after each cell, and `on_change()` when `is_blocked`
    changes.

    Both functions are called on the background loop. While a cell runs code that does not await anything, the kernel is
    blocked and handles no clicks.
    """

    def __init__(self, shell: Any, on_end: Callable[[str | None], None], on_change: Callable[[], None]) -> None:
        self.is_blocked = False
        self._shell = shell
        self._on_end = on_end
        self._on_change = on_change
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
            kernel_loop = asyncio.get_running_loop()
        except RuntimeError:  # a terminal: there are no clicks
            return
        background_loop().call_soon_threadsafe(self._start, kernel_loop)

    def _cell_ends(self, *_: Any) -> None:
        background_loop().call_soon_threadsafe(self._stop, cell_id_of(self._shell))

    def _start(self, kernel_loop: asyncio.AbstractEventLoop) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch(kernel_loop))

    def _stop(self, cell_id: str | None) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._set_blocked(False)
        self._on_end(cell_id)

    async def _watch(self, kernel_loop: asyncio.AbstractEventLoop) -> None:
        """Probe the kernel's loop: it responds while an async cell awaits, but not during any other cell."""
        while True:
            await asyncio.sleep(PATIENCE)
            is_free = asyncio.Event()
            here = asyncio.get_running_loop()
            kernel_loop.call_soon_threadsafe(here.call_soon_threadsafe, is_free.set)
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
