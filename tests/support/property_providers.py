"""All providers at once, each with its rules, on loopback; and a real provider for each: what agents are tested with.

A question says its number ("Question 7."), and a plan says what is answered to it, step by step, by whichever provider
is asked. When the plan is through, the answer is a text of its own. So a run that was interrupted can't spoil the next
one, and the provider may change in between.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from nbagent.core.history import summary
from nbagent.core.messages import LLMMessage
from nbagent.providers import LLMProvider
from nbagent.providers.options.resolved import ResolvedOptions
from support.conformance_case import Case, catalog_cases
from support.dialects.anthropic_messages import MessagesDialect
from support.dialects.base import Asked, Dialect, RefusedError
from support.dialects.gemini import GeminiDialect
from support.dialects.openai_chat import ChatDialect
from support.dialects.script import Call, Counts, Failure, Reply, call, reply, said, thought
from support.dialects.server import KEY, ProviderServer
from support.loopback import Answer, Request

#: Stand-ins for other servers, and duplicates of other rows.
_LEFT_OUT = ("local", "open_source llama.cpp", "open_source tags")
#: Each way to each provider.
CASES = {
    f"{case.name}, {'streaming' if case.streaming else 'whole'}": case
    for case in catalog_cases()
    if case.name not in _LEFT_OUT
}
#: One for each dialect.
RULES = [case for case in CASES.values() if case.streaming]
_QUESTION = re.compile(rb"Question (\d+)\.")
_SHORT_WAIT = (("retry-after-ms", "1"),)


@dataclass(frozen=True)
class Wish:
    """A call for the model to make. `id`: "own", or as from careless servers: "same", "none", "odd"."""

    name: str
    arguments: str = "{}"
    id: str = "own"


@dataclass(frozen=True)
class Step:
    """One answer, in no provider's format.

    `trouble`: "error" or "end" breaks it off, "stall" leaves it waiting; "overloaded", "rate_limit" and "context" are
    HTTP errors. `cut`: the limit of tokens ends it, in the middle of its last call.
    """

    text: bool = True
    thinks: bool = False
    calls: tuple[Wish, ...] = ()
    trouble: str = ""
    cut: bool = False
    tokens: int = 20


class Providers:
    """The servers, in a thread with an event loop of its own, and what they are to answer."""

    def __init__(self) -> None:
        self.plans: dict[float, deque[Step]] = {}
        #: The last text that was given to each question, calls left aside.
        self.finals: dict[float, str] = {}
        #: Questions before this one belong to conversations that are over.
        self.first = self.asked = 1
        #: The conversation that is going on.
        self.history: Callable[[], Sequence[LLMMessage]] = list
        self._serial = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.servers = {case.name: _Provider(case, self) for case in RULES}
        self._there(server.__aenter__() for server in self.servers.values())

    def _there(self, coroutines: Iterable[Any]) -> None:
        for each in coroutines:
            asyncio.run_coroutine_threadsafe(each, self._loop).result(300)

    def close(self) -> None:
        self._there(server.__aexit__() for server in self.servers.values())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(300)
        self._loop.close()

    def provider(self, case: Case, **options: Any) -> LLMProvider:
        url = self.servers[case.name].base_url
        return case.connect(url, api_key=KEY, streaming=case.streaming, **options)

    def start_anew(self) -> None:
        """Start another conversation."""
        self.first = self.asked
        servers = self.servers.values()
        kept = [each for server in servers for each in (server.issued, server.requests, server.refusals, server.asked)]
        for each in (self.plans, self.finals, *kept):
            each.clear()

    def question(self, plan: Sequence[Step] = ()) -> tuple[int, str]:
        """A new question, to be answered so: its number and its text."""
        number, self.asked = self.asked, self.asked + 1
        self.plans[number] = deque(plan)
        return number, f"Question {number}."

    def forget_interrupted(self) -> None:
        """Answers that were not read to their end need not come back unchanged."""
        texts = {m.text for m in self.history() if m.interrupted and m.text.endswith(".")}
        for server in self.servers.values() if texts else ():
            server.issued[:] = [item for item in server.issued if not any(text in repr(item) for text in texts)]

    @property
    def refusals(self) -> dict[str, list[str]]:
        return {name: server.refusals for name, server in self.servers.items() if server.refusals}

    def step(self, case: Case, asked: Asked) -> Reply | Failure:
        """The planned answer to a request's prompt."""
        self._serial += 1
        if summary.PROMPT in asked.system:
            return reply(f"Summary {self._serial}.")
        number = number_of(asked.raw)
        answer = reply(f"Answer {self._serial} to {number}.")
        if plan := self.plans.get(number):
            answer = fitted(plan.popleft(), case.dialect, self._serial)
        if isinstance(answer, Reply) and not answer.calls:
            self.finals[number] = answer.text
        return answer

    def refused_by(self, case: Case, provider: LLMProvider, messages: Sequence[LLMMessage], functions: Any) -> str:
        """Why this provider would refuse the conversation; empty if it would not."""
        codec = provider.codec
        body = codec.encode_request(messages, ResolvedOptions(functions), provider.model_name)
        path = case.dialect.base_path + codec.path(provider.model_name, True)
        request = Request(path, {"content-type": "application/json", "anthropic-version": "2023-06-01"}, body)
        asked = case.dialect.read(request)
        self.forget_interrupted()
        try:
            case.dialect.check(asked, self.servers[case.name].issued)
        except RefusedError as refused:
            return f"{case.name}: {refused}: {asked.turns}"
        return ""


class _Provider(ProviderServer):
    def __init__(self, case: Case, providers: Providers) -> None:
        super().__init__(case.dialect, lambda asked: providers.step(case, asked))
        self._providers = providers

    def answer_to(self, request: Request) -> Answer:
        """Late requests from a conversation that is over are not checked."""
        if number_of(request.body) < self._providers.first:
            return self.dialect.failure(Failure("overloaded"))
        self._providers.forget_interrupted()
        return super().answer_to(request)


def number_of(body: bytes) -> float:
    """The number of the last question in a request; infinite where there is none."""
    return max(map(int, _QUESTION.findall(body)), default=inf)


def fitted(step: Step, dialect: Dialect, serial: int) -> Reply | Failure:
    """A step in a form that this provider can send."""
    if step.trouble in ("overloaded", "rate_limit", "context"):
        return Failure(step.trouble, () if step.trouble == "context" else _SHORT_WAIT)
    calls = [_call(wish, dialect, f"{serial}x{n}") for n, wish in enumerate(step.calls)]
    if step.cut and isinstance(dialect, GeminiDialect):
        calls = []  # a call comes whole there, or not at all
    parts: list[Any] = [said("Text ", f"{serial}.")] if step.text or not calls else []
    # who gives ids twice, or none, can't tell which thinking belongs to them
    if step.thinks and dialect.thinks and not any(wish.id in ("same", "none") for wish in step.calls):
        parts.insert(0, thought("Thought ", f"{serial}.", signature=f"c2ln{serial:08}"))
    finish = {"finish": "length"} if step.cut else {}
    if step.cut and calls and not isinstance(dialect, GeminiDialect):
        calls[-1] = call(calls[-1].name, '{"a": ', id=calls[-1].id)
    return reply(*parts, *calls, fault=step.trouble, counts=Counts(step.tokens, 8), **finish)


def _call(wish: Wish, dialect: Dialect, serial: str) -> Call:
    name = wish.name if dialect.careless else wish.name.replace(".", "_")
    arguments = wish.arguments
    if isinstance(dialect, GeminiDialect | MessagesDialect) and not arguments.startswith('{"'):
        arguments = '{"a": "many"}'  # they give objects only
    if isinstance(dialect, GeminiDialect):
        return call(name, arguments, id="" if wish.id == "none" else f"call_{serial}")
    ids = {"own": f"call_{serial}"}
    if isinstance(dialect, ChatDialect) and dialect.careless:
        ids |= {"same": "call_0", "none": "", "odd": f"functions.{name}:{serial}"}
    half = len(arguments) // 2
    return call(name, arguments[:half], arguments[half:], id=ids.get(wish.id, ids["own"]))
