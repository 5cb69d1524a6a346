"""The file of a recording: what stands in it, reading it and appending to it.

It is a file of JSON lines. The first line names the format; every other line is one exchange with a model, written when
the exchange is over, so that a recording that was cut off holds all exchanges before the cut:

```json
{"format": "nbagent recording", "version": 1}
{"request": {"messages": […], "functions": […], "options": {}}, "vendor": "claude", "model": "claude-sonnet-5",
 "started": 1767225600.0, "items": [{"at": 0.41, "type": "text", "content": "It is"}, …], "duration_s": 1.2,
 "response": {"content": "It is sunny.", …}}
```

`at` is in seconds since the request. If the vendor failed, `error` stands in place of `response`. Keys are never
written.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from nbagent import errors
from nbagent.core import events
from nbagent.core.events import Event
from nbagent.core.json_text import json_text
from nbagent.core.messages import FunctionCall, LLMResponse, Usage
from nbagent.errors import ConfigurationError, ProviderError
from nbagent.providers.replay.fingerprint import Fingerprint

FORMAT, VERSION = "nbagent recording", 1

_EVENT_TYPES = {kind.type: kind for kind in events.AnyEvent.__args__}
_ANSWER_PIECES = ("text", "thinking", "tool_call_delta")
_ERROR_ATTRIBUTES = ("vendor", "model", "status", "request_id", "retry_after")


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One exchange with a model: the request, the pieces of the answer with their times, and the answer or error."""

    request: Fingerprint
    vendor: str
    model: str
    #: Unix time in seconds.
    started: float
    #: The events before the answer, as `event_to_json` writes them.
    items: list[dict[str, Any]]
    duration_s: float
    response: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def times(self) -> dict[str, float | None]:
        """Seconds from the last attempt's start to its first piece (`ttft_s`), and from the request to the end."""
        sent, first = 0.0, None
        for item in self.items:
            if item["type"] == "retry":
                sent, first = item["at"] + ((item.get("metadata") or {}).get("wait_s") or 0.0), None
            elif item["type"] in _ANSWER_PIECES and first is None:
                first = max(0.0, item["at"] - sent)
        return {"ttft_s": first, "duration_s": self.duration_s}

    def outcome(self) -> LLMResponse:
        """The answer, marked as replayed. If the exchange failed, raises its error, marked the same way."""
        if self.error is None:
            return _response_from_json(self.response or {}, self.times())
        error = _error_from_json(self.error)
        error.__dict__["replayed"] = self.times()
        raise error


# -- events, answers and errors as JSON data --------------------------------------------------------------------------


def event_to_json(event: Event, at: float) -> dict[str, Any]:
    """An event as JSON data, `at` seconds after the request."""
    data = {"at": round(at, 4), **event.to_dict()}
    return {key: value for key, value in data.items() if key in ("at", "type", "content") or value}


def event_from_json(data: dict[str, Any]) -> Event:
    """A new event from what `event_to_json` made."""
    kind: type[Event] = _EVENT_TYPES[data["type"]]
    return kind(data["content"], data.get("tool_name"), data.get("tool_arguments"), data.get("metadata") or {})


def response_to_json(response: LLMResponse) -> dict[str, Any]:
    """An answer as JSON data. Metadata and a raw response that JSON can't hold are left out."""
    metadata = {key: value for key, value in (response.metadata or {}).items() if key == "usage" or _is_json(value)}
    if isinstance(usage := metadata.get("usage"), Usage):
        metadata["usage"] = usage.to_dict()
    return {
        "content": response.content,
        "function_calls": [call.to_dict() for call in response.function_calls or ()],
        "finish_reason": response.finish_reason,
        "metadata": metadata,
        "raw_response": response.raw_response if _is_json(response.raw_response) else None,
    }


def _response_from_json(data: dict[str, Any], times: dict[str, float | None]) -> LLMResponse:
    metadata = {**data["metadata"], "replayed": times}
    if isinstance(usage := metadata.get("usage"), dict):
        metadata["usage"] = Usage(**usage)
    calls = [FunctionCall.from_dict(call) for call in data["function_calls"]]
    return LLMResponse(data["content"], calls or None, data["finish_reason"], metadata, data["raw_response"])


def error_to_json(error: Exception) -> dict[str, Any]:
    """A failure as JSON data."""
    if not isinstance(error, ProviderError):
        return {"type": type(error).__name__, "message": str(error)}
    known = {name: value for name in _ERROR_ATTRIBUTES if (value := getattr(error, name)) is not None}
    return {"type": type(error).__name__, "message": error.message, **known, "should_retry": error.retryable}


def _error_from_json(data: dict[str, Any]) -> Exception:
    """The same error again. An error of another package becomes a `ProviderError` that names it."""
    kind = getattr(errors, data["type"], None)
    if isinstance(kind, type) and issubclass(kind, ProviderError):
        return kind(data["message"], **{key: value for key, value in data.items() if key not in ("type", "message")})
    if isinstance(kind, type) and issubclass(kind, errors.NbagentError):
        return kind(data["message"])
    return ProviderError(f"{data['type']}: {data['message']}")


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


# -- the file ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[list[RecordedExchange], int]:
    """The exchanges in a file, and the length of its complete lines in bytes: an incomplete last line is left out.

    Raises `ConfigurationError` if the file can't be read, is not a recording, or has a newer version.
    """
    exchanges: list[RecordedExchange] = []
    length = 0
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise ConfigurationError(f"can't read the recording {str(path)!r}: {error.strerror or error}") from None
    known = {field.name for field in fields(RecordedExchange)}
    for number, line in enumerate(lines):
        if not line.endswith(b"\n"):
            break
        try:
            data = json.loads(line)
            if number:
                exchanges.append(RecordedExchange(**{key: value for key, value in data.items() if key in known}))
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigurationError(f"{str(path)!r} is not a recording: line {number + 1}: {error}") from None
        if number == 0:
            _check_first_line(path, data)
        length += len(line)
    return exchanges, length


def _check_first_line(path: Path, data: Any) -> None:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ConfigurationError(f"{str(path)!r} is not a recording: make one with nbagent.record(path)")
    if data.get("version") != VERSION:
        raise ConfigurationError(
            f"{str(path)!r}: expected version {VERSION} of the recording format, got {data.get('version')!r}. "
            "Update nbagent."
        )


class Writer:
    """Appends exchanges to a file, after its first `keep` bytes; None begins a new file.

    The file is not touched before the first exchange, so a recording that records nothing destroys nothing.
    `redact` removes the secrets from each line.
    """

    def __init__(self, path: Path, keep: int | None, redact: Callable[[str], str]) -> None:
        self._path, self._keep, self._redact = path, keep, redact
        self._begun = False
        self._lock = threading.Lock()

    def write(self, exchange: RecordedExchange) -> None:
        """Append one line, without secrets."""
        data = {field.name: getattr(exchange, field.name) for field in fields(exchange)}
        line = self._redact(json_text(data)) + "\n"
        with self._lock:
            with self._path.open("ab") as file:
                if not self._begun:
                    file.truncate(self._keep or 0)
                    if not self._keep:
                        line = json_text({"format": FORMAT, "version": VERSION}) + "\n" + line
                file.write(line.encode())
            self._begun = True
