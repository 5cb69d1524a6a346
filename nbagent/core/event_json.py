"""Events as JSON data and back, for a client that records and shows a run of another process as if it were its own.

The data has the five items of `Event.to_dict()`, and the event's own fields: messages, response, outcome, result,
exchange, exception. What JSON can't hold becomes text. Of an exception go its type, its text and the public attributes
of nbagent's errors; tracebacks stay where they are.

A message is written in full once for each `SharedMessages`, and then by its number: each request holds the whole
conversation, and the trace knows its messages by identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, get_args

from nbagent import errors
from nbagent.core.content.images import Image
from nbagent.core.events import KEYS, AnyEvent, TurnDone
from nbagent.core.history.saved import as_data, messages_from
from nbagent.core.http_exchange import Exchange
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, Usage, well_formed
from nbagent.core.results import AgentResult, ToolOutcome
from nbagent.errors import InvalidResponseError, NbagentError

#: Lists and dicts that are nested deeper become text.
MAX_DEPTH = 150

Data = dict[str, Any]


class SharedMessages:
    """The messages that both ends of a stream know. Each end has its own, which sees all events in order.

    A reader may pass messages that it has: it gets these, not copies, for messages with the same `message_id`.
    """

    def __init__(self, known: Mapping[str, LLMMessage] | None = None) -> None:
        #: The reader's messages, by `message_id`.
        self.known: dict[str, LLMMessage] = dict(known or {})
        self._messages: list[LLMMessage] = []
        self._numbers: dict[int, int] = {}  # by the `id` of a message, which lives as long as it is in the list

    def write(self, message: LLMMessage) -> Data:
        """The message as data."""
        if (number := self._numbers.get(id(message))) is not None:
            return {"number": number}
        self._numbers[id(message)] = number = len(self._messages)
        self._messages.append(message)
        data: Data = json_data(as_data(message))
        if not isinstance(data.get("provider_extras", {}), dict):  # not of a vendor
            del data["provider_extras"]
        return {"number": number, **data}

    def read(self, data: Data) -> LLMMessage:
        """The message that was written."""
        number = data["number"]
        if "role" not in data:
            return self._messages[number]
        if number != len(self._messages):
            raise ValueError(f"message {number} comes after {len(self._messages)} others")
        message = self.known.get(data.get("message_id") or "")
        if message is None:
            (message,) = messages_from([data], with_ids=True)
            if message.message_id:
                self.known[message.message_id] = message
        self._messages.append(message)
        return message

    def write_all(self, messages: Iterable[LLMMessage]) -> list[Data]:
        """The messages as data."""
        return [self.write(message) for message in messages]

    def read_all(self, data: list[Data]) -> list[LLMMessage]:
        """The messages that were written."""
        return [self.read(each) for each in data]


def event_to_json(event: AnyEvent, shared: SharedMessages | None = None) -> Data:
    """An event as JSON data. `shared` is the same for all events of a stream; without it the event stands alone.

    >>> from nbagent.core.events import Text
    >>> event_to_json(Text("Hi", metadata={"run_id": "run_1"}))["metadata"]
    {'run_id': 'run_1'}
    """
    shared = shared or SharedMessages()
    data: Data = json_data({**event.to_dict(), "type": event.type})
    for name in _own_fields(type(event)):
        if (value := getattr(event, name)) is not None:
            write, _ = _FIELDS[name]
            data[name] = write(value, shared)
    return data


def event_from_json(data: Data, shared: SharedMessages | None = None) -> AnyEvent | None:
    """The event in JSON data; None if its type is unknown: a newer nbagent wrote it.

    Raises InvalidResponseError if it is not an event.

    >>> event_from_json({"type": "text", "content": "Hi", "metadata": {"run_id": "run_1"}})
    Text(content='Hi', tool_name=None, tool_arguments=None, metadata={'run_id': 'run_1'})
    """
    shared = shared or SharedMessages()
    try:
        kind = _KINDS.get(data["type"])
        return None if kind is None else _event(kind, data, shared)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidResponseError(f"an event can't be read: {type(error).__name__}: {error}") from None


def json_data(value: Any, depth: int = MAX_DEPTH) -> Any:
    """The value as JSON data. What JSON can't hold becomes text: infinite numbers, objects, what is nested too deep.

    >>> json_data({1: (2, float("inf"))})
    {'1': [2, 'Infinity']}
    """
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case str():
            return well_formed(value)
        case Mapping() if depth:
            return {well_formed(str(key)): json_data(item, depth - 1) for key, item in value.items()}
        case list() | tuple() if depth:
            return [json_data(item, depth - 1) for item in value]
    return _text(value)


def _event(kind: type[AnyEvent], data: Data, shared: SharedMessages) -> AnyEvent:
    content, metadata, arguments = data["content"], data["metadata"], data.get("tool_arguments")
    tool = data.get("tool_name")
    if not isinstance(content, str) or not isinstance(tool, str | None) or not isinstance(arguments, dict | None):
        raise TypeError("content or tool_name is not text, or tool_arguments is not an object")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("run_id"), str):
        raise TypeError("metadata has no run_id")
    own = {name: _FIELDS[name][1](data[name], shared) for name in _own_fields(kind) if data.get(name) is not None}
    event = kind(content, tool, arguments, metadata, **own)
    if isinstance(event, TurnDone) and event.response is not None and event.message is not None:
        event.response = _with_message(event.response, event.message)
    return event


def _child_event(data: Data, shared: SharedMessages) -> AnyEvent:
    event = event_from_json(data, shared)
    if event is None:
        raise TypeError("the type of a child's event is unknown")
    return event


def _own_fields(kind: type[AnyEvent]) -> list[str]:
    return [each.name for each in fields(kind) if each.name not in KEYS and each.name in _FIELDS]


def _text(value: Any) -> str:
    try:
        return well_formed(str(value))
    except Exception:  # noqa: BLE001  `str()` of a user's class may raise anything
        return type(value).__name__


# -- the fields of events ---------------------------------------------------------------------------------------------


def _write_response(response: LLMResponse, _shared: SharedMessages) -> Data:
    """The response, without what its message has, too: the vendor's data, and the parts with images."""
    metadata = {name: value for name, value in (response.metadata or {}).items() if name != "parts"}
    if isinstance(usage := metadata.get("usage"), Usage):
        metadata["usage"] = usage.to_dict()
    return {
        "content": well_formed(response.content),
        "function_calls": [json_data(call.to_dict()) for call in response.function_calls or ()],
        "finish_reason": response.finish_reason,
        "metadata": json_data(metadata),
    }


def _read_response(data: Data, _shared: SharedMessages) -> LLMResponse:
    metadata = dict(data["metadata"])
    if "usage" in metadata:
        metadata["usage"] = Usage(**metadata["usage"])
    calls = [FunctionCall.from_dict(call) for call in data["function_calls"]]
    return LLMResponse(data["content"], calls or None, data["finish_reason"], metadata)


def _with_message(response: LLMResponse, message: LLMMessage) -> LLMResponse:
    """The response with what its message has."""
    parts = {} if isinstance(message.content, str) else {"parts": message.content}
    metadata = {**(response.metadata or {}), **parts}
    return replace(response, metadata=metadata, raw_response=message.provider_extras)


def _write_outcome(outcome: ToolOutcome, _shared: SharedMessages) -> Data:
    """The outcome. A value that is too large for the model, or that JSON can't hold, becomes its `repr`, shortened."""
    others = {each.name: getattr(outcome, each.name) for each in fields(outcome)}
    value = outcome.value_repr if outcome.truncated or not _is_data(outcome.value) else outcome.value
    error = None if outcome.error is None else _write_error(outcome.error)
    data: Data = json_data({**others, "call": outcome.call.to_dict(), "value": value, "error": error})
    return data


def _read_outcome(data: Data, _shared: SharedMessages) -> ToolOutcome:
    names = {each.name for each in fields(ToolOutcome)}
    values = {name: value for name, value in data.items() if name in names}
    values["call"] = FunctionCall.from_dict(data["call"])
    values["error"] = None if data.get("error") is None else _read_error(data["error"])
    return ToolOutcome(**values)


def _is_data(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether JSON can hold the value."""
    if isinstance(value, dict):
        keys = all(isinstance(key, str) for key in value)
        return keys and depth > 0 and all(_is_data(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_data(item, depth - 1) for item in value)
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _read_result(data: Data, _shared: SharedMessages) -> AgentResult:
    names = {each.name for each in fields(AgentResult)}
    values = {name: value for name, value in data.items() if name in names}
    images = [image for part in data["images"] if (image := Image.from_part(part)) is not None]
    return AgentResult(**{**values, "usage": Usage(**data["usage"]), "images": images})


def _write_error(error: BaseException, _shared: SharedMessages | None = None) -> Data:
    """Its type and text; of nbagent's own errors also the public attributes."""
    kind = type(error).__name__
    public = vars(error) if _OWN_ERRORS.get(kind) is type(error) else {}
    told = {name: value for name, value in public.items() if name != "partial" and _is_data(value)}
    return {"type": kind, "text": _text(error), "attributes": told}


def _read_error(data: Data, _shared: SharedMessages | None = None) -> NbagentError:
    """One of nbagent's own errors, or one with the name and the text of another."""
    name, text = str(data["type"]), str(data["text"])
    kind: type[NbagentError] = _OWN_ERRORS.get(name) or type(name, (NbagentError,), {"__module__": "remote"})
    error: NbagentError = Exception.__new__(kind, text)  # without its constructor: each has arguments of its own
    public = {key: value for key, value in data["attributes"].items() if not key.startswith("_")}
    error.__dict__.update(public)
    str(error)  # raises if an attribute is missing that its text needs
    return error


_OWN_ERRORS: dict[str, type[NbagentError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, NbagentError)
}
_KINDS: dict[str, type[AnyEvent]] = {kind.type: kind for kind in get_args(AnyEvent)}

_MESSAGE = (lambda message, shared: shared.write(message), lambda data, shared: shared.read(data))
_MESSAGES = (lambda messages, shared: shared.write_all(messages), lambda data, shared: shared.read_all(data))
_DATA = (lambda value, _: json_data(value), lambda data, _: data)
#: How the fields of events are written and read. `timing` is left out: it is known only later.
_FIELDS: dict[str, tuple[Callable[[Any, SharedMessages], Any], Callable[[Any, SharedMessages], Any]]] = {
    "messages": _MESSAGES,
    "after": _MESSAGE,
    "message": _MESSAGE,
    "tools": _DATA,
    "outputs": _DATA,
    "exchange": (
        lambda exchange, _: json_data({each.name: getattr(exchange, each.name) for each in fields(exchange)}),
        lambda data, _: Exchange(**{each.name: data.get(each.name) for each in fields(Exchange)}),
    ),
    "response": (_write_response, _read_response),
    "outcome": (_write_outcome, _read_outcome),
    "result": (lambda result, _: json_data(result.to_dict()), _read_result),
    "exception": (_write_error, _read_error),
    "event": (event_to_json, _child_event),
}
