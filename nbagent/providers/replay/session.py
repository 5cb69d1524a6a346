"""Records and replays models' answers: `record`, `replay`, and a provider that only replays.

A recording is the conversation between an agent and its provider, in a neutral format. It works for agents, cells
and scripts, replays without a key or a network, and contains no secrets.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from nbagent.checks import check_choice, check_number, checked_path
from nbagent.core.async_iterators import aclose_if_possible
from nbagent.core.events import Event
from nbagent.core.messages import LLMResponse
from nbagent.core.model_request import ModelRequest, Timing
from nbagent.core.run import Tools
from nbagent.errors import AuthenticationError, ConfigurationError, ReplayError
from nbagent.providers.base import LLMProvider, StreamingProvider, WrapperProvider
from nbagent.providers.http.redaction import Redactor
from nbagent.providers.replay import file
from nbagent.providers.replay.active import active
from nbagent.providers.replay.difference import difference, nearest
from nbagent.providers.replay.file import RecordedExchange, RecordingFile
from nbagent.providers.replay.fingerprint import Fingerprint
from nbagent.providers.replay.tools import ReplayedTools

log = logging.getLogger("nbagent")

Mode = Literal["once", "none", "new", "all"]
#: A provider and its model.
ModelKey = tuple[str, str]
#: A request's hash, and the model that answered it, or None for all models.
AnswersKey = tuple[str, ModelKey | None]


def record(path: str | os.PathLike[str]) -> Recording:
    """Record the answers that all agents receive, in cells, panels and scripts, until the `with` block ends or `stop()`
    is called.

    The first answer replaces the file's old content. Keys, and the values of environment variables whose names look
    like secrets, are not written. Everything else is, including tool results.

    >>> with nbagent.record("run.jsonl"):                                   # doctest: +SKIP
    ...     agent.chat_sync("How warm is it in Berlin?")
    >>> tape = nbagent.record("run.jsonl").start()                          # doctest: +SKIP
    >>> tape.stop()                            # some cells later           # doctest: +SKIP
    """
    return Recording(path, "all")


def replay(
    path: str | os.PathLike[str], mode: Mode = "once", *, speed: float | None = None, run_tools: bool = True
) -> Recording:
    """Answer all agents' requests from a recording, until the `with` block ends or `stop()` is called.

    A request is identified by its messages, tools and options, not by its model. If several models answered it, each
    model's own answer is replayed. A repeated request replays the next recorded answer or, once all have been used, the
    last one. Tools run for real, and their results are part of the next request, unless `run_tools=False` replays
    recorded ones.

    - `"once"`: replay the file, or record it if it does not exist
    - `"none"`: replay the file and never call a model
    - `"new"`: replay the recorded requests, and record the rest
    - `"all"`: record everything again

    A request that is not in the file and may not be recorded raises `ReplayError`, which shows the difference from the
    most similar recorded request. With `speed=1`, answers arrive at the recorded pace; with 10, ten times as fast; with
    None, without any wait.

    >>> with nbagent.replay("run.jsonl"):                                   # doctest: +SKIP
    ...     agent.chat_sync("How warm is it in Berlin?")
    """
    return Recording(path, mode, speed=speed, run_tools=run_tools)


class Recording:
    """A recording that is being made, replayed, or both. `record` and `replay` create one."""

    def __init__(
        self, path: str | os.PathLike[str], mode: Mode, *, speed: float | None = None, run_tools: bool = True
    ) -> None:
        check_choice("mode", mode, get_args(Mode))
        check_number("speed", speed, above=0, optional=True, fix="With None, nothing waits.")
        self.path = checked_path(path, 'Name the file of the recording: "run.jsonl".')
        self.mode, self.speed, self.run_tools = mode, speed, run_tools
        self.replay_only = False
        self.providers: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._answers: dict[AnswersKey, list[RecordedExchange]] = {}
        #: How many of these answers have been replayed.
        self._taken: dict[AnswersKey, int] = {}
        self._file = RecordingFile(self.path)
        self._secrets: set[str] = set()
        #: The secrets, with their names, when the last request was read.
        self._names: dict[str, str] = {}

    @property
    def exchanges(self) -> list[RecordedExchange]:
        """The exchanges read from the file when it was opened, in order."""
        return self._file.exchanges

    def __repr__(self) -> str:
        return f"<Recording {str(self.path)!r}, mode {self.mode!r}, {len(self.exchanges)} exchanges>"

    def start(self) -> Recording:
        """Start recording or replaying, beginning with the first answers in the file.

        Stops any other active recording of the same file.
        """
        self.open()
        here = self.path.absolute()
        active[:] = [each for each in active if not (isinstance(each, Recording) and each.path.absolute() == here)]
        active.append(self)
        return self

    def stop(self) -> None:
        """Stop recording and replaying.

        An earlier open recording becomes current again. If there is none, agents call their models.
        """
        if self in active:
            active.remove(self)

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def open(self) -> None:
        """Read the file if the mode replays it. Raises `ConfigurationError` if the file can't be read or written."""
        exists = os.path.exists(self.path)  # also False if a parent folder is not readable
        self.replay_only = self.mode == "none" or (exists and self.mode == "once")
        place = self.path if exists else self.path.absolute().parent
        may_write = os.access(place, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        if not self.replay_only and (os.path.isdir(self.path) or not may_write):
            fix = "name a file in a folder that exists and that you may write to."
            raise ConfigurationError(f"can't record to {str(self.path)!r}: {fix}")
        self._file = RecordingFile(self.path, lambda line: Redactor(self._secrets).data(line))
        self._file.is_overwriting = self.mode == "all"
        if self.mode == "none" or (exists and self.mode != "all"):
            self._file.read()
        self._answers, self._taken = {}, {}
        for exchange in self.exchanges:
            for model in ((exchange.provider, exchange.model), None):
                self._answers.setdefault((exchange.request.hash, model), []).append(exchange)
        self.providers = frozenset(exchange.provider for exchange in self.exchanges)

    def wrap(self, provider: Any, tools: Tools) -> tuple[Any, Tools]:
        """See `Tape.wrap`. With `run_tools=False`, the tools replay their recorded results."""
        wrapped = RecordingProvider(provider, self)
        if self.run_tools:
            return wrapped, tools
        return wrapped, ReplayedTools(tools, lambda: wrapped.recorder.last_exchange, self.exchanges)

    def fingerprint(self, request: ModelRequest) -> Fingerprint:
        """The request in the file's form, without secrets."""
        with self._lock:
            redactor = Redactor(self._secrets)
            if redactor.names != self._names:
                self._names = redactor.names
                self._file.fingerprints.forget()
            return self._file.fingerprints.of(request.messages, request.tools, request.options, redactor.data)

    def peek(self, request: Fingerprint, model: ModelKey | None = None) -> RecordedExchange | None:
        """The exchange that answers this request next, from the same model if possible; None if there is none."""
        key = self._key(request, model)
        answers = self._answers.get(key)
        return answers[min(self._taken.get(key, 0), len(answers) - 1)] if answers else None

    def take(self, fingerprint: Fingerprint, model: ModelKey | None = None) -> RecordedExchange | None:
        """Like `peek`, but move on to the next answer. Raises `ReplayError` if no answer is recorded and the mode does
        not allow recording one.
        """
        key = self._key(fingerprint, model)
        with self._lock:
            found = self.peek(fingerprint, model)
            self._taken[key] = self._taken.get(key, 0) + 1
        if found is None and self.replay_only:
            raise self._missing(fingerprint)
        return found

    def _key(self, request: Fingerprint, model: ModelKey | None) -> AnswersKey:
        """The key of a request's answers by this model, or by any model if it has none."""
        key = (request.hash, model)
        return key if key in self._answers else (request.hash, None)

    async def play(self, exchange: RecordedExchange) -> AsyncGenerator[Event | LLMResponse]:
        """The events and the answer of an exchange, at the pace that `speed` sets."""
        at = 0.0
        for item in exchange.items:
            await asyncio.sleep((item["at"] - at) / self.speed if self.speed else 0)
            at = item["at"]
            yield file.event_from_json(item)
        await asyncio.sleep((exchange.duration_s - at) / self.speed if self.speed else 0)
        yield exchange.outcome()

    async def capture(
        self, request: Fingerprint, provider: LLMProvider, stream: AsyncIterator[Event | LLMResponse], timing: Timing
    ) -> AsyncGenerator[Event | LLMResponse]:
        """Pass on a stream's items, and write them to the file when the answer is complete or the provider has failed.

        Nothing is written for an interrupted stream, a missing or wrong key, or an invalid setting. The times exclude
        the set-up.
        """
        started, clock = time.time(), time.perf_counter()
        items: list[dict[str, Any]] = []

        def now() -> float:
            return round(time.perf_counter() - clock - timing.setup_s, 4)

        def write(**outcome: Any) -> None:
            model = (provider.provider_name, provider.model_name)
            exchange = RecordedExchange(request, *model, round(started, 3), items, now(), **outcome)
            try:
                self._file.append(exchange)
            except OSError as error:  # the answer must still reach the agent
                log.warning("an answer is not in the recording %s: %s", self.path, error.strerror or error)

        try:
            async with aclose_if_possible(stream):
                async for item in stream:
                    if isinstance(item, LLMResponse):
                        write(response=file.response_to_json(item))
                    else:
                        items.append(file.event_to_json(item, now()))
                    yield item
        except (AuthenticationError, ConfigurationError):
            raise
        except Exception as error:
            write(error=file.error_to_json(error))
            raise

    def learn_secrets(self, provider: Any) -> None:
        """Remember a provider's keys, so that they are never written."""
        self._secrets.update(getattr(provider, "secrets", ()))

    def _missing(self, fingerprint: Fingerprint) -> ReplayError:
        problem = f"the recording {str(self.path)!r} has no answer to this request"
        fix = "record it with nbagent.replay(path, mode='new'), or record everything again with nbagent.record(path)."
        if not self.exchanges:
            return ReplayError(f"{problem}: it is empty. To get one, {fix}")
        diff = difference(nearest(fingerprint, [exchange.request for exchange in self.exchanges]), fingerprint)
        text = (
            f"{problem}. It differs from the most similar one in\n{diff}\nIf the agent has earlier messages, call "
            "clear_history() first. If a tool's result differs, run_tools=False replays the recorded one. Otherwise "
            f"{fix}"
        )
        return ReplayError(text, difference=diff)


class RecordingProvider(WrapperProvider):
    """Records the answers from an agent's provider during one run, or replays recorded ones instead."""

    def __init__(self, inner: LLMProvider, tape: Recording) -> None:
        super().__init__(inner)
        self._model = inner.model_name
        #: The exchange that was replayed last; None if the inner provider answered.
        self.last_exchange: RecordedExchange | None = None
        self._tape, self._model_key = tape, (inner.provider_name, inner.model_name)
        #: The recorder used last: this one, or a candidate's.
        self.recorder = self
        tape.learn_secrets(inner)

    @property
    def is_replaying(self) -> bool:
        """Whether the last answer came from the recording, and so cost nothing."""
        return self.last_exchange is not None

    @property
    def model_name(self) -> str:
        """The inner model's name, or in a replay the name of the model that answered."""
        return self._model

    def candidates(self, request: ModelRequest) -> tuple[LLMProvider, ...] | Awaitable[Iterable[LLMProvider]]:
        """See `LLMProvider.candidates`. Each candidate is recorded separately."""
        found = self.inner.candidates(request)
        return (self,) if isinstance(found, tuple) else self._recorded(found)

    async def _recorded(self, found: Awaitable[Iterable[LLMProvider]]) -> Iterable[LLMProvider]:
        return map(self._for, await found)

    def _for(self, candidate: LLMProvider) -> LLMProvider:
        self.recorder = RecordingProvider(candidate, self._tape)
        return self.recorder

    def resolve(self, request: ModelRequest) -> ModelRequest:
        """See `LLMProvider.resolve`. A replayed answer also sets `provider_name` and `model_name`."""
        inner = self.inner.resolve(request)
        fingerprint = self._tape.fingerprint(request)
        found = self._tape.peek(fingerprint, self._model_key)
        self.provider_name, self._model = (found.provider, found.model) if found else self._model_key
        return replace(inner, resolved=(fingerprint, inner))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """The recorded answer, or the model's, which is then recorded."""
        fingerprint, inner = request.resolved
        found = self.last_exchange = self._tape.take(fingerprint, self._model_key)
        if found is not None:
            items = self._tape.play(found)
        else:
            items = self._tape.capture(fingerprint, self.inner, self.inner.stream(inner), inner.timing)
        async with aclosing(items):
            async for item in items:
                yield item


class ReplayProvider(StreamingProvider):
    """Answers only from a recording. Use it by name, `Agent("replay:run.jsonl")`, or as an object.

    `provider_name` and `model_name` come from the first recorded answer, so its model's prices apply. See `replay` for
    `speed`, and for how a request is identified.

    >>> agent = Agent(ReplayProvider("run.jsonl"), tools=[mean_by])         # doctest: +SKIP
    """

    provider_name = "replay"
    is_replaying = True

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, model: str | None = None, speed: float | None = None
    ) -> None:
        source = path or model
        if not source:
            raise ConfigurationError("Name the recording: 'replay:run.jsonl', or ReplayProvider('run.jsonl').")
        self._tape = Recording(source, "none", speed=speed)
        self._tape.open()
        self._model = Path(source).name
        if self._tape.exchanges:
            self.provider_name, self._model = self._tape.exchanges[0].provider, self._tape.exchanges[0].model

    def __repr__(self) -> str:
        return f"ReplayProvider({str(self._tape.path)!r})"

    @property
    def model_name(self) -> str:
        """The model of the recording's first answer."""
        return self._model

    def supports_function_calling(self) -> bool:
        """True, since recorded answers may contain tool calls."""
        return True

    async def stream(self, request: ModelRequest) -> AsyncIterator[Event | LLMResponse]:
        """The recorded answer, in its original pieces. Raises `ReplayError` if none is recorded."""
        found = self._tape.take(self._tape.fingerprint(request))
        if found is not None:
            async for item in self._tape.play(found):
                yield item
