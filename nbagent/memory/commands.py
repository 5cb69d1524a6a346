"""The six commands for notes. Names and parameters match Claude's memory tool, but the results differ.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/memory-tool

Each result contains the version of each note that it shows or writes. A conversation can change a note only if it has
seen the current version. Otherwise the command is refused, so no change is lost. The versions that a conversation has
seen are read from its messages, so this works even after undo, fork and load. `str_replace` may also change a note that
the conversation has never seen, because the text to replace must match exactly.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nbagent.core.messages import LLMMessage
from nbagent.errors import ConfigurationError
from nbagent.memory.store import ROOT, Note, Notes, checked_note_path
from nbagent.text import shortened

#: The tool's name, the same as Claude's.
TOOL = "memory"
#: How many characters and notes one result shows.
MAX_VIEW_CHARS, MAX_LISTED = 15_000, 200


class Commands:
    """The commands on notes, for one conversation and one transaction.

    Without `messages`, the caller is a program or an MCP client without a conversation, and may change unseen notes. A
    refused command raises `ConfigurationError` and changes nothing.
    """

    def __init__(self, notes: Notes, messages: Iterable[LLMMessage] | None, run_id: str | None) -> None:
        self._notes, self._messages, self._run_id = notes, messages, run_id

    def view(self, path: str = ROOT, view_range: Sequence[int] | None = None) -> str:
        """Return the numbered lines of a note, or the notes in a folder."""
        path = checked_note_path(path)
        if (note := self._notes.get(path)) is not None:
            return _numbered(note, view_range)
        if view_range:
            raise ConfigurationError(f"{path} is not a note. Omit view_range to view a folder.")
        found = self._notes.all(path)
        if not found and path != ROOT:
            raise ConfigurationError(f"There is nothing at {path}. View {ROOT} to see all notes.")
        lines = [f"{path}: {len(found)} note{'s' * (len(found) != 1)}"]
        lines += [f"- {_stamp(note)}, {note.size:,} bytes)" for note in found[:MAX_LISTED]]
        more = len(found) - MAX_LISTED
        return "\n".join([*lines, f"… and {more} more. View one of their folders."] if more > 0 else lines)

    def create(self, path: str, file_text: str) -> str:
        """Write a new note."""
        path = checked_note_path(path)
        if (note := self._notes.get(path)) is not None:
            raise ConfigurationError(f"{note.path} already exists. View it, and change it with str_replace or insert.")
        return self._put(path, file_text)

    def str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        """Replace text that occurs exactly once in the note."""
        note = self._note(path)
        seen = self._seen(note)
        if seen and note.version not in seen:
            raise _stale(note)
        count = note.text.count(old_str) if old_str else 0
        if count != 1:
            fix = (
                "Include the lines around it." if count else "View the note, and pass the text exactly as it is there."
            )
            raise ConfigurationError(f"old_str: expected text that {note.path} contains once, not {count} times. {fix}")
        return self._put(note.path, note.text.replace(old_str, new_str))

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Add lines after a line. Line 0 is the beginning of the note."""
        note = self._seen_note(path)
        lines = _lines(note)
        if not 0 <= insert_line <= len(lines):
            raise ConfigurationError(f"insert_line: expected 0 to {len(lines)} for {note.path}, got {insert_line}.")
        lines[insert_line:insert_line] = insert_text.removesuffix("\n").split("\n")
        return self._put(note.path, "\n".join([*lines, ""]))

    def delete(self, path: str) -> str:
        """Delete a note, or a folder and its notes."""
        found = self._seen_below(path)
        for note in found:
            self._notes.remove(note)
        return "\n".join(f"Deleted: {note.path}" for note in found)

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a note or a folder to another path."""
        old_path, new_path = checked_note_path(old_path), checked_note_path(new_path)
        found = self._seen_below(old_path)
        taken = [note for note in self._notes.all(new_path) if note not in found]
        if taken:
            raise ConfigurationError(f"{taken[0].path} already exists. Choose another new_path.")
        for note in found:
            self._notes.remove(note)
        return "\n".join(self._put(new_path + note.path.removeprefix(old_path), note.text) for note in found)

    def _put(self, path: str, text: str) -> str:
        note = self._notes.put(path, text, self._run_id)
        lines = len(_lines(note))
        return f"Written: {_stamp(note)}, {lines} line{'s' * (lines != 1)})"

    def _note(self, path: str) -> Note:
        path = checked_note_path(path)
        if (note := self._notes.get(path)) is None:
            kind = "a folder, not a note" if self._notes.all(path) else "not a note"
            raise ConfigurationError(f"{path} is {kind}. View {ROOT} to see all notes.")
        return note

    def _seen_note(self, path: str) -> Note:
        """Return the note if the conversation has seen its current version."""
        note = self._note(path)
        if self._messages is not None and note.version not in self._seen(note):
            raise _stale(note)
        return note

    def _seen_below(self, path: str) -> list[Note]:
        """Return the notes in a folder, or the note at this path, if the conversation has seen what is there now."""
        path = checked_note_path(path)
        if path == ROOT:
            raise ConfigurationError(f"{ROOT} itself can't be deleted or renamed.")
        found = self._notes.all(path)
        if not found:
            raise ConfigurationError(f"There is nothing at {path}. View {ROOT} to see all notes.")
        return [self._seen_note(note.path) for note in found]

    def _seen(self, note: Note) -> set[int]:
        """Return the versions of a note that the conversation has seen."""
        stamp = re.compile(rf"^(?:- |Written: )?{re.escape(note.path)} \(version (\d+)", re.MULTILINE)
        results = [message.text for message in self._messages or () if message.role == "tool" and message.name == TOOL]
        return {int(number) for text in results for number in stamp.findall(text)}


_ALL = (Commands.view, Commands.create, Commands.str_replace, Commands.insert, Commands.delete, Commands.rename)
#: The commands by name.
COMMANDS: Mapping[str, Callable[..., str]] = {command.__name__: command for command in _ALL}


def run_command(commands: Commands, name: str, arguments: Mapping[str, Any]) -> str:
    """Run a command. Parameters of other commands are ignored, because models send them empty."""
    _, *parameters = inspect.signature(COMMANDS[name]).parameters.values()
    passed = {each.name: value for each in parameters if (value := arguments.get(each.name)) is not None}
    if missing := [each.name for each in parameters if each.default is each.empty and each.name not in passed]:
        raise ConfigurationError(f"{name} requires {' and '.join(missing)}.")
    return COMMANDS[name](commands, **passed)


def _stamp(note: Note) -> str:
    return f"{note.path} (version {note.version}"


def _stale(note: Note) -> ConfigurationError:
    return ConfigurationError(f"You have not seen the current version of {note.path}. View it, then decide.")


def _lines(note: Note) -> list[str]:
    return note.text.removesuffix("\n").split("\n") if note.text else []


def _numbered(note: Note, view_range: Sequence[int] | None) -> str:
    lines = _lines(note)
    first, last = view_range or (1, -1)
    last = len(lines) if last == -1 else last
    if view_range and not 1 <= first <= last <= len(lines):
        fix = f"Pass [first, last] between 1 and {len(lines)}; -1 is the last line."
        raise ConfigurationError(f"view_range: {note.path} has no lines {first} to {last}. {fix}")
    shown = [f"{_stamp(note)}, {len(lines)} line{'s' * (len(lines) != 1)})"]
    left = MAX_VIEW_CHARS
    for number in range(first, last + 1):
        line = lines[number - 1]
        if len(line) > left and number > first:
            shown.append(f"… lines {number} to {last} are omitted. Continue with view_range=[{number}, {last}].")
            break
        shown.append(f"{number:6}\t{shortened(line, left)}")
        left -= len(line)
    return "\n".join(shown)
