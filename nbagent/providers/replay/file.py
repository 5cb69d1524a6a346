"""Reads and appends to a recording's file, and defines its format.

A recording is a file of JSON lines. The first line names the format. Each further line is one exchange with a model,
written when the exchange is over, so an interrupted recording has all earlier exchanges:

```json
{"format": "nbagent recording", "version": 1}
{"request": {"id": "5c1f…", "messages": […], "functions": […], "options": {}}, "provider": "claude",
 "model": "claude-sonnet-5", "started": 1767225600.0, "items": [{"at": 0.41, "type": "text", "content": "It is"}, …],
 "duration_s": 1.2, "response": {"content": "It is sunny.", …}}
{"request": {"id": "e07a…", "after": "5c1f…", "messages": […]}, …}
```

A request with `after` continues the messages of the request with that id. It has the same `functions` and `options`
unless it contains its own. A conversation is therefore written once, not once per request, and files can be
concatenated. `at` is the time in seconds since the request was ready to be sent. If the provider failed, `error`
replaces `response`. Keys are never written.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbagent import errors
from nbagent.core import events
from nbagent.core.events import Event
from nbagent.core.file_lock import append, cut_torn_line, locked
from nbagent.core.json_text import json_text
from nbagent.core.messages import FunctionCall, LLMResponse, Usage
from nbagent.errors import ConfigurationError, ProviderError
from nbagent.providers.replay.fingerprint import Fingerprint, Fingerprints

FORMAT, VERSION = "nbagent recording", 1

_EVENT_TYPES = {kind.type: kind for kind in events.AnyEvent.__args__}
_ANSWER_PIECES = ("text", "thinking", "tool_call_delta")
_ERROR_ATTRIBUTES = ("provider", "model", "status", "code", "request_id", "retry_after")


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One exchange with a model: the request, the answer's pieces with their times, and the answer or error."""

    request: Fingerprint
    provider: str
    model: str
    #: Unix time in seconds.
    started: float
    #: The events before the answer, as `event_to_json` writes them.
    items: list[dict[str, Any]]
    duration_s: float
    response: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def times(self) -> dict[str, float | None]:
        """The seconds from the start of the last attempt to its first piece (`ttft_s`), and from the request to its end
        (`duration_s`).
        """
        sent, first = 0.0, None
        for item in self.items:
            if item["type"] == "retry":
                sent, first = item["at"] + ((item.get("metadata") or {}).get("wait_s") or 0.0), None
            elif item["type"] in _ANSWER_PIECES and first is None:
                first = max(0.0, item["at"] - sent)
        return {"ttft_s": first, "duration_s": self.duration_s}

    def outcome(self) -> LLMResponse:
        """The answer, marked as replayed. If the exchange failed, raises its error, also marked as replayed."""
        if self.error is None:
            return _response_from_json(self.response or {}, self.times())
        error = _error_from_json(self.error)
        error.__dict__["replayed"] = self.times()
        raise error


def event_to_json(event: Event, at: float) -> dict[str, Any]:
    """An event as JSON data, `at` seconds after the request was ready to be sent."""
    data = {"at": at, **event.to_dict()}
    if not data["metadata"]:
        del data["metadata"]
    return {key: value for key, value in data.items() if value is not None}


def event_from_json(data: dict[str, Any]) -> Event:
    """A new event from the data of `event_to_json`."""
    kind: type[Event] = _EVENT_TYPES[data["type"]]
    return kind(data["content"], data.get("tool_name"), data.get("tool_arguments"), data.get("metadata") or {})


def response_to_json(response: LLMResponse) -> dict[str, Any]:
    """An answer as JSON data. Metadata and raw responses that are not JSON are omitted."""
    metadata = {key: value for key, value in (response.metadata or {}).items() if _is_json(value) and key != "usage"}
    if isinstance(usage := (response.metadata or {}).get("usage"), Usage):
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
    if "usage" in metadata:
        metadata["usage"] = Usage(**metadata["usage"])
    calls = [FunctionCall.from_dict(call) for call in data["function_calls"]]
    return LLMResponse(data["content"], calls or None, data["finish_reason"], metadata, data["raw_response"])


def error_to_json(error: Exception) -> dict[str, Any]:
    """A failure as JSON data."""
    if not isinstance(error, ProviderError):
        return {"type": type(error).__name__, "message": str(error)}
    attributes = {name: value for name in _ERROR_ATTRIBUTES if (value := getattr(error, name)) is not None}
    return {"type": type(error).__name__, "message": error.message, **attributes, "should_retry": error.retryable}


def _error_from_json(data: dict[str, Any]) -> Exception:
    """The recorded error. Another package's error becomes a `ProviderError` that names it."""
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


class RecordingFile:
    """A recording's file, which other threads and processes may append to at the same time.

    `exchanges` is the file's content when it was last read. `redact` removes secrets from a line's data.
    """

    def __init__(self, path: Path, redact: Callable[[Any], Any] = lambda data: data) -> None:
        self.path, self._redact = path, redact
        #: Still valid after a change of the working directory.
        self._absolute = path.absolute()
        self.fingerprints = Fingerprints()
        self.exchanges: list[RecordedExchange] = []
        #: Whether the next written line replaces the file's content.
        self.is_overwriting = False
        #: The file's requests with their ids, by the hash of their last message, for later requests to continue.
        self._ends: dict[str, tuple[str, Fingerprint]] = {}
        self._lock = threading.Lock()

    def read(self) -> None:
        """Read `exchanges`. An incomplete last line, from a crash or still being written, is ignored.

        Raises `ConfigurationError` if the file can't be read, is not a recording, or has another version.
        """
        name = repr(str(self.path))
        try:
            lines = self._absolute.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise ConfigurationError(f"can't read the recording {name}: {error.strerror or error}") from None
        requests: dict[str, Fingerprint] = {}
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                break
            try:
                data = json.loads(line)
                if number == 1 or (isinstance(data, dict) and "format" in data):  # files may be concatenated
                    _check_first_line(name, data)
                else:
                    self._add(data, requests)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise ConfigurationError(f"{name} is not a recording: line {number}: {error!r}") from None

    def _add(self, data: dict[str, Any], requests: dict[str, Fingerprint]) -> None:
        written = data["request"]
        before = requests.get(written.get("after", ""), Fingerprint())
        if written.get("after") and written["after"] not in requests:
            raise ValueError(f"the request continues {written['after']!r}, which no earlier line has")
        hashes = list(before.hashes)
        for message in written["messages"]:
            hashes.append(self.fingerprints.add(hashes[-1] if hashes else "", message))
        functions, options = (written.get(name, getattr(before, name)) for name in ("functions", "options"))
        request = requests[written["id"]] = self.fingerprints.from_hashes(hashes, functions, options)
        self.exchanges.append(RecordedExchange(**{**data, "request": request}))
        self._ends[hashes[-1] if hashes else ""] = (written["id"], request)  # not `request.hash`: it may be edited

    def append(self, exchange: RecordedExchange) -> None:
        """Write an exchange. Raises `OSError` if that is not possible."""
        with self._lock, self._absolute.open("a+b", buffering=0) as file, locked(file):
            if self.is_overwriting:
                file.truncate(0)
                self.is_overwriting = False
            end = cut_torn_line(file)
            ends = dict(self._ends) if end else {}  # the file is empty if it was deleted in the meantime
            lines: list[dict[str, Any]] = [] if end else [{"format": FORMAT, "version": VERSION}]
            lines.append(_line(exchange, ends))
            written = b"".join(json_text(self._redact(line)).encode() + b"\n" for line in lines)
            append(file, written, end)
            self._ends = ends


def _line(exchange: RecordedExchange, ends: dict[str, tuple[str, Fingerprint]]) -> dict[str, Any]:
    """An exchange as JSON data. Its request continues the longest match in `ends`, and is added there."""
    request = exchange.request
    shared = next((n for n in range(len(request.hashes), 0, -1) if request.hashes[n - 1] in ends), 0)
    written: dict[str, Any] = {"id": request.hash}
    before = Fingerprint()
    if shared:
        written["after"], before = ends[request.hashes[shared - 1]]
    written["messages"] = request.messages[shared:]
    for name in ("functions", "options"):
        if not shared or getattr(before, name) != getattr(request, name):
            written[name] = getattr(request, name)
    if request.hashes:
        ends[request.hashes[-1]] = (request.hash, request)
    values = {name: getattr(exchange, name) for name in exchange.__slots__}
    return {name: value for name, value in (values | {"request": written}).items() if value is not None}


def _check_first_line(name: str, data: Any) -> None:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ConfigurationError(f"{name} is not a recording. Create one with nbagent.record(path).")
    if data.get("version") != VERSION:
        raise ConfigurationError(
            f"{name}: expected version {VERSION} of the recording format, got {data.get('version')!r}. Name another "
            "file, or use the nbagent version that wrote it."
        )
