"""Recording what models answer and playing it again: `record`, `replay`, and a provider that does nothing else.

What is recorded is the neutral conversation between the agent and its provider, so that one recording serves agents,
cells and scripts, needs no key and no network to play, and holds no secret.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from nbagent.core.events import Event
from nbagent.core.messages import LLMMessage, LLMResponse
from nbagent.core.request_fingerprint import Request, as_text, difference, request_form, request_key
from nbagent.core.run import Tools
from nbagent.errors import AuthenticationError, ConfigurationError, ReplayError
from nbagent.providers.base import Functions, LLMProvider, ProviderAround, StreamingProvider
from nbagent.providers.http.redaction import SHORTEST_SECRET, blotted, is_telling
from nbagent.providers.replay import file as recording
from nbagent.providers.replay.file import Recorded, Writer
from nbagent.providers.replay.tools import PlayedTools

Mode = Literal["once", "none", "new", "all"]
#: A vendor and its model.
Asker = tuple[str, str]
_MODES = ("once", "none", "new", "all")


def record(path: str | os.PathLike[str]) -> Recording:
    """Record what all agents are answered, in cells, panels and scripts, in this block or until `stop()`.

    The file is written anew, with the first answer. Keys, and the values of environment variables that are named like
    secrets, are not written; all else that is said is, results of tools too.

    >>> with nbagent.record("run.jsonl"):                                   # doctest: +SKIP
    ...     agent.chat_sync("How warm is it in Berlin?")
    >>> tape = nbagent.record("run.jsonl").start()                          # doctest: +SKIP
    >>> tape.stop()                            # some cells later           # doctest: +SKIP
    """
    return Recording(path, "all")


def replay(
    path: str | os.PathLike[str], mode: Mode = "once", *, speed: float | None = None, run_tools: bool = True
) -> Recording:
    """Answer all agents from a recording, in this block or until `stop()`.

    A request is known by its messages, tools and options, not by its model; where several models answered it, each is
    played its own answer. Asked again, it gets the next answer that was recorded for it, and the last one from then on.
    Tools run for real, and what they return is part of the next request. With `run_tools=False` their results are
    played too, as the model read them.

    - `"once"`: play the file, or make it if it is not there
    - `"none"`: play it and never ask a model
    - `"new"`: play what is in it, record what is not
    - `"all"`: record everything anew

    A request that may not be recorded raises `ReplayError`, which tells what differs from the nearest one in the file.
    `speed=1` keeps the recorded pace, 10 is ten times as fast, None does not wait.

    >>> with nbagent.replay("run.jsonl"):                                   # doctest: +SKIP
    ...     agent.chat_sync("How warm is it in Berlin?")
    """
    return Recording(path, mode, speed=speed, run_tools=run_tools)


class Recording:
    """A recording that is made, played, or both: see `record` and `replay`, which make one."""

    def __init__(
        self, path: str | os.PathLike[str], mode: Mode, *, speed: float | None = None, run_tools: bool = True
    ) -> None:
        if mode not in _MODES:
            raise ConfigurationError(f"mode={mode!r} is not known: it is one of {', '.join(map(repr, _MODES))}")
        if speed is not None and not (isinstance(speed, (int, float)) and speed > 0):
            raise ConfigurationError(f"speed={speed!r} must be a positive number, or None for no waiting")
        self.path, self.mode, self.speed, self.run_tools = Path(path).expanduser(), mode, speed, run_tools
        self.plays_alone = False
        self.vendors: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._exchanges: list[Recorded] = []
        self._known: dict[str, list[Recorded]] = {}
        self._asked: dict[tuple[str, Asker | None], int] = {}
        self._writer: Writer | None = None
        self._told: set[str] = set()

    def __repr__(self) -> str:
        return f"<Recording {str(self.path)!r}, mode {self.mode!r}, {len(self._exchanges)} exchanges>"

    def start(self) -> Recording:
        """Begin, at the beginning of the recording; a recording of the same file that goes on gives way."""
        self.open()
        for other in list(recording.running()):
            if isinstance(other, Recording) and other.path.absolute() == self.path.absolute():
                other.stop()
        recording.begin(self)
        return self

    def stop(self) -> None:
        """End: agents ask their models again."""
        recording.end(self)

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def open(self) -> None:
        """Read the file, as far as the mode reads it. Raises ConfigurationError where that can't be done."""
        there = self.path.exists()
        plays = self.mode == "none" or (there and self.mode != "all")
        self._exchanges, length = recording.read(self.path) if plays else ([], 0)
        self._known, self._asked = {}, {}
        for exchange in self._exchanges:
            self._known.setdefault(request_key(exchange.request), []).append(exchange)
        self.vendors = frozenset(exchange.vendor for exchange in self._exchanges)
        self.plays_alone = self.mode == "none" or (there and self.mode == "once")
        if not self.plays_alone and not self.path.absolute().parent.is_dir():
            raise ConfigurationError(f"{str(self.path)!r} can't be recorded: there is no such folder")
        if self.path.is_dir():
            raise ConfigurationError(f"{str(self.path)!r} can't be recorded: it is a folder, name a file")
        self._writer = None if self.plays_alone else Writer(self.path, length, self._without_secrets)

    def first(self) -> Recorded | None:
        """The first exchange in the file."""
        return self._exchanges[0] if self._exchanges else None

    def taped(self, provider: Any, tools: Tools) -> tuple[Any, Tools]:
        """The provider, recorded or played, and the tools, which run for real unless told otherwise."""
        taped = Taped(provider, self)
        return taped, tools if self.run_tools else PlayedTools(tools, lambda: taped.played, self._exchanges)

    def request(
        self, messages: Sequence[LLMMessage], functions: Functions | None, options: Mapping[str, Any]
    ) -> Request:
        """The request as it stands in the file: without secrets, and with nothing that changes from run to run."""
        import json

        form: Request = json.loads(self._without_secrets(as_text(request_form(messages, functions, options))))
        return form

    def peek(self, request: Request, asker: Asker | None = None) -> Recorded | None:
        """What the request will be answered; None where that is not recorded.

        Agents of several models may ask the same: each gets the answers of its own model, if there are any.
        """
        with self._lock:
            place, answers = self._answers(request, asker)
            return answers[min(self._asked.get(place, 0), len(answers) - 1)] if answers else None

    def next(self, request: Request, asker: Asker | None = None) -> Recorded | None:
        """As `peek`, and the next time it is the next one. Raises ReplayError where it has to be there and is not."""
        found = self.peek(request, asker)
        if found is None and self._writer is None:
            raise self._miss(request)
        with self._lock:
            place, _ = self._answers(request, asker)
            self._asked[place] = self._asked.get(place, 0) + 1
        return found

    def _answers(self, request: Request, asker: Asker | None) -> tuple[tuple[str, Asker | None], list[Recorded]]:
        """The answers for whoever asks, and by what to count how often it did."""
        key = request_key(request)
        answers = self._known.get(key, [])
        own = [answer for answer in answers if (answer.vendor, answer.model) == asker]
        return (key, asker if own else None), own or answers

    async def played(self, exchange: Recorded) -> AsyncIterator[Event | LLMResponse]:
        """The items of an answer, as they came."""
        at = 0.0
        for item in exchange.items:
            await asyncio.sleep((item["at"] - at) / self.speed if self.speed else 0)
            at = item["at"]
            yield recording.item_event(item)
        await asyncio.sleep((exchange.duration_s - at) / self.speed if self.speed else 0)
        yield exchange.outcome()

    async def recorded(
        self, request: Request, provider: LLMProvider, stream: AsyncIterator[Event | LLMResponse]
    ) -> AsyncIterator[Event | LLMResponse]:
        """The items of a stream, written down when the answer is whole, or the vendor has failed.

        What was interrupted is not written, nor that there is no key.
        """
        started, begun = time.time(), time.perf_counter()
        items: list[dict[str, Any]] = []

        def write(**end: Any) -> None:
            if self._writer is not None:
                took = round(time.perf_counter() - begun, 4)
                who = (provider.vendor, provider.model_name)
                self._writer.write(Recorded(request, *who, round(started, 3), items, took, **end))

        try:
            async for item in stream:
                if isinstance(item, LLMResponse):
                    write(response=recording.response_form(item))
                else:
                    items.append(recording.item_form(item, time.perf_counter() - begun))
                yield item
        except (AuthenticationError, ConfigurationError):
            raise
        except Exception as error:
            write(error=recording.error_form(error))
            raise
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def tell(self, provider: Any) -> None:
        """Learn the keys of a provider, so that they are never written."""
        self._told.update(getattr(getattr(provider, "inner", provider), "secrets", ()))

    def _miss(self, request: Request) -> ReplayError:
        start = f"the recording {str(self.path)!r} has no answer to this request"
        remedy = "record it with nbagent.replay(path, mode='new'), or all anew with nbagent.record(path)"
        if not self._exchanges:
            return ReplayError(f"{start}: it is empty. To have one, {remedy}.")
        found = difference(request, [exchange.request for exchange in self._exchanges])
        return ReplayError(
            f"{start}. From the nearest one it differs in\n{found}\nTo have one, {remedy}.", difference=found
        )

    def _without_secrets(self, text: str) -> str:
        named = {value: name for name, value in os.environ.items() if is_telling(name) and not os.path.exists(value)}
        named |= {value: named.get(value, "API_KEY") for value in self._told}
        for secret in sorted(named, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = blotted(text, secret, f"${named[secret]}")
        return text


class Taped(ProviderAround):
    """A provider between the agent and its own, for one run, which records or plays."""

    def __init__(self, inner: LLMProvider, tape: Recording) -> None:
        super().__init__(inner)
        self._model = inner.model_name
        self.base_url_host, self.streaming = getattr(inner, "base_url_host", None), getattr(inner, "streaming", None)
        #: The exchange that was played last; None where the inner provider was asked.
        self.played: Recorded | None = None
        self._tape, self._asker = tape, (inner.vendor, inner.model_name)
        tape.tell(inner)

    @property
    def model_name(self) -> str:
        """The inner model's name; in a replay that of the model which answered."""
        return self._model

    def request_facts(
        self,
        messages: Sequence[LLMMessage],
        functions: Functions | None,
        temperature: float | None,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Those of the inner provider, and who answered where that is recorded."""
        facts = self.inner.request_facts(messages, functions, temperature, options)
        request = self._tape.request(messages, functions, {"temperature": temperature, **options})
        found = self._tape.peek(request, self._asker)
        self.vendor, self._model = (found.vendor, found.model) if found else (self.inner.vendor, self.inner.model_name)
        return {**facts, "provider": self.vendor, "model": self._model}

    async def stream(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Event | LLMResponse]:
        """The recorded answer, or the model's own, which is then recorded."""
        request = self._tape.request(messages, functions, {"temperature": temperature, **kwargs})
        found = self.played = self._tape.next(request, self._asker)
        if found is not None:
            async for item in self._tape.played(found):
                yield item
            return
        stream = self.inner.stream(messages, functions, temperature, **kwargs)
        recorded = self._tape.recorded(request, self.inner, stream)
        try:
            async for item in recorded:
                yield item
        finally:
            await recorded.aclose()  # type: ignore[attr-defined]  # it is a generator


class ReplayProvider(StreamingProvider):
    """Answers from a recording, and only from it: `Agent("replay:run.jsonl")`, or as an object.

    `vendor` and `model_name` are those of the recording, so that tokens have their price. See `replay` for `speed`, and
    for how a request is known.

    >>> agent = Agent(ReplayProvider("run.jsonl"), tools=[mean_by])         # doctest: +SKIP
    """

    vendor = "replay"

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, model: str | None = None, speed: float | None = None
    ) -> None:
        source = path or model
        if not source:
            raise ConfigurationError("name the recording: 'replay:run.jsonl', or ReplayProvider('run.jsonl')")
        self._tape = Recording(source, "none", speed=speed)
        self._tape.open()
        first = self._tape.first()
        self._model = Path(source).name
        if first is not None:
            self.vendor, self._model = first.vendor, first.model

    def __repr__(self) -> str:
        return f"ReplayProvider({str(self._tape.path)!r})"

    @property
    def model_name(self) -> str:
        """The model that answered first in the recording."""
        return self._model

    def supports_function_calling(self) -> bool:
        """True: the recording holds the calls."""
        return True

    async def stream(
        self,
        messages: list[LLMMessage],
        functions: Functions | None = None,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Event | LLMResponse]:
        """The recorded answer, in the pieces in which it came. Raises ReplayError where there is none."""
        found = self._tape.next(self._tape.request(messages, functions, {"temperature": temperature, **kwargs}))
        if found is not None:
            async for item in self._tape.played(found):
                yield item
