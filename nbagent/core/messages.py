"""The provider-neutral message model: messages, tool calls, answers and token counts.

All classes are frozen. Only the contents of the field `encoded`, a cache for codecs and traces, change. `to_dict` and
`from_dict` convert to and from JSON data. Roles and fields are named as in the chat-completions API. Token counts
follow OpenTelemetry (https://opentelemetry.io/docs/specs/semconv/gen-ai/).
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from nbagent.core.content.images import content_as_text
from nbagent.text import shortened

Role = Literal["system", "user", "assistant", "tool"]

#: How much of each value the `repr` of a message or a result shows.
REPR_CHARS = 300

#: Tool calls are refused if their arguments are longer than this as JSON, or nested more deeply.
MAX_ARGUMENT_CHARS, MAX_ARGUMENT_DEPTH = 1_000_000, 100

#: Text, or a list of parts: `{"type": "text", "text": str}`, or an image as in `nbagent.core.content.images`.
Content = str | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A tool call that a model made.

    If the arguments are not a JSON object, `raw` is their text and `arguments` is empty. Such a call never runs: its
    result is an error for the model.

    >>> FunctionCall("get_weather", {"city": "Berlin"}, "call_1").to_dict()
    {'name': 'get_weather', 'arguments': {'city': 'Berlin'}, 'id': 'call_1'}
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    raw: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the call as JSON data. `raw` is included only if it is set."""
        data: dict[str, Any] = {"name": self.name, "arguments": self.arguments, "id": self.id}
        return data if self.raw is None else {**data, "raw": self.raw}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FunctionCall:
        """The inverse of `to_dict`."""
        return cls(data["name"], data.get("arguments") or {}, data.get("id"), data.get("raw"))


#: Fields that `LLMMessage.to_dict` omits unless they are set.
_OPTIONAL = (
    *str.split("name tool_call_id provider_extras is_error interrupted pinned is_summary is_correction cell_id"),
)


@dataclass(frozen=True, slots=True, repr=False)
class LLMMessage:
    """One message of a conversation.

    - `tool_calls`: in assistant messages
    - `tool_call_id`, `name` (of the function): in tool messages. In an assistant message, `name` is the team member who
      spoke, and is never sent to a provider.
    - `provider_extras`: data that a provider expects back (`{"provider": "claude", ...}`). It is sent only to that
      provider, byte for byte.
    - `is_error`: whether a tool message reports a failure
    - `interrupted`: whether an assistant message was cut off
    - `pinned`: whether the message is kept when a long history is shortened
    - `is_summary`: whether this user message replaces dropped messages of a long history
    - `is_correction`: whether this user message asks the model to correct its answer. Such a message belongs to the
      turn of the prompt.
    - `cell_id`: the notebook cell of this prompt. Running the cell again sends the prompt again.
    """

    role: Role
    content: Content = ""
    name: str | None = None
    tool_calls: list[FunctionCall] | None = None
    tool_call_id: str | None = None
    provider_extras: Any = None
    is_error: bool = False
    interrupted: bool = False
    pinned: bool = False
    is_summary: bool = False
    is_correction: bool = False
    cell_id: str | None = field(default=None, repr=False, compare=False)
    #: Encoded forms by codec, so a long conversation is encoded only once. Also the message's id in each trace.
    encoded: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    #: Identifies its row in traces. It is set when a message enters a conversation through `chat` or as an answer.
    #: System messages, loaded messages and edited messages have none.
    message_id: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.content, str) and not self.content.isascii():
            object.__setattr__(self, "content", well_formed(self.content))

    def __repr__(self) -> str:
        """`LLMMessage('user', 'Hello')`: the role, the content and the fields that are set, shortened."""
        parts = isinstance(self.content, list) and all(isinstance(part, Mapping) for part in self.content)
        shown = [repr(self.role), short_repr(content_as_text(self.content) if parts else self.content)]
        others = [f.name for f in fields(self) if f.repr and f.name not in ("role", "content")]
        shown += [f"{name}={short_repr(value)}" for name in others if (value := getattr(self, name))]
        return f"LLMMessage({', '.join(shown)})"

    @property
    def text(self) -> str:
        """The text of the content, without images."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.get("text", "") for part in self.content if part.get("type") == "text")

    @property
    def opens_turn(self) -> bool:
        """Whether this message starts a turn of the conversation. The turn ends before the next message that starts
        one.
        """
        return self.role == "user" and not (self.is_summary or self.is_correction)

    def to_dict(self) -> dict[str, Any]:
        """Return the message as JSON data, without fields that have their default values."""
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            data["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        for key in _OPTIONAL:
            if value := getattr(self, key):
                data[key] = value
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LLMMessage:
        """The inverse of `to_dict`. Also accepts the chat-completions form of `tool_calls` (`{"function": {...}}`).

        The `function_call` of early chat-completions APIs becomes a call without an id.
        """
        known = {f.name for f in fields(cls)} - {"encoded", "message_id", "tool_calls"}
        values = {key: value for key, value in data.items() if key in known}
        values["content"] = values.get("content") or ""
        single = data.get("function_call")
        calls = [_call_from(item) for item in data.get("tool_calls") or ([{"function": single}] if single else [])]
        return cls(**values, tool_calls=calls or None)

    def replace(self, **changes: Any) -> LLMMessage:
        """Return a copy with changed fields and without encoded forms."""
        return replace(self, encoded={}, **changes)


def index_of(message: LLMMessage | None, messages: Sequence[LLMMessage]) -> int | None:
    """Return the index of this very object, not of an equal one, or None if it is missing."""
    return next((index for index in range(len(messages) - 1, -1, -1) if messages[index] is message), None)


def short_repr(value: Any) -> str:
    """Return the value's `repr`, shortened."""
    return repr(shortened(value, REPR_CHARS)) if isinstance(value, str) else shortened(repr(value), REPR_CHARS)


def _call_from(data: dict[str, Any]) -> FunctionCall:
    if isinstance(data.get("function"), dict):
        function = data["function"]
        arguments, raw = parse_arguments(function.get("arguments"))
        return FunctionCall(function.get("name", ""), arguments, data.get("id"), raw)
    return FunctionCall.from_dict(data)


def parse_arguments(text: Any) -> tuple[dict[str, Any], str | None]:
    """Convert a provider's arguments to `(arguments, raw)`. `raw` is set only if they are not an acceptable JSON
    object.

    `""`, `None` and `null` mean no arguments. A JSON object inside a JSON string is unwrapped once. Arguments that are
    too long or too deeply nested, or contain numbers that JSON does not allow, become `raw`. If they are too long,
    `raw` is cut off.
    """
    if text is None or text == "":
        return {}, None
    if isinstance(text, str) and len(text) > MAX_ARGUMENT_CHARS:
        return {}, text[: MAX_ARGUMENT_CHARS + 1]
    value = text
    for _ in range(2):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            break
    if value is None:
        return {}, None
    if _depth(value) > MAX_ARGUMENT_DEPTH:
        return {}, text if isinstance(text, str) else json.dumps(value)
    if isinstance(value, dict) and _is_json(value):
        return value, None
    return {}, text if isinstance(text, str) else json.dumps(text)


def fault_in(raw: str) -> str:
    """Describe the problem with a JSON text's size, depth or numbers; "" if there is none. Raises ValueError if the
    text is not JSON.
    """
    if len(raw) > MAX_ARGUMENT_CHARS:
        return f"must be shorter than {MAX_ARGUMENT_CHARS:,} characters"
    too_deep = f"must be nested at most {MAX_ARGUMENT_DEPTH} levels deep"
    try:
        value = json.loads(raw)
    except RecursionError:
        return too_deep
    if _depth(value) > MAX_ARGUMENT_DEPTH:
        return too_deep
    return "" if _is_json(value) else "must not contain NaN or infinite numbers, which JSON does not have"


#: `json.dumps` would create an encoder for each value.
_STRICT_JSON = json.JSONEncoder(allow_nan=False)


def _is_json(value: Any) -> bool:
    """Whether other languages can read the value as JSON. Python accepts `NaN`, and reads `1e999` as infinity."""
    try:
        _STRICT_JSON.encode(value)
    except ValueError:
        return False
    return True


def _depth(value: Any) -> int:
    """How deeply lists and dicts are nested. Not recursive, because deep values exceed the recursion limit."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def new_id(kind: str) -> str:
    """Return a short unique id, such as `run_5f0c6a…`."""
    return f"{kind}_{os.urandom(8).hex()}"


def well_formed(text: str) -> str:
    """Return the text in a form that can be encoded. Surrogate pairs are joined, and lone surrogates are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of one or more requests. Input includes cached tokens, and output includes reasoning tokens.

    >>> Usage(10, 5) + Usage(1, 1)
    Usage(input_tokens=11, output_tokens=6, cache_read_tokens=0, cache_write_tokens=0, reasoning_tokens=0)
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(operator.add, _counts(self), _counts(other)))

    def maximum(self, other: Usage) -> Usage:
        """Return the larger of the two values for each count."""
        return Usage(*map(max, _counts(self), _counts(other)))

    def to_dict(self) -> dict[str, int]:
        """Return the counts as JSON data."""
        return dict(zip(Usage.__slots__, _counts(self), strict=True))


_counts: Callable[[Usage], tuple[int, ...]] = operator.attrgetter(*Usage.__slots__)


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """One complete answer from a model.

    `raw_response` becomes the `provider_extras` of the assistant message. `metadata` may contain:

    - `thinking`: text
    - `usage`: a `Usage`; `usage_raw`: the provider's own counts, a dict
    - `usage_estimated`: True if a count is an estimate. False if all counts are exact, even zeros, as for rule-based
      answers
    - `model`, `response_id`, `finish_reason_raw`
    - `quoted`: True if the answer quotes a tool's result
    - `no_tool`: True if a small model answered from memory although tools were on offer
    - `citations`: a list of `nbagent.core.citations.Citation`
    - `provider_calls`: calls to tools that the provider ran itself (see `nbagent.core.provider_calls`)
    - `parts`: the content parts in order, if the answer has images. `content` is then only the text
    """

    content: str
    function_calls: list[FunctionCall] | None = None
    finish_reason: str | None = None
    metadata: dict[str, Any] | None = None
    raw_response: Any = None
    #: Encoded forms of the assistant message, as in `LLMMessage`. A changed copy has no encoded forms.
    encoded: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", self.content or "")  # many APIs send null with tool calls

    @property
    def usage(self) -> Usage:
        """The token counts; zeros if the provider sent none."""
        usage = (self.metadata or {}).get("usage")
        return usage if isinstance(usage, Usage) else Usage()

    @property
    def is_counted(self) -> bool:
        """Whether all token counts come from the provider."""
        metadata = self.metadata or {}
        return "usage" in metadata and metadata.get("usage_raw") != {} and not metadata.get("usage_estimated")

    @property
    def message_content(self) -> Content:
        """The content of the assistant message: the text or, with images, the parts in order."""
        return (self.metadata or {}).get("parts") or self.content or ""


#: Notes for readers about an answer's origin, by name in `LLMResponse.metadata` and `trace.calls`.
ORIGINS = {
    "quoted": "quoted from the tool",
    "no_tool": "no tool was used: this small model's own knowledge is unreliable "
    "(use the tool's words, or a larger model)",
}


def origin_note(facts: Mapping[str, Any]) -> str:
    """Return the note for readers from an answer's metadata, or from its row in `trace.calls`; "" if there is none."""
    return next((words for name, words in ORIGINS.items() if facts.get(name)), "")
