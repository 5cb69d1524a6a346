"""A conversation as a JSON file: the messages with their vendor data; no key and no tools.

```json
{"format": "nbagent conversation", "version": 1, "model": "claude:claude-sonnet-5", "messages": [{"role": "user", …}]}
```
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbagent.core.atomic_files import atomic_write
from nbagent.core.history.repair import repair
from nbagent.core.messages import LLMMessage, well_formed
from nbagent.errors import ConfigurationError

FORMAT, VERSION = "nbagent conversation", 1


def save(path: str | os.PathLike[str], messages: Sequence[LLMMessage], model: str) -> None:
    """Write the file atomically: if that fails, an old file stays. Raises `ConfigurationError`."""
    data = {"format": FORMAT, "version": VERSION, "model": model, "messages": [m.to_dict() for m in messages]}
    target = Path(path).expanduser()
    try:
        text = well_formed(json.dumps(data, ensure_ascii=False, indent=1))
        with atomic_write(target) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"The conversation can't be saved, a message is not JSON data: {error}.") from None
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(f"The conversation can't be saved to {str(target)!r}: {reason}.") from None


def load(path: str | os.PathLike[str]) -> tuple[list[LLMMessage], str]:
    """`(messages, model)` from a file, with the messages repaired. Raises `ConfigurationError`."""
    source = repr(str(path))
    try:
        data: Any = json.loads(Path(path).expanduser().read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"The conversation {source} can't be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise ConfigurationError(f"{source} is not a saved conversation: {error}.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ConfigurationError(f"{source} is not a saved conversation. agent.save(path) writes one.")
    if (version := data.get("version")) != VERSION:
        raise ConfigurationError(f"{source} has version {version!r} of the format, expected {VERSION}. Update nbagent.")
    try:
        messages = [LLMMessage.from_dict(item) for item in data["messages"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{source} holds a message that can't be read: {error!r}.") from None
    return repair(messages), str(data.get("model") or "")
