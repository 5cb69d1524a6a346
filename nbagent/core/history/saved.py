"""A conversation as a JSON file: the messages with all that vendors want back, no key, no tools.

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
    """Write the file whole or not at all: what was there before is lost only when the new one is safe on disk."""
    data = {"format": FORMAT, "version": VERSION, "model": model, "messages": [m.to_dict() for m in messages]}
    try:
        text = well_formed(json.dumps(data, ensure_ascii=False, indent=1))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the conversation can't be saved: it holds something that is no JSON ({error})"
        ) from None
    target = Path(path).expanduser()
    try:
        with atomic_write(target) as temporary:
            temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"the conversation can't be saved to {str(target)!r}: {error.strerror or error}"
        ) from None


def load(path: str | os.PathLike[str]) -> tuple[list[LLMMessage], str]:
    """`(messages, model)` of a file, the messages repaired. Raises ConfigurationError for what is no such file."""
    source = str(path)
    try:
        data: Any = json.loads(Path(path).expanduser().read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"no conversation can be loaded from {source!r}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigurationError(f"{source!r} is no saved conversation: {error}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ConfigurationError(f"{source!r} is no saved conversation: agent.save(path) writes one")
    if data.get("version") != VERSION:
        raise ConfigurationError(
            f"{source!r} was saved in version {data.get('version')!r} of the format, and this nbagent reads version "
            f"{VERSION}: update nbagent"
        )
    try:
        messages = [LLMMessage.from_dict(item) for item in data["messages"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{source!r} holds a message that can't be read: {error!r}") from None
    return repair(messages), str(data.get("model") or "")
