"""One turn of a run: send a request to the model, then run the tools that it called.

The history contains the partial answer from the start. However the turn ends, the history is valid: every call has a
result, and an interrupted answer keeps its text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from contextvars import Context, copy_context
from functools import lru_cache, partial
from itertools import groupby
from time import monotonic, time
from typing import Any
from urllib.parse import urlsplit

from nbagent.core import events
from nbagent.core.async_iterators import InContext, YieldPoint, aclose_if_possible
from nbagent.core.background import running_loop
from nbagent.core.content.images import content_as_text, images_in
from nbagent.core.counting import broken_attempt, with_counts
from nbagent.core.current import current, set_current
from nbagent.core.events import Event
from nbagent.core.history.repair import call_ids, missing_result, with_unique_ids
from nbagent.core.http_exchange import Exchange
from nbagent.core.messages import ORIGINS, FunctionCall, LLMMessage, LLMResponse, Usage, index_of, new_id, origin_note
from nbagent.core.model_request import ModelRequest
from nbagent.core.provider_calls import ProviderCalls
from nbagent.core.results import ToolOutcome
from nbagent.core.run import Provider, Run
from nbagent.core.run_context import RunContext
from nbagent.core.tool_output import ToolOutput
from nbagent.errors import ProviderError

log = logging.getLogger("nbagent")


@lru_cache(maxsize=64)
def _host_and_port(base_url: str) -> tuple[str | None, int | None]:
    url = urlsplit(base_url)
    return url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)


class Turn:
    """One model request and the tool calls in its answer. Iterate over the `steps` inside a `with` block."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.provider = run.provider
        self.step = run.spent.iterations + 1
        self.meta: dict[str, Any] = {"run_id": run.run_id, "call_id": new_id("call")}
        self._message_id = new_id("msg")
        self.text: list[str] = []
        self.response: LLMResponse | None = None
        self.calls: list[FunctionCall] = []
        self._call_ids: list[str] = []
        self._outcomes: dict[int, ToolOutcome] = {}
        self._results: dict[int, LLMMessage] = {}
        self._outputs: dict[int, ToolOutput] = {}
        #: Progress events that the observers have seen and the reader receives next.
        self._reports: list[Event] = []
        #: Set when a call ends or reports progress.
        self._has_news = asyncio.Event()
        self._exchanges = 0
        #: The current request, and the number of characters received apart from text.
        self._request: ModelRequest | None = None
        self._other_chars = 0
        #: When the request may be sent again, on the `monotonic` clock.
        self._waits_until = 0.0
        #: Takes the answer's place in the history until the answer is complete.
        self._placeholder = LLMMessage("assistant", "", interrupted=True)
        self._answer: LLMMessage | None = None

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leave a valid history with the text so far and one result for each call, in call order."""
        if self.response is None:
            is_stopped = kind is None or not issubclass(kind, Exception)
            self.run.pending_events += self._count_broken_attempt(is_stopped=is_stopped)
            text, message_id = "".join(self.text), self._message_id
            cut_off = LLMMessage("assistant", text, self._speaker, interrupted=True, message_id=message_id)
            self._replace_placeholder(cut_off if text else None)
            if text:
                self.run.result.content = cut_off.text
                self.run.closing_messages.append(cut_off)
        results: list[LLMMessage] = []
        for index, call in enumerate(self.calls):
            outcome = self._outcomes.get(index)
            message = self._results.get(index) or missing_result(call).replace(message_id=new_id("msg"))
            results.append(message)
            if outcome is None:
                self.run.closing_messages.append(message)
            self.run.result.function_calls.append(
                {
                    "id": call.id,
                    "name": call.name,
                    "arguments": call.arguments if outcome is None else outcome.call.arguments,
                    "result": content_as_text(message.content),
                    "is_error": message.is_error,
                    "duration_s": outcome.duration_s if outcome else None,
                }
            )

        self._outputs.clear()  # they refer to this turn
        self._add_results(results)
        if self.run.speakers is not None:
            self.run.speakers.end_turn()

    def _add_results(self, results: list[LLMMessage]) -> None:
        """Put the results after their calls, even if messages have been added. A cleared history stays empty."""
        messages = self.run.history.messages
        if self._answer is None:  # no model made these calls
            messages += results
        elif (index := index_of(self._answer, messages)) is not None:
            messages[index + 1 : index + 1] = results

    def steps(self) -> Iterator[AsyncGenerator[Event]]:
        """Yield the steps of the turn, each as a generator of its events."""
        if self.run.history.strategy != "trim":
            yield self.summarise()
        yield self.ask_model()
        if self.calls:
            yield self.run_tools()

    async def ask_model(self) -> AsyncGenerator[Event]:
        """Send the history and yield the answer as it arrives."""
        run = self.run
        async with run.spent.asking(current.get().request) as asking:
            set_current(request=asking, has_alternative=False)  # unless the candidates say so
            if run.spent.reached_budget() is not None:  # a summary or a parallel run spent the rest
                return
            changes = run.history.prepare(trims=not run.provider_summarises)
            request = run.next_request()
            if changes:
                yield run.emit(events.Context(changes, messages=run.history.trimmed))
            run.history.messages.append(self._placeholder)
            run.spent.add_request()
            failure: ProviderError | None = None
            for candidate in await self._candidates(request):
                if failure is not None:
                    for event in self._give_up(failure, candidate):
                        yield event
                    if run.spent.reached_budget() is not None:  # the broken answer spent the rest
                        return
                self.provider = candidate
                try:
                    async with aclosing(self._ask(candidate.resolve(request))) as answering:
                        async for event in answering:
                            yield event
                    return
                except ProviderError as error:
                    if not error.may_fall_back or self.response is not None:
                        raise
                    failure = error
            if failure is not None:
                raise failure

    async def _candidates(self, request: ModelRequest) -> Iterable[Provider]:
        """The providers to try, in order. If choosing them calls agents, those runs belong to this one."""
        found = self.run.provider.candidates(request)
        return found if isinstance(found, tuple) else await self.run.within(found)

    def _give_up(self, failure: ProviderError, candidate: Provider) -> list[Event]:
        """End the failed call before the next candidate is called."""
        counted = self._count_broken_attempt()
        self._request = None
        following = f"{candidate.provider_name}:{candidate.model_name}"
        metadata = {
            "discard_chars": sum(map(len, self.text)),
            "error": type(failure).__name__,
            "error_message": str(failure),
            "status": failure.status,
            "code": failure.code,
            "next": following,
        }
        self.text.clear()
        problem = " ".join(failure.message.split()).rstrip(".")
        text = f"{self.provider.provider_name}:{self.provider.model_name}: {problem}. Continuing with {following}."
        event = self.run.emit(events.Retry(text, metadata=metadata), self.meta)
        self.meta = {**self.meta, "call_id": new_id("call")}
        return [*counted, event]

    async def _ask(self, request: ModelRequest) -> AsyncGenerator[Event]:
        """Send a request and yield the answer as it arrives."""
        run = self.run
        metadata = self._request_metadata(request)
        self._request, messages, tools = request, request.messages, metadata.pop("tools", request.tools) or ()
        started = events.TurnStarted(metadata=metadata, messages=messages, tools=tools, timing=request.timing)
        context = copy_context()
        event = context.run(run.emit, started, self.meta)
        has_context = context != copy_context()  # observers set values there for the code that sends the request
        yield event
        response: LLMResponse | None = None
        taken: list[Event] = []
        over_budget, yield_point = False, YieldPoint()
        provider_calls = ProviderCalls(self.provider.provider_name, self.step)
        try:
            async with aclose_if_possible(self._open_stream(request, context if has_context else None)) as answer:
                async for item in answer:
                    if isinstance(item, LLMResponse):
                        response = item
                        streamed = "".join(self.text)
                        if streamed != item.content and item.content.startswith(streamed):  # the rest was not streamed
                            yield run.emit(events.Text(item.content.removeprefix(streamed)), self.meta)
                        break
                    self._take_piece(item, provider_calls)
                    if isinstance(item, events.Retry):
                        item.metadata = {**item.metadata, "discard_chars": sum(map(len, self.text))}
                        counted = self._count_broken_attempt()
                        self.text.clear()
                        self._waits_until = monotonic() + (item.metadata.get("wait_s") or 0.0)
                        for event in counted:
                            yield event
                        over_budget = run.spent.reached_budget() is not None
                    yield run.emit(item, self.meta)
                    if over_budget:
                        self._request = None
                        return
                    await yield_point.pass_on()
        finally:  # a complete answer counts even if closing the stream is cancelled
            if response is not None:
                taken = self._take_answer(with_counts(response, request))
        if response is None:
            raise RuntimeError(f"{type(self.provider).__name__}.stream() must end with an LLMResponse")
        for event in taken:
            yield event

    def _take_piece(self, item: Event, provider_calls: ProviderCalls) -> None:
        """Keep a piece of the answer, or complete the event of a provider's own tool."""
        if isinstance(item, events.Text):
            self.text.append(item.content)
        elif isinstance(item, events.Thinking | events.ToolCallDelta):
            self._other_chars += len(item.content)
        elif isinstance(item, events.ToolCall | events.ToolResult):
            provider_calls.complete(item)
        elif isinstance(item, events.Http) and (wire_id := item.metadata.get("wire_id")):
            provider_calls.begins(wire_id)

    def _open_stream(self, request: ModelRequest, context: Context | None) -> AsyncIterator[Event | LLMResponse]:
        """The provider's answer to the request, which is sent in this context if there is one."""
        stream = self.provider.stream(request)
        if self.run.record_http:
            context = context or copy_context()
            context.run(set_current, collect=self._record_exchange)
        return stream if context is None else InContext(stream, context)

    def _count_broken_attempt(self, *, is_stopped: bool = False) -> list[Event]:
        """Count the tokens of an incomplete answer, because providers bill them. Returns the event, if there is one.

        If a request is stopped before anything arrives, its cost is unknown unless the model is free. A request that
        was waiting for a retry costs nothing.
        """
        run, provider, chars = self.run, self.provider, sum(map(len, self.text)) + self._other_chars
        if self._request is None or not (chars or is_stopped):
            return []
        self._other_chars = 0
        usage, is_replayed = broken_attempt(self._request, chars), getattr(provider, "is_replaying", False)
        cost = run.price(usage, provider.model_name, provider)
        if chars:
            run.result.metadata["usage_estimated"] = True
        elif is_replayed or cost == 0 or monotonic() < self._waits_until:
            return []
        else:
            usage, cost = Usage(), None
        run.spent.add(usage, 0.0 if is_replayed else cost)
        facts = {"cost_usd": cost, "replayed": is_replayed, "estimated": True}
        return [run.emit(events.UsageReport(metadata={**(usage.to_dict() if chars else {}), **facts}), self.meta)]

    async def summarise(self) -> AsyncGenerator[Event]:
        """Replace the oldest messages with a summary if the history exceeds its limits.

        If the summary fails, the messages are dropped, and the run continues. If the provider itself summarises, this
        does nothing.
        """
        run = self.run
        if run.provider_summarises or not (oldest := run.history.messages_to_drop()):
            return
        for part in run.history.split_at_current_turn(oldest):
            yield run.emit(events.Context(f"summarising {len(part)} old messages", metadata={"begins": True}))
            try:
                summary = await asyncio.create_task(run.summarise(part), context=run.own_context())
            except Exception as error:  # a user's provider may raise anything
                log.warning("old messages are dropped without a summary", exc_info=True)
                yield run.emit(events.Context(f"no summary: {str(error) or type(error).__name__}"))
                return
            run.history.drop(part, summary)
            yield run.emit(events.Context(f"summarised {len(part)} old messages", messages=part))

    def _record_exchange(self, exchange: Exchange) -> None:
        """Turn an HTTP exchange into an event, which the loop yields before the next one."""
        self._exchanges += 1
        metadata = {"attempt": self._exchanges, **exchange.summary()}
        self.run.pending_events.append(self.run.emit(events.Http(metadata=metadata, exchange=exchange), self.meta))

    def _request_metadata(self, request: ModelRequest) -> dict[str, Any]:
        provider = self.provider
        host, port = _host_and_port(getattr(provider, "base_url", ""))
        return {
            "step": self.step,
            "message_id": self._message_id,
            "provider": provider.provider_name,
            "model": provider.model_name,
            "base_url_host": host,
            "base_url_port": port,
            "stream": getattr(provider, "streaming", None),
            "n_messages_in": len(request.messages),
            **request.effective_options,
            **({"reminder": request.reminder} if request.reminder else {}),
            **({"speaker": self._speaker} if self._speaker else {}),
        }

    @property
    def _speaker(self) -> str | None:
        """The team member who speaks; None outside a team."""
        return None if self.run.speakers is None else self.run.speakers.speaker

    def _take_answer(self, response: LLMResponse) -> list[Event]:
        """Put a complete answer into the history, count its tokens, and announce its tool calls.

        The observers receive all of its events immediately, even if the reader stops.
        """
        run, self.response, about = self.run, response, response.metadata or {}
        self._request = None  # it would keep the whole conversation alive
        calls = response.function_calls or []
        self.calls = with_unique_ids(calls, self.meta["call_id"], call_ids(run.history.messages)) if calls else []
        self._call_ids = [new_id("tool") for _ in self.calls]
        message = LLMMessage(
            "assistant",
            response.message_content,
            name=self._speaker,
            tool_calls=self.calls or None,
            provider_extras=response.raw_response,
            encoded=dict(response.encoded) if self.calls == calls else {},
            message_id=self._message_id,
        )
        self._answer = message
        self._replace_placeholder(message)
        is_estimated = not response.is_counted
        if is_estimated:
            run.result.metadata["usage_estimated"] = True
        else:
            run.history.record_usage(response.usage)
        cost = self._cost(response)
        is_replayed = "replayed" in about
        run.spent.add(response.usage, 0.0 if is_replayed else cost)  # not paid again
        if message.content or not self.calls:
            run.result.content = message.text
            run.result.citations = list(about.get("citations", ()))
            kept = {name: value for name, value in run.result.metadata.items() if name not in ORIGINS}
            run.result.metadata = kept | {name: True for name in ORIGINS if about.get(name)}
        run.result.images += images_in(message.content)
        run.result.finish_reason = response.finish_reason
        metadata = {"finish_reason": response.finish_reason, "cost_usd": cost}
        metadata |= {"note": note} if (note := origin_note(about)) else {}
        done = run.emit(events.TurnDone(response.content, None, None, metadata, response, message), self.meta)
        facts = {"cost_usd": cost, "replayed": is_replayed, "estimated": is_estimated}
        usage = run.emit(events.UsageReport(metadata={**response.usage.to_dict(), **facts}), self.meta)
        calls_made = [
            run.emit(events.ToolCall("", call.name, call.arguments, self._call_metadata(index)), self.meta)
            for index, call in enumerate(self.calls)
        ]
        return [done, usage, *calls_made]

    def _cost(self, response: LLMResponse) -> float | None:
        """The cost in US dollars; None if neither the answering nor the requested model has a price."""
        metadata, provider = response.metadata or {}, self.provider
        raw = metadata.get("usage_raw")
        if calls := metadata.get("provider_calls"):
            raw = {**(raw or {}), "provider_calls": calls}
        for model in dict.fromkeys((metadata.get("model"), provider.model_name)):
            if model:
                is_batched = bool(metadata.get("batched"))
                cost = self.run.price(response.usage, model, provider, raw, is_batched)
                if cost is not None:
                    return cost
        return None

    def take_call(self, call: FunctionCall) -> Event:
        """Add a tool call that came from a client instead of a model."""
        self.meta = {"run_id": self.run.run_id}  # no request, so no `call_id`
        self.response = LLMResponse("", [call])
        self.calls = with_unique_ids([call], self.run.run_id, set())
        self._call_ids = [new_id("tool")]
        return self.run.emit(events.ToolCall("", call.name, call.arguments, self._call_metadata(0)), self.meta)

    async def run_tools(self) -> AsyncGenerator[Event]:
        """Run the calls, concurrently if their tools allow it. Yields results as they arrive, but the history lists
        them in the order of the calls.
        """
        run = self.run
        count = run.spent.take_tool_calls(len(self.calls))
        for index in range(count, len(self.calls)):
            text = "Not run: the limit of tool calls was reached."
            yield self._add_outcome(index, ToolOutcome(self.calls[index], text, is_error=True, started=time()))
        is_single = count == 1
        groups = groupby(range(count), lambda i: -1 if is_single or run.tools.is_parallel(self.calls[i].name) else i)
        for _, group in groups:
            async with aclosing(self._run_group(list(group))) as running:
                async for event in running:
                    yield event

    async def _run_group(self, group: list[int]) -> AsyncGenerator[Event]:
        """Run calls concurrently, each in a task with its own context."""
        run, loop = self.run, asyncio.get_running_loop()
        tasks: dict[asyncio.Task[ToolOutcome], int] = {}
        interrupted: dict[int, list[ToolOutcome]] = {index: [] for index in group}
        try:
            for index in group:
                call = self.calls[index]
                output = self._outputs[index] = ToolOutput(partial(self._announce, index), loop)
                context = run.inner_context(
                    call=self._run_context(index, output), report_event=partial(self._emit_child_event, index, loop)
                )
                started = events.ToolStarted("", call.name, call.arguments, self._call_metadata(index))
                yield context.run(run.emit, started, self.meta)  # the tool sees what observers set in the context
                task = asyncio.create_task(self._run_call(call, interrupted[index]), context=context)
                tasks[task] = index
            pending = set(tasks)
            while pending:
                await self._has_news.wait()
                self._has_news.clear()
                finished = {task for task in pending if task.done()}
                pending -= finished
                for task in finished:
                    self._announce_progress(tasks[task])
                while self._reports:
                    yield self._reports.pop(0)
                for task in sorted(finished, key=tasks.__getitem__):
                    outcome, metadata = task.result(), self._call_metadata(tasks[task])
                    name, arguments = outcome.call.name, outcome.call.arguments
                    if not outcome.args_valid:
                        error = events.ValidationError(str(outcome.content), name, metadata=metadata)
                        yield run.emit(error, self.meta)
                    if outcome.approval != "auto":
                        yield run.emit(events.Approval(outcome.approval, name, arguments, metadata), self.meta)
                    yield self._add_outcome(tasks[task], outcome)
        finally:
            unfinished = [task for task in tasks if not task.done()]
            for task in unfinished:
                task.cancel()
            if unfinished:
                await asyncio.wait(unfinished, timeout=1.0)
            for index, outcomes in interrupted.items():
                for outcome in outcomes:
                    self._add_outcome(index, outcome)
            self._keep_ready(tasks)

    def _keep_ready(self, tasks: Mapping[asyncio.Task[ToolOutcome], int]) -> None:
        """Keep the results that were ready when the run was cancelled, and announce no more output."""
        for task, index in tasks.items():
            if task.done() and not task.cancelled() and task.exception() is None and index not in self._outcomes:
                self._add_outcome(index, task.result())
        for output in self._outputs.values():
            output.end()

    async def _run_call(self, call: FunctionCall, interrupted: list[ToolOutcome]) -> ToolOutcome:
        try:
            return await self.run.tools.run(call, interrupted)
        finally:  # a task callback would run one iteration of the event loop later
            self._has_news.set()

    def _announce(self, index: int) -> None:
        """Send a running tool's output to the observers, and its progress to the observers and the reader."""
        call, output = self.calls[index], self._outputs[index]
        if output.has_new_parts:
            printed = events.ToolPrinted("", call.name, None, self._call_metadata(index), output.shown())
            self.run.emit(printed, self.meta)
        self._announce_progress(index)

    def _announce_progress(self, index: int) -> None:
        call, metadata = self.calls[index], self._call_metadata(index)
        if (progress := self._outputs[index].new_progress()) is None:
            return
        if not isinstance(progress, str):
            metadata["progress"] = progress
        text = progress if isinstance(progress, str) else f"{progress:.0%}".replace("%", " %")
        self._reports.append(self.run.emit(events.ToolProgress(text, call.name, None, metadata), self.meta))
        self._has_news.set()

    def _emit_child_event(self, index: int, loop: asyncio.AbstractEventLoop, event: Event) -> None:
        """Send the observers an event of an agent that a running tool called, perhaps from another thread."""

        def emit() -> None:
            if index not in self._outcomes:  # a tool's background work is not reported
                self.run.emit(events.ChildEvent(metadata=self._call_metadata(index), event=event), self.meta)

        if running_loop() is loop:
            emit()
        else:
            with suppress(RuntimeError):  # the loop was closed: no reader is left
                loop.call_soon_threadsafe(emit)

    def _add_outcome(self, index: int, outcome: ToolOutcome) -> Event:
        """Keep a call's outcome for the history and the result, and make its event."""
        run, call = self.run, self.calls[index]
        self._outcomes[index] = outcome
        message = self._results[index] = LLMMessage(
            "tool",
            outcome.content,
            name=call.name,
            tool_call_id=call.id,
            is_error=outcome.is_error,
            message_id=new_id("msg"),
            pinned=outcome.pinned,
        )
        if outcome.denied:
            run.result.status = "denied"
        if not outcome.args_valid:
            run.result.metadata["validation_retries"] = run.result.metadata.get("validation_retries", 0) + 1
        text = content_as_text(outcome.content)
        metadata = {**self._call_metadata(index), "is_error": outcome.is_error, "duration_s": outcome.duration_s}
        outputs = self._outputs[index].end() if index in self._outputs else ()
        event = events.ToolResult(text, outcome.call.name, outcome.call.arguments, metadata, outcome, message, outputs)
        return run.emit(event, self.meta)

    def _run_context(self, index: int, output: ToolOutput) -> RunContext:
        return self.run.run_context(
            call_id=self.meta.get("call_id"),
            tool_call_id=self._call_ids[index],
            tool_name=self.calls[index].name,
            step=self.step,
            output=output,
        )

    def _call_metadata(self, index: int) -> dict[str, Any]:
        call_id = self.calls[index].id
        return {"tool_call_id": self._call_ids[index], "wire_id": call_id, "index": index, "step": self.step}

    def _replace_placeholder(self, message: LLMMessage | None) -> None:
        """Put the answer into the history, unless the history has been cleared."""
        messages = self.run.history.messages
        if (index := index_of(self._placeholder, messages)) is not None:
            messages[index : index + 1] = [message] if message else []
