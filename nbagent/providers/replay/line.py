"""The types of what stands in a line of a recording. A line that somebody edited is checked before it is used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from nbagent.core import events
from nbagent.core.messages import Usage

Json = dict[str, Any]


def _one_of(names: Iterable[str]) -> Any:
    return Field(pattern=f"^({'|'.join(names)})$")


_EventType = Annotated[str, _one_of(kind.type for kind in events.AnyEvent.__args__)]
_Count = Annotated[str, _one_of(Usage.__slots__)]


class _Call(TypedDict):
    name: str
    arguments: Json
    id: NotRequired[str | int | None]
    raw: NotRequired[str | None]


class _Message(TypedDict):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Json]
    name: NotRequired[str]
    tool_calls: NotRequired[list[_Call]]
    tool_call_id: NotRequired[int | None]
    is_error: NotRequired[bool]


class _Function(TypedDict):
    name: str | None
    description: str | None
    parameters: Json | None


class _Request(TypedDict):
    id: str
    after: NotRequired[str]
    messages: list[_Message]
    functions: NotRequired[list[_Function]]
    options: NotRequired[Json]


@with_config(extra="allow")
class _EventMetadata(TypedDict, total=False):
    wait_s: float | None


class _Item(TypedDict):
    at: float
    type: _EventType
    content: str
    tool_name: NotRequired[str | None]
    tool_arguments: NotRequired[Json | None]
    metadata: NotRequired[_EventMetadata]


@with_config(extra="allow")
class _Metadata(TypedDict, total=False):
    usage: dict[_Count, int]
    thinking: str
    model: str | int | float | None
    parts: list[Json]


class _Response(TypedDict):
    content: str
    function_calls: list[_Call]
    finish_reason: str | None
    metadata: _Metadata
    raw_response: Any


class _Error(TypedDict):
    type: str
    message: str
    vendor: NotRequired[str]
    model: NotRequired[str]
    status: NotRequired[int]
    code: NotRequired[str]
    request_id: NotRequired[str]
    retry_after: NotRequired[float]
    should_retry: NotRequired[bool]


class _Line(TypedDict):
    request: _Request
    vendor: str
    model: str
    started: float
    items: list[_Item]
    duration_s: float
    response: NotRequired[_Response | None]
    error: NotRequired[_Error | None]


_LINE: TypeAdapter[Any] = TypeAdapter(_Line)


def checked_line(data: Any) -> Json:
    """A line that has the types above, without other keys. Raises `ValueError`, which names the wrong place."""
    try:
        line: Json = _LINE.validate_python(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place or 'the line'}: {first['msg']}") from None
    if not line.get("response") and not line.get("error"):
        raise ValueError("neither a response nor an error")
    return line
