"""The base of all dialects: encodes neutral replies, and reads checked requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator

from support.dialects.script import Failure, Reply
from support.loopback import Answer, Request

JSON = {"content-type": "application/json"}
#: HTTP status by problem; a provider may have others. 500 is llama.cpp's for template errors.
STATUS = {"invalid": 400, "key": 401, "missing": 404, "rate_limit": 429, "overloaded": 503, "context": 400}
STATUS |= {"roles": 500}


class RefusedError(Exception):
    def __init__(self, message: str, kind: str = "invalid"):
        super().__init__(message)
        self.kind = kind


def require(condition: Any, message: str, kind: str = "invalid") -> None:
    if not condition:
        raise RefusedError(message, kind)


@dataclass(frozen=True)
class Asked:
    """A request, read from the provider's form."""

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


class Dialect:
    """One format as one provider speaks it; `facts` are those below. It keeps no state: callers pass what was `issued`.

    A format also says the stream's events before its end (`beginning`) and those that mark it (`ending`), the same
    answer as one body (`whole`), events to be ignored (`noise`), the body of an HTTP error (`error_body`), what to read
    of a request's body (`details`), and how it is judged (`check`, which raises `RefusedError`).
    """

    #: After the server's address: what a user gives as `base_url`; the path of requests; the body's conversation.
    base_path = ""
    path = ""
    conversation = "messages"
    #: Neutral finish reason -> the provider's word; and one that means nothing to anybody.
    words: Mapping[str, str]
    new_word = "gave_up_the_ghost"
    #: Whether thinking is shown, and whether it has to come back.
    thinks: bool = True
    wants_thinking_back: bool = True
    #: Whether tokens written to a cache are counted.
    counts_written: bool = False
    #: Call ids may have any form and recur in the next answer, and functions may be made up.
    careless: bool = False
    #: Prefixes of models that refuse a temperature, and the lowest temperature.
    cool: tuple[str, ...] = ()
    least_temperature: float = 0.0
    #: Whether the default model accepts images.
    sees: bool = True
    #: A further field of the body as a user gives it, and where it has to be.
    extra: tuple[str, Any] = ("top_p", 0.9)
    #: The provider's messages, by kind of failure.
    texts: Mapping[str, str]

    def __init__(self, **facts: Any):
        assert all(hasattr(self, name) for name in facts), facts
        vars(self).update(facts)

    @property
    def takes_temperature(self) -> bool:
        return not self.cool

    def takes(self, asked: Asked) -> bool:
        return asked.temperature is None or not asked.model.startswith(self.cool or ("\0",))

    def key(self, headers: Mapping[str, str]) -> str | None:
        """The key in a request."""
        kind, _, key = headers.get("authorization", "").partition(" ")
        return key if kind == "Bearer" else None

    def read(self, request: Request) -> Asked:
        """The request, parsed."""
        require(request.path == self.path, f"Invalid URL (POST {request.path})", "missing")
        require("application/json" in request.headers.get("content-type", ""), "Content-Type must be application/json")
        body = loads(request.body)
        turns = body[self.conversation]
        require(isinstance(turns, list) and turns, f"{self.conversation} is a required property")
        return self.asked(request, body, turns, body["model"], body.get("stream") is True)

    def asked(self, request: Request, body: dict[str, Any], turns: list[Any], model: str, stream: bool) -> Asked:
        details = self.details(body, turns)
        return Asked(request.body, body, stream, model, turns, temperature=body.get("temperature"), **details)

    def word(self, reply: Reply) -> str:
        return reply.word or self.words[reply.finish]

    def issued(self, reply: Reply, asked: Asked) -> Any:
        """The parts of an answer that have to come back, in the required form."""
        return self.whole(reply, asked)

    def error_event(self) -> Any:
        """An error in the middle of a stream."""
        return self.error_body("overloaded", self.texts["overloaded"])

    def status(self, kind: str) -> int:
        return STATUS[kind]

    def without_marks(self, raw: bytes) -> bytes:
        """A body without the fields that do not matter for the provider's cache."""
        return raw

    def answer(self, reply: Reply, asked: Asked) -> Answer:
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


def loads(text: str | bytes) -> Any:
    """Parse JSON as other languages do. Raises ValueError for NaN and numbers that are too large."""
    value = json.loads(text)
    json.dumps(value, allow_nan=False)
    return value


def known_fields(body: Mapping[str, Any], known: Iterable[str] | None, text: str) -> None:
    """Refuse unknown fields; `text` is a template for the field's name."""
    for name in body:
        require(known is None or name in known, text.replace("{}", name))


def check_function(function: Mapping[str, Any], schema: str, name: str, where: str) -> None:
    """Check a function's name, description and JSON Schema."""
    require(re.fullmatch(name, function["name"]), f"{where}.name: string does not match pattern")
    require(isinstance(function.get("description", ""), str), f"{where}.description is not a string")
    require(function[schema]["type"] == "object", f'{where}: schema must be of "type": "object"')
    require(isinstance(function[schema].get("properties", {}), dict), f"{where}: properties must be an object")
    _RULES[schema](function[schema], f"{where}.{schema}")


def _check_for_claude(schema: Mapping[str, Any], where: str) -> None:
    odd = {"oneOf", "allOf", "anyOf"} & schema.keys()
    require(not odd, f"{where}: input_schema does not support oneOf, allOf, or anyOf at the top level")
    draft = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    valid = "2020-12" in schema.get("$schema", "2020-12") and draft.is_valid(schema)
    require(valid, f"{where}: JSON schema is invalid. It must match JSON Schema draft 2020-12")
    names = [name for inner in _schemas_in(schema) for name in inner.get("properties", ())]
    fitting = all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in names)
    require(fitting, f"{where}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'")


def _check_for_openai(schema: Mapping[str, Any], where: str) -> None:
    odd = {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys()
    require(not odd, f"{where}: schema must not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.")
    for inner in _schemas_in(schema):
        is_array = "array" in inner.get("type", ()) or "prefixItems" in inner
        require(not is_array or "items" in inner, f"{where}: array schema missing items.")
        require(isinstance(inner.get("items", {}), Mapping), f"{where}: items is not of type 'object', 'boolean'.")


def check_strict(schema: Mapping[str, Any], context: str = "()") -> None:
    """Check a schema against OpenAI's `strict` rules, for a whole answer or a function."""
    for inner in _schemas_in(schema):
        odd = {"default", "oneOf", "allOf", "not", "discriminator", "prefixItems", "uniqueItems"} & inner.keys()
        require(not odd, f"Invalid schema for response_format: In context={context}, {sorted(odd)} is not permitted.")
        alone = "$ref" not in inner or inner.keys() == {"$ref"}
        require(alone, f"In context={context}, $ref cannot have keywords {sorted(inner)}.")
        if inner.get("type") == "object":
            whole = inner.get("required") == list(inner["properties"]) and inner["additionalProperties"] is False
            require(whole, "'required' is required to include every key, 'additionalProperties' to be false")


_RULES = {"input_schema": _check_for_claude, "parameters": _check_for_openai}


def _schemas_in(schema: Any) -> Iterator[Mapping[str, Any]]:
    """A JSON Schema and all schemas in it."""
    if isinstance(schema, Mapping):
        yield schema
    inner = schema.items() if isinstance(schema, Mapping) else enumerate(schema) if isinstance(schema, list) else ()
    for key, value in inner:
        values = value.values() if key in ("properties", "$defs", "definitions") else [value]
        for item in values if key not in ("enum", "default", "examples") else ():
            yield from _schemas_in(item)


def answered_once(called: Sequence[str], results: Sequence[str], what: str) -> None:
    """Each call has exactly one result, and no result is an orphan."""
    for call_id in called:
        require(results.count(call_id) == 1, f"{what}: call {call_id!r} has {results.count(call_id)} results")
    for call_id in results:
        require(call_id in called, f"{what}: result of {call_id!r}, which nobody called")


def is_known(mine: Any, issued: Sequence[Any], outline: Any, is_foreign: Any) -> bool:
    """Whether a repeated answer is as it was issued.

    `outline` is what an answer is recognized by. Answers follow each other where the user said nothing in between; they
    are one message then. What is left without those that are unchanged must not be foreign.
    """
    if (same := next((item for item in issued if outline(item) == outline(mine)), None)) is not None:
        return same == mine
    rest = list(mine)
    for each in filter(None, issued):
        while (at := next((n for n in range(len(rest)) if rest[n : n + len(each)] == each), None)) is not None:
            rest[at : at + len(each)] = []
    return not any(map(is_foreign, rest))
