"""Keeps the notebook agent's conversation and trace in two files next to the notebook: `%agent keep`.

For `analysis.ipynb`, `analysis.agent.json` has the conversation with all branches, as `agent.save` writes it, and
`analysis.agent.sqlite` has the trace, as `trace.stream_to` writes it. Neither contains secrets. A thread writes both
files after each turn, so no answer waits for the disk. At its end, a cell waits until the thread has finished, but only
briefly. A third file is locked while this kernel keeps the conversation.
"""

from __future__ import annotations

import atexit
import logging
import os
import sqlite3
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from nbagent.agent.agent import Agent
from nbagent.core import events
from nbagent.core.browser import check_possible
from nbagent.core.events import Event
from nbagent.core.file_lock import locked
from nbagent.core.history import saved
from nbagent.core.history.history import split_turns
from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.providers.http.redaction import Redactor
from nbagent.trace import environment
from nbagent.trace.store import TraceFile
from nbagent.trace.trace import Trace

log = logging.getLogger("nbagent")

#: Seconds that the end of a cell waits for the files if the disk is slow.
WAIT_S = 5.0


def notebook_path(shell: Any) -> Path | None:
    """The path of the notebook's file; None if unknown. The Jupyter server passes it to the kernel, and VS Code sets a
    variable.
    """
    name = shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME")
    if not name:
        return None
    path = Path(name)
    return path if path.is_absolute() else Path.cwd() / path.name


def conversation_path(notebook: Path) -> Path:
    """The path of the file for a notebook's conversation.

    >>> conversation_path(Path("analysis.ipynb")).name
    'analysis.agent.json'
    """
    return notebook.with_suffix(".agent.json")


def trace_path(conversation: Path) -> Path:
    """The path of the file for this conversation's trace."""
    return conversation.with_suffix(".sqlite")


def turns_only_in(messages: Sequence[LLMMessage], others: Sequence[LLMMessage]) -> list[list[LLMMessage]]:
    """The turns in `messages` whose first message is not in `others`."""
    ids = {message.message_id for message in others}
    return [
        turn
        for turn in split_turns(messages)
        if not (turn[0].message_id in ids if turn[0].message_id else turn[0] in others)
    ]


def kept_now(agent: Agent) -> saved.Saved:
    """The agent's current conversations with their branches."""
    context = agent.context
    here = context.here
    branches = [replace(each, messages=list(each.messages)) for each in context.branches]
    place = next(place for place, each in enumerate(context.branches) if each is here)
    return saved.Saved(list(agent.conversation_history), branches, branches[place])


def all_messages(kept: saved.Saved) -> list[LLMMessage]:
    """The messages of all branches."""
    return list({id(message): message for branch in kept.branches for message in branch.messages}.values())


class Keeper:
    """Writes the conversation of the agent in the variable `agent` to `path`, and its trace next to it.

    The keeper starts immediately and stops with `end()`. Raises `ConfigurationError` if another kernel keeps its
    conversation at `path`, or if the folder is not writable.
    """

    def __init__(self, shell: Any, path: Path) -> None:
        check_possible("%agent keep", "a thread", "Write `agent.save('conversation.json')` in a cell.")
        self.path = path
        #: A sentence for panels about the conversation that `%agent restore` would restore; "" if there is none.
        self.offer = ""
        self._shell = shell
        self._held = ExitStack()
        self._lock()
        self._writer = ThreadPoolExecutor(1, "nbagent-keep")
        self._newest: Future[None] | None = None
        self._number = 0
        self._agent: Agent | None = None
        self._running: set[str] = set()  # run_ids
        #: The last state that was submitted for writing, to detect changes.
        self._noted: Any = None
        # -- from here on, only for the writer's thread
        #: The agent whose conversation is in the files; None until they are written.
        self._owner: Agent | None = None
        self._trace: Trace | None = None
        self._file: TraceFile | None = None
        self._secrets: set[str] = set()
        self._redactor = Redactor()
        #: Why the files can't be written; "" if they can.
        self._problem = ""
        self._is_problem_shown = False
        self._news: list[str] = []
        shell.events.register("post_run_cell", self._cell_ended)
        atexit.register(self.end)
        self._follow()

    def keeps(self, agent: Agent) -> bool:
        """Whether this agent's conversation is kept."""
        return agent is self._agent

    def end(self) -> None:
        """Stop following the conversation, write everything that is left, and release the lock."""
        atexit.unregister(self.end)
        self._shell.events.unregister("post_run_cell", self._cell_ended)
        self._observe_agent(None)
        self._writer.shutdown()
        self._close_file()
        self._held.close()

    def _lock(self) -> None:
        path = self.path.with_name(f".{self.path.stem}.lock")
        try:
            file = self._open_locked(path)
            while not _is_still(path, file):  # it was removed before it was locked
                self._held.close()
                file = self._open_locked(path)
            file.truncate(0)
            file.write(f"{os.getpid()}\n".encode())
        except OSError as error:
            self._held.close()
            raise ConfigurationError(
                f"the conversation can't be kept in {str(self.path)!r}: {error.strerror or error}"
            ) from None
        self._held.callback(_remove, path)  # before the lock is released

    def _open_locked(self, path: Path) -> BinaryIO:
        file = self._held.enter_context(path.open("a+b", buffering=0))
        try:
            is_free = self._held.enter_context(locked(file, wait=False))
        except OSError:  # this disk has no locks
            is_free = True
        if not is_free:
            file.seek(0)
            owner = file.read(20).decode(errors="replace").strip()
            self._held.close()
            raise ConfigurationError(
                f"another kernel (process {owner or 'unknown'}) keeps its conversation in {self.path.name}. Shut that "
                "kernel down, run `%agent keep off` in it, or name another file here: `%agent keep FILE`"
            )
        return file

    def _follow(self) -> None:
        """Keep the conversation of the agent that is now in the variable."""
        found = self._shell.user_ns.get("agent")
        agent = found if isinstance(found, Agent) else None
        if agent is not self._agent:
            self._observe_agent(agent)

    def _observe_agent(self, agent: Agent | None) -> None:
        if self._agent is not None:
            with suppress(ValueError):
                self._agent.observers.remove(self._observe)
        self._running.clear()
        self._agent = agent
        if agent is not None:
            agent.observers.append(self._observe)

    def _observe(self, event: Event) -> None:
        if isinstance(event, events.RunStarted):
            self._running.add(event.metadata["run_id"])
        elif isinstance(event, events.Done | events.Error | events.Interrupted):
            self._running.discard(event.metadata["run_id"])
            self._note()
        elif isinstance(event, events.TurnStarted) and event.metadata["step"] > 1:  # tools have run
            self._note()

    def _note(self) -> None:
        """Submit the current state to the thread."""
        if (agent := self._agent) is not None:
            self._number += 1
            self._noted = self._state()
            self._newest = self._writer.submit(self._write, self._number, agent, kept_now(agent))

    def _state(self) -> Any:
        if self._agent is None:
            return None
        counts = [count for name, count in self._agent.trace.recorder.counts.items() if name != "environment"]
        return self._agent, list(self._agent.conversation_history), counts

    def _cell_ended(self, *_: Any) -> None:
        """Write the cell's changes, and show messages in the cell."""
        self._follow()
        if not self._running and (self._problem or self._state() != self._noted):
            self._note()
        if self._newest is not None:
            with suppress(TimeoutError):
                self._newest.result(WAIT_S)
        while self._news:
            print(self._news.pop(0))
        if self._problem and not self._is_problem_shown:
            print(
                f"{self._problem} The conversation continues, and nbagent tries again at the end of each cell.",
                file=sys.stderr,
            )
        self._is_problem_shown = bool(self._problem)

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _write(self, number: int, agent: Agent, kept: saved.Saved) -> None:
        if number < self._number:  # a later state has been submitted
            return
        try:
            self._write_files(agent, kept)
            self._problem = ""
            self.offer = self.offer if self._owner is None else ""
        except NbagentError as error:
            self._problem = str(error)
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or error
            self._problem = f"The trace can't be kept in {trace_path(self.path).name}: {reason}."
        if self._problem:
            self._close_file()
            log.warning("%s", self._problem)

    def _write_files(self, agent: Agent, kept: saved.Saved) -> None:
        if agent is not self._owner:
            if not split_turns(all_messages(kept)):
                return  # an empty conversation must not replace an earlier one
            self._close_file()
            self._set_aside(kept)
            self._owner = agent
        provider = agent.provider
        self._secrets.update(getattr(provider, "secrets", ()))
        self._redactor = Redactor(self._secrets)
        model, here = f"{provider.provider_name}:{provider.model_name}", kept.branches.index(kept.here)
        branches = kept.branches if len(kept.branches) > 1 else ()
        saved.save(self.path, kept.messages, model, self._redactor.data, branches, here)
        if not agent.trace.is_recording:
            return
        if self._file is None or agent.trace is not self._trace:
            agent.trace.recorder.add_environment(environment.environment)
            self._close_file()
            self._file, self._trace = TraceFile(trace_path(self.path), self._redact), agent.trace
            agent.trace.recorder.attach(self._file, each_turn=False)
        agent.trace.recorder.write_to(self._file)

    def _redact(self, row: Any) -> Any:
        return self._redactor.data(row)

    def _close_file(self) -> None:
        if self._file is not None and self._trace is not None:
            self._trace.recorder.detach(self._file)
        self._file = None

    def _set_aside(self, kept: saved.Saved) -> None:
        """Rename existing files if this conversation does not continue theirs."""
        if not self.path.exists():
            return
        try:
            earlier = saved.load(self.path)
            if not turns_only_in(all_messages(earlier), all_messages(kept)):
                return
            said = f"{count_prompts(earlier.messages)} from an earlier kernel, for `%agent restore {{}}`"
        except ConfigurationError:
            said = f"the earlier content of {self.path.name}, which is not a conversation"
        asides = (self.path.with_name(f"{self.path.stem}.{number}.json") for number in count(1))
        aside = next(each for each in asides if not each.exists() and not trace_path(each).exists())
        with suppress(FileNotFoundError):
            trace_path(self.path).rename(trace_path(aside))
        self.path.rename(aside)
        self._news.append(f"{aside.name} has {said.format(aside.name)}.")


def count_prompts(messages: Sequence[LLMMessage]) -> str:
    """The number of prompts in a conversation, as text.

    >>> count_prompts([LLMMessage("user", "Why?")])
    '1 prompt'
    """
    number = sum(message.opens_turn for message in messages)
    return f"{number} prompt{'s' * (number != 1)}"


def _remove(path: Path) -> None:
    with suppress(OSError):  # Windows does not remove open files
        path.unlink()


def _is_still(path: Path, file: BinaryIO) -> bool:
    """Whether the open file is the one at this path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


#: This kernel's instance, if there is one.
_current: list[Keeper] = []


def current_keeper() -> Keeper | None:
    """The keeper of this kernel's conversation; None if the conversation is not kept."""
    return _current[0] if _current else None


def is_kept(agent: Agent) -> bool:
    """Whether this agent's conversation is kept."""
    return any(keeper.keeps(agent) for keeper in _current)


def offer_for(agent: Agent) -> str:
    """A sentence for empty panels of this agent about the conversation that `%agent restore` would restore; "" if there
    is none.
    """
    return next((keeper.offer for keeper in _current if keeper.keeps(agent)), "")


def begin_keeping(shell: Any, path: Path) -> Keeper:
    """From now on, keep the conversation at this path. Raises `ConfigurationError` if that is not possible."""
    if _current and _current[0].path == path:
        return _current[0]
    keeper = Keeper(shell, path)
    end_keeping()
    _current[:] = [keeper]
    return keeper


def end_keeping() -> None:
    """Stop keeping the conversation. The files stay."""
    while _current:
        _current.pop().end()
