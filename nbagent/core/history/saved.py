"""A conversation as a JSON file: the messages with their provider data, without keys or tools.

```json
{"format": "nbagent conversation", "version": 1, "model": "claude:claude-sonnet-5", "messages": [{"role": "user", …}]}
```

A file may also contain other versions of prompts and other conversations. `here` is the index of the current branch:

```json
{…, "branches": [{"conversation": "conv_a", "branch": "run_b", "used": 1, "messages": [0, 1, {"role": "user", …}]}, …],
 "here": 1}
```

A number in `messages` is the position of an earlier message, counted from the beginning of the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NotRequired, Required

from typing_extensions import TypedDict

from nbagent.checks import checked_path, problem_in
from nbagent.core.atomic_files import atomic_write
from nbagent.core.history.branches import Branch
from nbagent.core.history.repair import repair
from nbagent.core.messages import LLMMessage, Role, new_id, well_formed
from nbagent.errors import ConfigurationError

FORMAT, VERSION = "nbagent conversation", 1


@dataclass(frozen=True, slots=True)
class Saved:
    """The contents of a file: its messages, and all branches. `here` is the branch that contains these messages."""

    messages: list[LLMMessage]
    branches: list[Branch]
    here: Branch


def save(
    path: str | os.PathLike[str],
    messages: Sequence[LLMMessage],
    model: str,
    redact: Callable[[Any], Any] = lambda data: data,
    branches: Sequence[Branch] = (),
    here: int = 0,
) -> None:
    """Write the file atomically: if that fails, an existing file is kept. `redact` removes secrets from the JSON data.

    If there are branches, `messages` are the messages of `branches[here]`. Raises `ConfigurationError`.
    """
    saved = [as_data(message) for message in messages]
    data: dict[str, Any] = {"format": FORMAT, "version": VERSION, "model": model, "messages": saved}
    if branches:
        data |= {"branches": _branches_as_data(messages, branches), "here": here}
    target = checked_path(path)
    try:
        text = well_formed(json.dumps(redact(data), ensure_ascii=False, indent=1))
        with atomic_write(target) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"The conversation can't be saved: a message is not JSON data: {error}.") from None
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(f"The conversation can't be saved to {str(target)!r}: {reason}.") from None


def load(path: str | os.PathLike[str]) -> Saved:
    """Read a saved file. Messages are repaired, and keep the `message_id`s that traces refer to. Raises
    `ConfigurationError`.
    """
    data = _read(path)
    try:
        messages = messages_from(data.get("messages"))
        branches = _branches_from(data.get("branches") or [], messages)
        branches = branches or [Branch(new_id("conv"))]
        place = data.get("here", 0)
        if type(place) is not int or not 0 <= place < len(branches):
            raise ValueError(f"here: expected the index of a branch, got {place!r}")
    except ValueError as error:
        source = repr(str(checked_path(path)))
        raise ConfigurationError(f"The conversation {source} can't be read: {error}.") from None
    messages, here = repair(messages), branches[place]
    here.messages = [message for message in messages if message.role != "system"]
    return Saved(messages, branches, here)


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    target = checked_path(path)
    source = repr(str(target))
    if os.path.exists(target) and not os.path.isfile(target):
        raise ConfigurationError(f"The conversation {source} can't be read: it is not a file. Pass the path of a file.")
    try:
        data: Any = json.loads(target.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"The conversation {source} can't be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise ConfigurationError(f"{source} is not a saved conversation: {error}.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ConfigurationError(f"{source} is not a saved conversation. agent.save(path) writes one.")
    if (version := data.get("version")) != VERSION:
        raise ConfigurationError(
            f"{source} has format version {version!r}, expected {VERSION}. Name another file, or use the nbagent "
            "version that wrote it."
        )
    return data


def _branches_as_data(messages: Sequence[LLMMessage], branches: Sequence[Branch]) -> list[dict[str, Any]]:
    """The branches, with a number for each message that is already in `messages` or an earlier branch."""
    places = {id(message): place for place, message in enumerate(messages)}
    written, found = len(messages), []
    for branch in branches:
        items: list[Any] = []
        for message in branch.messages:
            if (place := places.get(id(message))) is not None:
                items.append(place)
                continue
            items.append(as_data(message))
            places[id(message)] = written
            written += 1
        about = {"conversation": branch.conversation_id, "branch": branch.branch, "used": branch.used}
        found.append({**about, "messages": items})
    return found


def _branches_from(data: Any, messages: Sequence[LLMMessage]) -> list[Branch]:
    """The inverse of `_branches_as_data`. Raises ValueError with the first error and its place."""
    _check(list[_SavedBranch], data)
    known, found = list(messages), []
    for item in data:
        branch = Branch(item["conversation"], [], item["branch"], item["used"])
        for each in item["messages"]:
            if not isinstance(each, int):
                known += messages_from([each])
            elif not 0 <= each < len(known):
                raise ValueError(f"branches: there is no message {each} before this branch")
            branch.messages.append(known[each if isinstance(each, int) else -1])
        branch.messages = repair([each for each in branch.messages if each.role != "system"])
        found.append(branch)
    return found


def as_data(message: LLMMessage) -> dict[str, Any]:
    """Return a message as plain data, with its `message_id`."""
    return message.to_dict() | ({"message_id": message.message_id} if message.message_id else {})


class _Part(TypedDict, total=False):
    type: Required[str]
    text: str


class _Call(TypedDict):
    name: str
    arguments: dict[str, Any]
    id: NotRequired[str | None]
    raw: NotRequired[str | None]


class _Message(TypedDict, total=False):
    role: Required[Role]
    content: Required[str | list[_Part]]
    tool_calls: list[_Call]
    name: str
    tool_call_id: str
    provider_extras: dict[str, Any]
    is_error: bool
    interrupted: bool
    pinned: bool
    is_summary: bool
    is_correction: bool
    message_id: str


def messages_from(data: Any) -> list[LLMMessage]:
    """Read messages and their `message_id`s from JSON data that may have been edited by hand.

    Raises ValueError with the first error and its place.

    >>> messages_from([{"role": "user", "content": 5}])
    Traceback (most recent call last):
    ValueError: 0.content.str: Input should be a valid string
    """
    _check(list[_Message], data)
    return [LLMMessage.from_dict(item).replace(message_id=item.get("message_id")) for item in data]


class _SavedBranch(TypedDict):
    conversation: str
    branch: str | None
    used: int
    messages: list[int | _Message]


def _check(kind: Any, data: Any) -> None:
    """Raise ValueError with the first error and its place."""
    from pydantic import ValidationError

    try:
        _checks(kind).validate_python(data, strict=True)
    except ValidationError as error:
        raise ValueError(problem_in(error)) from None


@cache
def _checks(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
