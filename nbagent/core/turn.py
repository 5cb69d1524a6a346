"""One turn of a run: ask the model, then run the tools that it called.

The history holds the partial answer from the first moment on. However the turn ends, the history is valid afterwards:
every call has a result, and an interrupted answer keeps its text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from contextvars import copy_context
from itertools import groupby
from time import time
from typing import Any

from nbagent.core import events
from nbagent.core.aclose import aclose_if_possible
from nbagent.core.content.images import content_as_text, images_in
from nbagent.core.events import Event
from nbagent.core.history.repair import call_ids, missing_result, with_unique_ids
from nbagent.core.http_exchange import Exchange, stream_collecting
from nbagent.core.messages import FunctionCall, LLMMessage, LLMResponse, new_id
from nbagent.core.model_request import ModelRequest
from nbagent.core.queue import enclosing_runs
from nbagent.core.results import ToolOutcome
from nbagent.core.run import Run, current_run

log = logging.getLogger("nbagent")


class Turn:
    """One model request (`ask_model`) and the tool calls in its answer (`run_tools`), inside a `with` block."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.step = run.spent.iterations + 1
        self.meta: dict[str, Any] = {"run_id": run.run_id, "call_id": new_id("call")}
        self.text: list[str] = []
        self.response: LLMResponse | None = None
        self.calls: list[FunctionCall] = []
        self._call_ids: list[str] = []
        self._outcomes: dict[int, ToolOutcome] = {}
        self._results: dict[int, LLMMessage] = {}
        self._exchanges = 0
        #: Stands in the history until the answer is complete.
        self._placeholder = LLMMessage("assistant", "", interrupted=True)

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the history valid: it keeps the text so far, and each call has one result, in call order."""
        if self.response is None:
            partial = LLMMessage("assistant", "".join(self.text), interrupted=True, message_id=new_id("msg"))
            self._replace_placeholder(partial if partial.content else None)
            if partial.content:
                self.run.result.content = partial.text
                self.run.closing_messages.append(partial)
        for index, call in enumerate(self.calls):
            outcome = self._outcomes.get(index)
            message = self._results.get(index) or missing_result(call).replace(message_id=new_id("msg"))
            self.run.context.add_message(message)
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

    async def ask_model(self) -> AsyncGenerator[Event]:
        """Send the history and yield the answer as it comes."""
        run = self.run
        if run.context.strategy == "summarise" and (oldest := run.context.messages_to_drop()):
            async with aclosing(self._summarise(oldest)) as summing:
                async for event in summing:
                    yield event
        changes = run.context.prepare()
        request = run.next_request()
        if changes:
            yield run.emit(_context_event(changes, run.context.trimmed))
        run.context.add_message(self._placeholder)
        run.spent.iterations = self.step
        request = run.provider.resolve(request)
        started = events.TurnStarted(metadata=self._request_metadata(request), messages=request.messages)
        yield run.emit(started, self.meta)
        response: LLMResponse | None = None  # set on self only after closing the stream, which may be cancelled
        stream = run.provider.stream(request)
        if run.record_http:
            stream = stream_collecting(stream, self._record_exchange)
        async with aclose_if_possible(stream) as answer:
            async for item in answer:
                if isinstance(item, LLMResponse):
                    response = item
                    break
                if isinstance(item, events.Text):
                    self.text.append(item.content)
                elif isinstance(item, events.Retry):
                    item.metadata = {**item.metadata, "discard_chars": sum(map(len, self.text))}
                    self.text.clear()
                yield run.emit(item, self.meta)
        if response is None:
            raise RuntimeError(f"{type(run.provider).__name__}.stream() must end with an LLMResponse")
        for event in self._take_answer(response):
            yield event

    async def _summarise(self, oldest: list[LLMMessage]) -> AsyncGenerator[Event]:
        """Replace the oldest messages of a history over its limits by the model's summary.

        Without a summary the run goes on: the messages are then dropped.
        """
        run = self.run
        for part in run.context.split_at_current_turn(oldest):
            yield run.emit(events.Context(f"summarising {len(part)} old messages"))
            context = copy_context()
            context.run(current_run.set, run)
            try:
                summary = await asyncio.create_task(run.summarise(part), context=context)
            except Exception as error:  # a provider of the user's may raise anything
                log.warning("old messages are dropped without a summary", exc_info=True)
                yield run.emit(events.Context(f"no summary: {error or type(error).__name__}"))
                return
            run.context.drop(part, summary)
            yield run.emit(_context_event(f"summarised {len(part)} old messages", part))

    def _record_exchange(self, exchange: Exchange) -> None:
        """Make an event of an HTTP exchange. Nothing can be yielded here: the loop does it before the next event."""
        self._exchanges += 1
        metadata = {"attempt": self._exchanges, **exchange.summary()}
        self.run.pending_events.append(self.run.emit(events.Http(metadata=metadata, exchange=exchange), self.meta))

    def _request_metadata(self, request: ModelRequest) -> dict[str, Any]:
        provider = self.run.provider
        return {
            "step": self.step,
            "provider": provider.vendor,
            "model": provider.model_name,
            "base_url_host": getattr(provider, "base_url_host", None),
            "stream": getattr(provider, "streaming", None),
            "n_messages_in": len(request.messages),
            **request.effective_options,
        }

    def _take_answer(self, response: LLMResponse) -> Iterator[Event]:
        """Put a complete answer into the history, count its tokens, and announce its tool calls."""
        run, self.response = self.run, response
        calls = response.function_calls or []
        self.calls = with_unique_ids(calls, self.meta["call_id"], call_ids(run.context.messages)) if calls else []
        self._call_ids = [new_id("tool") for _ in self.calls]
        message = LLMMessage(
            "assistant",
            response.message_content,
            tool_calls=self.calls or None,
            provider_extras=response.raw_response,
            message_id=new_id("msg"),
        )
        self._replace_placeholder(message)
        run.context.record_usage(response.usage)
        cost = self._cost(response)
        run.spent.add(response.usage, cost)
        if message.content or not self.calls:
            run.result.content = message.text
        run.result.images += images_in(message.content)
        run.result.finish_reason = response.finish_reason
        if (response.metadata or {}).get("quoted"):
            run.result.metadata["quoted"] = True
        metadata = {"finish_reason": response.finish_reason}
        yield run.emit(events.TurnDone(response.content, None, None, metadata, response, message), self.meta)
        yield run.emit(events.UsageReport(metadata={**response.usage.to_dict(), "cost_usd": cost}), self.meta)
        for index, call in enumerate(self.calls):
            yield run.emit(events.ToolCall("", call.name, call.arguments, self._call_metadata(index)), self.meta)

    def _cost(self, response: LLMResponse) -> float | None:
        """US dollars; None if the token counts or their price are not known."""
        if not response.is_counted:
            return None
        metadata, provider = response.metadata or {}, self.run.provider
        model = metadata.get("model") or provider.model_name
        return self.run.price(response.usage, model, provider.vendor, metadata.get("usage_raw"))

    async def run_tools(self) -> AsyncGenerator[Event]:
        """Run the calls, parallel tools at the same time. Results are yielded as they come and kept in call order."""
        run, count = self.run, len(self.calls)
        if (limit := run.limits.max_tool_calls) is not None:
            count = max(0, min(count, limit - run.spent.tool_calls))
        for index in range(count, len(self.calls)):
            run.spent.refused = True
            text = "Not run: the limit of tool calls is reached."
            yield self._add_outcome(index, ToolOutcome(self.calls[index], text, is_error=True, started=time()))
        groups = groupby(range(count), key=lambda i: -1 if run.tools.is_parallel(self.calls[i].name) else i)
        for _, group in groups:
            async with aclosing(self._run_group(list(group))) as running:
                async for event in running:
                    yield event

    async def _run_group(self, group: list[int]) -> AsyncGenerator[Event]:
        """Run calls at the same time, each in a task with a context of its own."""
        run = self.run
        context = copy_context()
        context.run(enclosing_runs.set, enclosing_runs.get() | {run.entry})
        context.run(current_run.set, run)
        tasks: dict[asyncio.Task[ToolOutcome], int] = {}
        try:
            for index in group:
                call, own_context = self.calls[index], context.copy()
                started = events.ToolStarted("", call.name, call.arguments, self._call_metadata(index))
                yield own_context.run(run.emit, started, self.meta)  # the tool sees what observers set in the context
                tasks[asyncio.create_task(run.tools.run(call), context=own_context)] = index
            pending = set(tasks)
            while pending:
                finished, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
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
            for task, index in tasks.items():  # keep what was ready when the run was cancelled
                if task.done() and not task.cancelled() and task.exception() is None and index not in self._outcomes:
                    self._add_outcome(index, task.result())

    def _add_outcome(self, index: int, outcome: ToolOutcome) -> Event:
        """Keep the outcome of a call for the history and the result, and make its event."""
        run, call = self.run, self.calls[index]
        self._outcomes[index] = outcome
        message = self._results[index] = LLMMessage(
            "tool",
            outcome.content,
            name=call.name,
            tool_call_id=call.id,
            is_error=outcome.is_error,
            message_id=new_id("msg"),
        )
        run.spent.tool_calls += 1
        if outcome.denied:
            run.result.status = "denied"
        if not outcome.args_valid:
            run.result.metadata["validation_retries"] = run.result.metadata.get("validation_retries", 0) + 1
        text = content_as_text(outcome.content)
        metadata = {**self._call_metadata(index), "is_error": outcome.is_error, "duration_s": outcome.duration_s}
        event = events.ToolResult(text, outcome.call.name, outcome.call.arguments, metadata, outcome, message)
        return run.emit(event, self.meta)

    def _call_metadata(self, index: int) -> dict[str, Any]:
        call_id = self.calls[index].id
        return {"tool_call_id": self._call_ids[index], "wire_id": call_id, "index": index, "step": self.step}

    def _replace_placeholder(self, message: LLMMessage | None) -> None:
        """Put the answer in its place. If the history was cleared meanwhile, it stays empty."""
        messages = self.run.context.messages
        for index in range(len(messages) - 1, -1, -1):
            if messages[index] is self._placeholder:
                messages[index : index + 1] = [message] if message else []
                return


def _context_event(content: str, removed: Iterable[LLMMessage]) -> Event:
    """Tells what changed in the history, with the ids of the messages that left it."""
    ids = [message.message_id for message in removed if message.message_id]
    return events.Context(content, metadata={"trimmed": ids} if ids else {})
