"""`%agent keep` and `%agent restore`: keep the conversation, and continue it in the notebook's next kernel."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError

from nbagent.agent.agent import Agent
from nbagent.checks import checked_path
from nbagent.core.history import saved
from nbagent.core.render.markdown import printable
from nbagent.notebook.keeper import (
    all_messages,
    begin_keeping,
    conversation_path,
    count_prompts,
    current_keeper,
    end_keeping,
    kept_now,
    notebook_path,
    trace_path,
    turns_only_in,
)
from nbagent.trace.combined import add_sessions
from nbagent.trace.trace import Trace


def keep(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Start or stop writing the conversation and the trace to files after each turn."""
    if list(words) == ["off"]:
        ended = current_keeper()
        end_keeping()
        print(f"No longer kept. {ended.path.name} stays." if ended else "No conversation is kept.")
        return
    path = _path(shell, words, "keep")
    keeper = begin_keeping(shell, path)
    print(f"Kept after each turn: the conversation in {path.name}, the trace in {trace_path(path).name}.")
    if path.exists():
        kept = saved.load(path)
        if turns_only_in(all_messages(kept), all_messages(kept_now(agent))):
            prompts = count_prompts(kept.messages)
            keeper.offer = f"{path.name} has {prompts}, {_saved_at(path)}: %agent restore brings them back."
            print(keeper.offer)


def restore(shell: Any, agent: Agent, words: Sequence[str]) -> None:
    """Restore a kept conversation and its trace. Prompts already sent in this kernel come after the restored ones."""
    keeper = current_keeper()
    path = keeper.path if keeper and not words else _path(shell, words, "restore")
    if not path.exists():
        raise UsageError(
            f"%agent restore: there is no {path.name}. `%agent keep` writes it from the next prompt on; "
            "to restore from another file, write %agent restore FILE"
        )
    if agent.trace.recorder.open_runs:
        raise UsageError("%agent restore: the agent is answering. Wait, or stop it with `%agent stop`")
    kept, here = saved.load(path), kept_now(agent)
    trace = Trace.load(trace_path(path)) if trace_path(path).exists() else None
    count = count_prompts(kept.messages)
    if not turns_only_in(all_messages(kept), all_messages(here)):
        print(f"Nothing to restore: the conversation has all of {path.name} ({count}).")
        return
    if trace is not None and agent.trace.is_recording:
        add_sessions(agent.trace.recorder, trace.recorder)
    agent.trace.recorder.recognise(all_messages(kept))
    mine = [message for turn in turns_only_in(here.here.messages, all_messages(kept)) for message in turn]
    system = next((message.text for message in kept.messages if message.role == "system"), None)
    is_theirs = not agent.system_prompt and bool(system)
    agent.system_prompt = agent.system_prompt or system
    agent.context.resume(kept.branches, kept.here, mine)
    also = f" {count_prompts(mine).capitalize()} of this kernel come after." if mine else ""
    others = len(kept.branches) - 1
    also += f" {others} other branch{'es' * (others > 1)} as well." if others else ""
    traced = "" if trace is not None else f" There is no {trace_path(path).name}, so nothing is known about their runs."
    print(f"{count} from {path.name}, {_saved_at(path)}.{also}{traced}")
    if is_theirs:  # perhaps a stranger's
        print(f"The system prompt now comes from {path.name}; agent.system_prompt = None removes it:")
        print(printable(agent.system_prompt or ""))


def _path(shell: Any, words: Sequence[str], command: str) -> Path:
    """The file that the words name, or the notebook's."""
    name = " ".join(words).strip("\"'")
    if name:
        path = checked_path(name).absolute()
        if path.suffix != ".json":
            raise UsageError(f"%agent {command} {name}: the file's name must end with .json")
        return path
    if (notebook := notebook_path(shell)) is None:
        raise UsageError(f"%agent {command}: this notebook's name is not known here; write %agent {command} FILE.json")
    return conversation_path(notebook)


def _saved_at(path: Path) -> str:
    saved_at = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    return f"saved {saved_at:%Y-%m-%d %H:%M}"
