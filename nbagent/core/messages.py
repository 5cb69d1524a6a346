"""The neutral message model: what is said, called, answered and counted, whoever the vendor is.

All classes are frozen values. `to_dict` and `from_dict` give and take plain JSON data. The names of roles and fields
follow the chat-completions vocabulary; token counts follow OpenTelemetry's rule: input includes cached tokens, output
includes reasoning tokens (https://opentelemetry.io/docs/specs/semconv/gen-ai/).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from secrets import token_hex
from typing import Any, Literal, get_args

from nbagent.core.content.images import Image, content_as_text, content_parts, image_part, is_image, unsupported_content
from nbagent.errors import ConfigurationError

Role = Literal["system", "user", "assistant", "tool"]

#: Characters of a text or another value in the `repr` of a message or a result, which hold the whole.
_SHOWN = 300

#: `str`, or a list of parts: `{"type": "text", "text": str}` or an image as `nbagent.core.content.images` describes it.
Content = str | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A tool call that a model made.

    `raw` is set only when the arguments did not arrive as a JSON object: it holds the text as sent, and `arguments`
    is then empty. Such a call is answered with an error for the model and never runs.

    >>> FunctionCall("get_weather", {"city": "Berlin"}, "call_1").to_dict()
    {'name': 'get_weather', 'arguments': {'city': 'Berlin'}, 'id': 'call_1'}
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    raw: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `raw` only where there is one."""
        data: dict[str, Any] = {"name": self.name, "arguments": self.arguments, "id": self.id}
        return data if self.raw is None else {**data, "raw": self.raw}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FunctionCall:
        """The inverse of `to_dict`."""
        return cls(data["name"], data.get("arguments") or {}, data.get("id"), data.get("raw"))


@dataclass(frozen=True, slots=True, repr=False)
class LLMMessage:
    """One message of a conversation.

    `tool_calls` belongs to assistant messages; `tool_call_id` and `name` (the function) to tool messages.
    `provider_extras` is what a vendor wants back unread (`{"vendor": "claude", ...}`): it is replayed byte for byte to
    that vendor and ignored by every other. `is_error` marks a tool message that reports a failure, `interrupted` an
    assistant message that was cut off, `pinned` one that is kept when a long history is made shorter, `is_summary` a
    user message that stands for what was made shorter.
    """

    role: str
    content: Content = ""
    name: str | None = None
    tool_calls: list[FunctionCall] | None = None
    tool_call_id: str | None = None
    provider_extras: Any = None
    is_error: bool = False
    interrupted: bool = False
    pinned: bool = False
    is_summary: bool = False
    #: Encoded forms, kept by codecs under a key of their own: a long conversation is encoded once.
    encoded: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    #: Names its row in traces. A message gets one when it enters a conversation through `chat` or as an answer; system
    #: messages, loaded ones and edited ones have none.
    message_id: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.content, str) and not self.content.isascii():
            object.__setattr__(self, "content", well_formed(self.content))

    def __repr__(self) -> str:
        """`LLMMessage('user', 'Hello')`: role, content and what else is set; images and long values in short."""
        parts = isinstance(self.content, list) and all(isinstance(part, Mapping) for part in self.content)
        shown = [repr(self.role), _in_short(content_as_text(self.content) if parts else self.content)]
        others = [f.name for f in fields(self) if f.repr and f.name not in ("role", "content")]
        shown += [f"{name}={_in_short(value)}" for name in others if (value := getattr(self, name))]
        return f"LLMMessage({', '.join(shown)})"

    @property
    def text(self) -> str:
        """The text of the content, image parts left out."""
        return text_of(self.content)

    @property
    def opens_turn(self) -> bool:
        """Whether the user speaks here: a turn is this message and all up to the next such one."""
        return self.role == "user" and not self.is_summary

    def to_dict(self) -> dict[str, Any]:
        """Plain data; fields with their default value are left out."""
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            data["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        for key in ("name", "tool_call_id", "provider_extras", "is_error", "interrupted", "pinned", "is_summary"):
            if value := getattr(self, key):
                data[key] = value
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LLMMessage:
        """The inverse of `to_dict`; takes chat-completions `tool_calls` (`{"function": {...}}`) too."""
        known = {f.name for f in fields(cls)} - {"encoded", "message_id", "tool_calls"}
        values = {key: value for key, value in data.items() if key in known}
        values["content"] = values.get("content") or ""
        calls = [_call_from(item) for item in data.get("tool_calls") or []]
        return cls(**values, tool_calls=calls or None)

    def replace(self, **changes: Any) -> LLMMessage:
        """A copy with other values; the encoded forms are not copied."""
        return replace(self, encoded={}, **changes)


def _in_short(value: Any) -> str:
    """Its `repr`, or the beginning of one that is long."""
    if isinstance(value, str) and len(value) > _SHOWN:
        return f"{value[:_SHOWN] + '…'!r}"
    text = repr(value)
    return text if isinstance(value, str) or len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _call_from(data: dict[str, Any]) -> FunctionCall:
    if isinstance(data.get("function"), dict):
        function = data["function"]
        arguments, raw = parse_arguments(function.get("arguments"))
        return FunctionCall(function.get("name", ""), arguments, data.get("id"), raw)
    return FunctionCall.from_dict(data)


def parse_arguments(text: Any) -> tuple[dict[str, Any], str | None]:
    """Arguments as a vendor sends them -> `(arguments, raw)`; `raw` is set when they are not a JSON object.

    `""`, `None` and `null` mean no arguments. A JSON string that holds a JSON object is unwrapped once.
    """
    import json

    if text is None or text == "":
        return {}, None
    value = text
    for _ in range(2):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value)
        except ValueError:
            break
    if value is None:
        return {}, None
    if isinstance(value, dict):
        return value, None
    return {}, text if isinstance(text, str) else json.dumps(text)


def new_id(kind: str) -> str:
    """A short unique name: `run_5f0c6a…`."""
    return f"{kind}_{token_hex(8)}"


def well_formed(text: str) -> str:
    """The text with halves of surrogate pairs joined, or replaced where one is alone: no other text can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def text_of(content: Content) -> str:
    """The text of a message's content, image parts left out."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if part.get("type") == "text")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request or a sum of several. Input includes cached tokens, output includes reasoning tokens.

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
        """Input and output."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def to_dict(self) -> dict[str, int]:
        """Plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """One complete answer of a model.

    `metadata` may hold: `thinking` (str), `usage` (`Usage`), `usage_raw` (the vendor's own dict), `finish_reason_raw`,
    `model`, `response_id`, `quoted` (True where an answer quotes a tool's result instead of the model's own words),
    `parts` (the content parts in order, where the answer holds images; `content` is its text alone).
    `raw_response` becomes the `provider_extras` of the assistant message.
    """

    content: str
    function_calls: list[FunctionCall] | None = None
    finish_reason: str | None = None
    metadata: dict[str, Any] | None = None
    raw_response: Any = None

    def __post_init__(self) -> None:
        content: Any = self.content
        if content is None:  # as many APIs have it where there are but calls
            object.__setattr__(self, "content", "")

    @property
    def usage(self) -> Usage:
        """The token counts; zeros where the vendor gave none."""
        usage = (self.metadata or {}).get("usage")
        return usage if isinstance(usage, Usage) else Usage()

    @property
    def is_counted(self) -> bool:
        """Whether the vendor counted the tokens."""
        metadata = self.metadata or {}
        return "usage" in metadata and metadata.get("usage_raw") != {}

    @property
    def message_content(self) -> Content:
        """The content of the assistant's message: the text, or text and images in order where there are images."""
        return (self.metadata or {}).get("parts") or self.content or ""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What came of one tool call, for the model (`content`), for the caller (`value`) and for the trace (the rest)."""

    call: FunctionCall
    content: Content
    value: Any = None
    is_error: bool = False
    error: BaseException | None = None
    args_valid: bool = True
    validation_error: str | None = None
    repaired: bool = False
    approval: str = "auto"
    truncated: bool = False
    result_chars: int = 0
    started: float = 0.0  # seconds since the epoch
    duration_s: float = 0.0
    function_version: str = ""
    cell_id_of_definition: str | None = None
    value_repr: str = ""
    denied: bool = False


@dataclass(slots=True, repr=False)
class AgentResult:
    """What a run gave. `result["content"]` works too, and `str(result)` is the content; its `repr` is short.

    `function_calls` are dicts `{id, name, arguments, result, is_error, duration_s}`; `iterations` counts model
    requests; `status` is ok, limit, denied, interrupted or error; `cost` is in US dollars, None where unknown.
    `images` are those that the model made: they display themselves in a notebook and have `save(path)` and `to_pil()`.
    """

    content: str = ""
    function_calls: list[dict[str, Any]] = field(default_factory=list)
    iterations: int = 0
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    run_id: str = ""
    status: str = "ok"
    limit_reason: str | None = None
    images: list[Image] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        if key not in self.keys():
            raise KeyError(f"{key!r}: a result has {', '.join(self.keys())}")
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """As for a mapping."""
        return getattr(self, key) if key in self.keys() else default

    def keys(self) -> tuple[str, ...]:
        """The field names, so that `dict(result)` works."""
        return tuple(self.__dataclass_fields__)

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        """`<AgentResult ok: 'It is sunny.', 1 tool call, 262 tokens, $0.0012>`, for the last line of a cell."""
        status = f"{self.status} ({self.limit_reason})" if self.limit_reason else self.status
        counts = (
            (len(self.function_calls), "tool call"),
            (len(self.images), "image"),
            (self.usage.total_tokens, "token"),
        )
        facts = [f"{number:,} {thing}{'' if number == 1 else 's'}" for number, thing in counts if number]
        facts += [f"${self.cost:.4f}"] if self.cost else []
        return f"<AgentResult {', '.join([f'{status}: {_in_short(self.content)}', *facts])}>"


def listed(message: Any) -> list[Any] | None:
    """The items of what a user passed to `chat`; None where it is one text, message or image."""
    if isinstance(message, str | LLMMessage | Mapping) or is_image(message):
        return None
    if not isinstance(message, Sequence | Iterator):  # other iterables are data: the names of a frame's columns
        raise unsupported_content(message)
    return list(message)


def is_message(item: Any) -> bool:
    """Whether an item is a whole message, rather than a part of one."""
    return isinstance(item, LLMMessage) or (isinstance(item, Mapping) and "role" in item)


def as_messages(message: Any) -> list[LLMMessage]:
    """What a user may pass to `chat` -> messages: a text, an image, a list of texts, images and content parts; a
    message, or a list of messages or dicts. Raises `ConfigurationError` for anything else.

    >>> as_messages(["What is this?", {"type": "image", "url": "https://example.org/cat.png"}])[0].text
    'What is this?'
    """
    if isinstance(message, str):
        return [LLMMessage("user", message)]
    items = listed(message)
    if items is None:
        items = [message]
    if not any(map(is_message, items)):
        return [LLMMessage("user", content_parts(items))] if items else []
    return [_as_message(item) for item in items]


def _as_message(item: Any) -> LLMMessage:
    """A message of a role that there is, whose content, where it is a list, is made of parts."""
    if not is_message(item):
        raise ConfigurationError(
            f"{item!r:.60} is no message: in a list of messages each has its role, as in "
            '{"role": "user", "content": "…"}'
        )
    try:
        message = item if isinstance(item, LLMMessage) else LLMMessage.from_dict({**item, "content": _content(item)})
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{item!r:.200} is no message that can be read: {error!r}") from None
    if message.role not in get_args(Role):
        message = message.replace(role=_known_role(message.role))
    if isinstance(message.content, str):
        return message
    parts = content_parts(listed(message.content) or []) if message.content else ""
    return message if parts == message.content else message.replace(content=parts)


def _known_role(role: Any) -> str:
    """The role by our name for it."""
    if role == "developer":  # what OpenAI calls system messages of late
        return "system"
    raise ConfigurationError(f"{role!r} is no role of a message: there are {', '.join(get_args(Role))}")


def _content(item: Mapping[str, Any]) -> Any:
    content = item.get("content")
    return [image_part(content)] if is_image(content) else content
