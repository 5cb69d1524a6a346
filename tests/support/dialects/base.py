"""What all dialects share: how a neutral reply becomes bytes, and what is read from a checked request."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from support.dialects.script import Failure, Reply
from support.loopback import Answer, Request

JSON = {"content-type": "application/json"}
#: HTTP status by what is wrong; a vendor may have others.
STATUS = {"invalid": 400, "key": 401, "missing": 404, "rate_limit": 429, "overloaded": 503, "context": 400}


class RefusedError(Exception):
    """The vendor refuses the request."""

    def __init__(self, message: str, kind: str = "invalid"):
        super().__init__(message)
        self.kind = kind


def require(condition: Any, message: str, kind: str = "invalid") -> None:
    """Refuse unless the condition holds."""
    if not condition:
        raise RefusedError(message, kind)


@dataclass(frozen=True)
class Asked:
    """What one request asks for, read from the vendor's form."""

    raw: bytes
    body: dict[str, Any]
    stream: bool
    model: str
    #: The conversation alone: list of messages, items or contents.
    turns: list[dict[str, Any]]
    system: str = ""
    limit: int | None = None
    temperature: float | None = None
    #: Base64 data.
    images: list[str] = field(default_factory=list)


class Dialect(ABC):
    """One format as one vendor speaks it. It keeps no state: the caller passes what was `issued`."""

    #: After the server's address: what a user gives as `base_url`.
    base_path: ClassVar[str] = ""
    #: The field of a body that holds the conversation.
    conversation: ClassVar[str] = "messages"
    #: Neutral finish reason -> the vendor's word.
    words: Mapping[str, str]
    #: A word that means nothing to anybody.
    new_word: ClassVar[str] = "gave_up_the_ghost"
    #: Whether thinking is shown at all, and whether it has to come back.
    thinks: bool = True
    wants_thinking_back: bool = True
    #: Which of these the vendor counts.
    counts_written: bool = False
    #: Ids of calls may be of any form, and come again in the next answer; functions may be made up.
    careless: bool = False
    takes_temperature: bool = True
    #: The row's own model takes images.
    sees: bool = True
    least_temperature: float = 0.0
    #: A further field of the body as a user gives it, and where it has to be.
    extra: ClassVar[tuple[str, Any]] = ("top_p", 0.9)
    #: What the vendor says, by kind of failure.
    texts: Mapping[str, str]

    # ------------------------------------------------------------------ the answer

    @abstractmethod
    def beginning(self, reply: Reply, asked: Asked) -> list[Any]:
        """The stream's events, without those that mark its end."""

    @abstractmethod
    def ending(self, reply: Reply, asked: Asked) -> list[Any]:
        """The events that mark the end, with usage."""

    @abstractmethod
    def whole(self, reply: Reply, asked: Asked) -> dict[str, Any]:
        """The same answer as one JSON body."""

    @abstractmethod
    def error_event(self) -> Any:
        """An error in the middle of a stream."""

    @abstractmethod
    def noise(self) -> list[Any]:
        """Events that nbagent must ignore."""

    @abstractmethod
    def error_body(self, kind: str, message: str) -> dict[str, Any]:
        """The body of an HTTP error."""

    def issued(self, reply: Reply, asked: Asked) -> Any:
        """The parts of an answer that have to come back, in the form in which they have to."""
        return self.whole(reply, asked)

    def status(self, kind: str) -> int:
        """The HTTP status of a failure."""
        return STATUS[kind]

    # ------------------------------------------------------------------ the request

    @abstractmethod
    def key(self, headers: Mapping[str, str]) -> str | None:
        """The key that a request brought."""

    @abstractmethod
    def read(self, request: Request) -> Asked:
        """The request, parsed. Raises `RefusedError` for another path or an unreadable body."""

    @abstractmethod
    def check(self, asked: Asked, issued: Sequence[Any]) -> None:
        """Raise `RefusedError` if the vendor would refuse the request. `issued` is what this server said before."""

    def without_marks(self, raw: bytes) -> bytes:
        """A body without the fields that do not matter for the vendor's cache."""
        return raw

    # ------------------------------------------------------------------ bytes

    def answer(self, reply: Reply, asked: Asked) -> Answer:
        """The HTTP answer."""
        if asked.stream:
            end = "stall" if reply.fault == "stall" else "close"
            return Answer(self._stream(reply, asked), end=end, step=reply.step)
        if reply.fault == "error":
            return Answer(encoded(self.error_event()), headers=JSON)
        if reply.fault == "stall":
            return Answer(headers=JSON, end="stall")
        body = encoded(self.whole(reply, asked))
        return Answer(body[: len(body) // 2] if reply.fault == "end" else body, headers=JSON, step=reply.step)

    def failure(self, failure: Failure, message: str = "") -> Answer:
        """The HTTP error."""
        body = self.error_body(failure.kind, message or self.texts[failure.kind])
        return Answer(encoded(body), self.status(failure.kind), {**JSON, **dict(failure.headers)})

    def _stream(self, reply: Reply, asked: Asked) -> bytes:
        events = self.beginning(reply, asked)
        if reply.fault == "error":
            events.append(self.error_event())
        elif not reply.fault:
            events += self.ending(reply, asked)
        blocks = [self._block(event) for event in events]
        if reply.noise:
            strange = [": comment", *map(self._block, self.noise())]
            blocks = [item.replace("data: ", "data:", 1) for block in blocks for item in (*strange, block)]
        return "".join(f"{block}\n\n" for block in blocks).replace("\n", reply.newline).encode()

    def _block(self, event: Any) -> str:
        """One event's lines. Events that have a type are named by it."""
        if isinstance(event, str):
            return f"data: {event}"
        name = f"event: {event['type']}\n" if isinstance(event.get("type"), str) else ""
        return f"{name}data: {encoded(event).decode()}"


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def parsed(request: Request) -> dict[str, Any]:
    """A JSON object as body."""
    require("application/json" in request.headers.get("content-type", ""), "Content-Type must be application/json")
    try:
        body = json.loads(request.body)
    except ValueError:
        raise RefusedError("We could not parse the JSON body of your request.") from None
    require(isinstance(body, dict), "the body is not an object")
    return body


def bearer(headers: Mapping[str, str]) -> str | None:
    """The key in the Authorization header."""
    kind, _, key = headers.get("authorization", "").partition(" ")
    return key if kind == "Bearer" else None


def known_fields(body: Mapping[str, Any], known: Iterable[str] | None, text: str) -> None:
    """Refuse unknown fields; `text` is a template for the field's name."""
    for name in body:
        require(known is None or name in known, text.replace("{}", name))


def schema_is_plain(schema: Any, what: str) -> None:
    """The parameters of a function are a JSON Schema of an object."""
    require(isinstance(schema, dict), f"{what}: schema is missing")
    require(schema.get("type") == "object", f'{what}: schema must be of "type": "object", got {schema.get("type")!r}')
    require(isinstance(schema.get("properties", {}), dict), f"{what}: properties must be an object")


def answered_once(called: Sequence[str], results: Sequence[str], what: str) -> None:
    """Each call has exactly one result, and no result is an orphan."""
    for call_id in called:
        require(results.count(call_id) == 1, f"{what}: call {call_id!r} has {results.count(call_id)} results")
    for call_id in results:
        require(call_id in called, f"{what}: result of {call_id!r}, which nobody called")


def without_whole(blocks: Sequence[Any], issued: Sequence[Any]) -> list[Any]:
    """The rest of one side's words, after removing the answers that are repeated unchanged.

    Answers follow each other where the user said nothing in between; they are one message then.
    """
    rest = list(blocks)
    for mine in filter(None, issued):
        while (at := next((n for n in range(len(rest)) if rest[n : n + len(mine)] == mine), None)) is not None:
            rest[at : at + len(mine)] = []
    return rest
