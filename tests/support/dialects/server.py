"""A provider on loopback: checks each request as the provider would, then answers as its script says."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from support.dialects.base import Asked, Dialect, RefusedError, loads, require
from support.dialects.script import Call, Failure, Reply
from support.loopback import Answer, Loopback, Request

KEY = "sk-conformance-4711"

Script = Sequence[Reply | Failure] | Callable[[Asked], Reply | Failure]


class ProviderServer(Loopback):
    """Serves `script`: answers in order, repeating the last one, or a function of the request.

    `refusals` says why requests were refused; a provider that keeps to the format gets none.
    """

    def __init__(self, dialect: Dialect, script: Script = ()):
        super().__init__()
        self.dialect = dialect
        self.script = script if callable(script) else list(script)
        self.asked: list[Asked] = []
        self.refusals: list[str] = []
        self.issued: list[object] = []

    @property
    def base_url(self) -> str:
        return self.url + self.dialect.base_path

    def answer_to(self, request: Request) -> Answer:
        dialect = self.dialect
        try:
            key = dialect.key(request.headers)
            require(key == KEY, f"{dialect.texts['key']}: {key}", "key")  # as careless as a provider can be
            asked = dialect.read(request)
            dialect.check(asked, self.issued)
        except (RefusedError, AttributeError, KeyError, TypeError, ValueError) as error:
            text, kind = (
                str(error) if isinstance(error, RefusedError) else repr(error),
                getattr(error, "kind", "invalid"),
            )
            if kind != "roles":  # that, a provider learns from one refusal
                self.refusals.append(text)
            return dialect.failure(Failure(kind), text)
        self.asked.append(asked)
        if callable(self.script):
            step = self.script(asked)
        else:
            step = self.script[0] if len(self.script) == 1 else self.script.pop(0)
        if isinstance(step, Failure):
            return dialect.failure(step)
        if not step.fault:
            self.issued.append(dialect.issued(_returnable(step), asked))
        return dialect.answer(step, asked)


def _returnable(reply: Reply) -> Reply:
    """The answer as it has to come back: no provider accepts made-up names or arguments that are not JSON."""
    return replace(reply, parts=tuple(_called(part) if isinstance(part, Call) else part for part in reply.parts))


def _called(call: Call) -> Call:
    try:
        loads(call.text)
        pieces = call.pieces
    except ValueError:
        pieces = ("{}",)
    return replace(call, name=re.sub(r"[^a-zA-Z0-9_-]", "_", call.name), pieces=pieces)
