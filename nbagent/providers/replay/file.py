"""Recordings: what models answered, in a file that can be played again; and whether one is made or played now.

A recording is a file of JSON lines. The first says what it is; each other is one exchange, written when it is over, so
that a recording that was cut off holds all exchanges before the cut:

```json
{"format": "nbagent recording", "version": 1}
{"request": {"messages": […], "functions": […], "options": {}}, "vendor": "claude", "model": "claude-sonnet-5",
 "started": 1767225600.0, "items": [{"at": 0.41, "type": "text", "content": "It is"}, …], "duration_s": 1.2,
 "response": {"content": "It is sunny.", …}}
```

`at` are seconds after the request. In place of `response` stands `error` where the vendor failed. Keys are not in it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from nbagent import errors
from nbagent.core import events
from nbagent.core.events import Event
from nbagent.core.messages import FunctionCall, LLMResponse, Usage
from nbagent.core.request_fingerprint import Request, as_text
from nbagent.core.run import Provider, Tools
from nbagent.errors import ConfigurationError, ProviderError

FORMAT, VERSION = "nbagent recording", 1

_EVENTS = {kind.type: kind for kind in events.AnyEvent.__args__}
_PIECES = ("text", "thinking", "tool_call_delta")
_FACTS = ("vendor", "model", "status", "request_id", "retry_after")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One exchange with a model: the request, the pieces of the answer with their times, and the answer or error."""

    request: Request
    vendor: str
    model: str
    #: Unix time in seconds.
    started: float
    items: list[dict[str, Any]]
    duration_s: float
    response: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def times(self) -> dict[str, float | None]:
        """Seconds until the first piece of the attempt that counts, and until the end."""
        sent, first = 0.0, None
        for item in self.items:
            if item["type"] == "retry":
                sent, first = item["at"] + ((item.get("metadata") or {}).get("wait_s") or 0.0), None
            elif item["type"] in _PIECES and first is None:
                first = max(0.0, item["at"] - sent)
        return {"ttft_s": first, "duration_s": self.duration_s}

    def outcome(self) -> LLMResponse:
        """The answer, marked as replayed. Raises the error, so marked, where that is how it ended."""
        if self.error is None:
            return _response(self.response or {}, self.times())
        error = _error(self.error)
        error.__dict__["replayed"] = self.times()
        raise error


# -- the form of answers ----------------------------------------------------------------------------------------------


def item_form(event: Event, at: float) -> dict[str, Any]:
    """A piece of an answer as JSON data."""
    form = {"at": round(at, 4), **event.to_dict()}
    return {key: value for key, value in form.items() if key in ("at", "type", "content") or value}


def item_event(form: dict[str, Any]) -> Event:
    """The inverse: a new event each time."""
    kind: type[Event] = _EVENTS[form["type"]]
    return kind(form["content"], form.get("tool_name"), form.get("tool_arguments"), form.get("metadata") or {})


def response_form(response: LLMResponse) -> dict[str, Any]:
    """An answer as JSON data; what is no such data is left out of it."""
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


def _response(form: dict[str, Any], times: dict[str, float | None]) -> LLMResponse:
    metadata = {**form["metadata"], "replayed": times}
    if isinstance(usage := metadata.get("usage"), dict):
        metadata["usage"] = Usage(**usage)
    calls = [FunctionCall.from_dict(call) for call in form["function_calls"]]
    return LLMResponse(form["content"], calls or None, form["finish_reason"], metadata, form["raw_response"])


def error_form(error: Exception) -> dict[str, Any]:
    """A failure as JSON data."""
    if not isinstance(error, ProviderError):
        return {"type": type(error).__name__, "message": str(error)}
    facts = {name: value for name in _FACTS if (value := getattr(error, name)) is not None}
    return {"type": type(error).__name__, "message": error.message, **facts, "should_retry": error.retryable}


def _error(form: dict[str, Any]) -> Exception:
    """The same error; one that is not of this package's becomes a `ProviderError` that names it."""
    kind = getattr(errors, form["type"], None)
    if isinstance(kind, type) and issubclass(kind, ProviderError):
        return kind(form["message"], **{key: value for key, value in form.items() if key not in ("type", "message")})
    if isinstance(kind, type) and issubclass(kind, errors.NbagentError):
        return kind(form["message"])
    return ProviderError(f"{form['type']}: {form['message']}")


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


# -- the file ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[list[Recorded], int]:
    """The exchanges in a file, and the length of its whole lines in bytes: a last line that is torn is left out.

    Raises ConfigurationError for what is no recording, or is of a newer version.
    """
    found: list[Recorded] = []
    whole = 0
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise ConfigurationError(f"no recording can be read from {str(path)!r}: {error.strerror or error}") from None
    known = {each.name for each in fields(Recorded)}
    for number, line in enumerate(lines):
        if not line.endswith(b"\n"):
            break
        try:
            data = json.loads(line)
            if number:
                found.append(Recorded(**{key: value for key, value in data.items() if key in known}))
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigurationError(f"{str(path)!r} is no recording: line {number + 1}: {error}") from None
        if number == 0:
            _check(path, data)
        whole += len(line)
    return found, whole


def _check(path: Path, head: Any) -> None:
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ConfigurationError(f"{str(path)!r} is no recording: nbagent.record(path) makes one")
    if head.get("version") != VERSION:
        raise ConfigurationError(
            f"{str(path)!r} is of version {head.get('version')!r} of the format, and this nbagent reads version "
            f"{VERSION}: update nbagent"
        )


class Writer:
    """Appends exchanges to a file. `keep` is the length in bytes of what is there and stays; None begins a new file.

    The file is touched with the first exchange, so that a recording that records nothing destroys nothing.
    """

    def __init__(self, path: Path, keep: int | None, scrub: Callable[[str], str]) -> None:
        self._path, self._keep, self._scrub = path, keep, scrub
        self._begun = False
        self._lock = threading.Lock()

    def write(self, exchange: Recorded) -> None:
        """Append one line, secrets taken out."""
        line = self._scrub(as_text({each.name: getattr(exchange, each.name) for each in fields(exchange)})) + "\n"
        with self._lock:
            with self._path.open("ab") as file:
                if not self._begun:
                    file.truncate(self._keep or 0)
                    if not self._keep:
                        line = as_text({"format": FORMAT, "version": VERSION}) + "\n" + line
                file.write(line.encode())
            self._begun = True


# -- what is recorded or played now -----------------------------------------------------------------------------------


class Tape(Protocol):
    """What the agent asks of a recording that is made or played."""

    #: Whether it never asks the model itself.
    plays_alone: bool
    #: Whose answers it plays.
    vendors: frozenset[str]

    def taped(self, provider: Provider, tools: Tools) -> tuple[Provider, Tools]:
        """A provider that records what this one answers, or plays what it once did; and its tools."""
        ...


_running: list[Tape] = []


def current() -> Tape | None:
    """The tape of this process, the one that began last; None where there is none."""
    return _running[-1] if _running else None


def running() -> Sequence[Tape]:
    """All tapes that began and did not end, the current one last."""
    return tuple(_running)


def begin(tape: Tape) -> None:
    """From now on all agents of the process are recorded or played, whatever thread or cell they work in."""
    end(tape)
    _running.append(tape)


def end(tape: Tape) -> None:
    """No more; the one that was there before goes on."""
    if tape in _running:
        _running.remove(tape)
