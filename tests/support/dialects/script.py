"""The answers that a provider should send, in neutral terms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A part of an answer, in the pieces in which it arrives."""

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class Said(Part):
    """Text."""


@dataclass(frozen=True)
class Thought(Part):
    """Thinking, with the signature that some providers add."""

    signature: str


@dataclass(frozen=True)
class Call(Part):
    """A tool call, with its arguments as pieces of JSON. An empty id means none."""

    name: str
    id: str


@dataclass(frozen=True)
class Counts:
    """Token counts: input includes cached tokens, output includes reasoning."""

    input: int = 20
    output: int = 8
    cached: int = 0
    written: int = 0
    reasoning: int = 0


@dataclass(frozen=True)
class Reply:
    """One answer, how it ends, and how its bytes arrive.

    - `finish`: the neutral reason; `word`: the provider's own, where it has to be another than the dialect's usual one
    - `fault`: "error" puts the provider's error into the answer, "end" ends it before its terminal marker, "stall" goes
      silent there; all three after everything that `parts` holds
    - `step`: bytes at a time; `newline`: what ends the stream's lines; `noise`: comments, pings, events of new kinds,
      and no space after the field's name
    """

    parts: tuple[Part, ...] = ()
    finish: str = "stop"
    word: str | None = None
    counts: Counts = Counts()
    fault: str = ""
    step: int = 0
    newline: str = "\n"
    noise: bool = False

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Said))

    @property
    def thoughts(self) -> list[Thought]:
        return [part for part in self.parts if isinstance(part, Thought)]

    @property
    def calls(self) -> list[Call]:
        return [part for part in self.parts if isinstance(part, Call)]


@dataclass(frozen=True)
class Failure:
    """An HTTP error: "rate_limit", "overloaded", or "context" (the conversation is too long)."""

    kind: str
    headers: tuple[tuple[str, str], ...] = ()


def said(*pieces: str) -> Said:
    return Said(pieces)


def thought(*pieces: str, signature: str = "c2lnbmF0dXJl") -> Thought:
    return Thought(pieces, signature)


def call(name: str, *pieces: str, id: str = "call_1") -> Call:
    return Call(pieces, name, id)


def reply(*parts: Part | str, **more: object) -> Reply:
    """An answer. Strings are text. An answer with calls ends with them by default."""
    whole = tuple(said(part) if isinstance(part, str) else part for part in parts)
    finish = "tool_calls" if any(isinstance(part, Call) for part in whole) else "stop"
    return Reply(whole, **{"finish": finish, **more})
