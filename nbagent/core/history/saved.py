"""A conversation as a JSON file: the messages with their vendor data; no key and no tools.

```json
{"format": "nbagent conversation", "version": 1, "model": "claude:claude-sonnet-5", "messages": [{"role": "user", …}]}
```
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NotRequired, Required

from typing_extensions import TypedDict

from nbagent.checks import checked_path
from nbagent.core.atomic_files import atomic_write
from nbagent.core.history.repair import repair
from nbagent.core.messages import LLMMessage, Role, well_formed
from nbagent.errors import ConfigurationError

FORMAT, VERSION = "nbagent conversation", 1


def save(
    path: str | os.PathLike[str], messages: Sequence[LLMMessage], model: str, redact: Callable[[str], str] = str
) -> None:
    """Write the file atomically: if that fails, an old file stays. `redact` removes secrets from the JSON text.

    Raises `ConfigurationError`.
    """
    saved = [m.to_dict() | ({"message_id": m.message_id} if m.message_id else {}) for m in messages]
    data = {"format": FORMAT, "version": VERSION, "model": model, "messages": saved}
    target = checked_path(path)
    try:
        text = redact(well_formed(json.dumps(data, ensure_ascii=False, indent=1)))
        with atomic_write(target) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"The conversation can't be saved, a message is not JSON data: {error}.") from None
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(f"The conversation can't be saved to {str(target)!r}: {reason}.") from None


def load(path: str | os.PathLike[str], *, with_ids: bool = False) -> tuple[list[LLMMessage], str]:
    """`(messages, model)` from a file, with the messages repaired. Raises `ConfigurationError`.

    `with_ids`: with the `message_id`s that they had, for a trace that has them, too.
    """
    target = checked_path(path)
    source = repr(str(target))
    try:
        if target.exists() and not target.is_file():
            raise ConfigurationError(f"The conversation {source} can't be read: it is not a file. Name a file.")
        data: Any = json.loads(target.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"The conversation {source} can't be read: {error.strerror or error}.") from None
    except ConfigurationError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source} is not a saved conversation: {error}.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ConfigurationError(f"{source} is not a saved conversation. agent.save(path) writes one.")
    if (version := data.get("version")) != VERSION:
        raise ConfigurationError(f"{source} has version {version!r} of the format, expected {VERSION}. Update nbagent.")
    try:
        messages = messages_from(data.get("messages"))
    except ValueError as error:
        raise ConfigurationError(f"{source} holds a message that can't be read: {error}.") from None
    if with_ids:
        ids = [item.get("message_id") for item in data["messages"]]
        messages = [message.replace(message_id=each) for message, each in zip(messages, ids, strict=True)]
    return repair(messages), str(data.get("model") or "")


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
    message_id: str


def messages_from(data: Any) -> list[LLMMessage]:
    """The messages in JSON data that somebody may have edited. Raises ValueError: what is wrong first, and where.

    >>> messages_from([{"role": "user", "content": 5}])
    Traceback (most recent call last):
    ValueError: 0.content.str: Input should be a valid string
    """
    from pydantic import ValidationError

    try:
        _checks().validate_python(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return [LLMMessage.from_dict(item) for item in data]


@cache
def _checks() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(list[_Message])
